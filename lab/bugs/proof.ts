/**
 * `npm run proof -- bugs [--resume] [NAME…]`: applies each planted bug to a copy of the checkout, runs the test files
 * that must notice it, and fails if one does not. First runs these test files without any bug: they must pass. One bug
 * at a time on each core. `--resume` skips what an interrupted run of the same checkout has found.
 */
import { spawn, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { ensureDebian } from '../../scripts/debian.ts'
import { fail, say } from '../../scripts/step.ts'
import { setUpTests } from '../../scripts/test-set-up.ts'
import { applyHunk, type PlantedBug, plantedBugs } from './planted-bug.ts'
import { type Outcome, Progress } from './progress.ts'

/** A run of a test file. */
interface Run {
  readonly passed: boolean
  readonly isLate: boolean
  readonly seconds: number
  /** The tests that failed, in that order. */
  readonly failed: readonly string[]
  readonly output: string
}

/** Timeout of a test: on a slow machine, the one of static_sdk takes two minutes. */
const TIMEOUT_MS = 300_000
/** Timeout of a whole file: a bug may make it hang while no test is running. */
const FILE_TIMEOUT_MS = 600_000
const RESUME = '--resume'
/** How long a file goes on after its first failure, to see which other tests notice the bug. */
const GRACE_MS = 4000
const FAILED = /^ *not ok \d+ - (.+)\n/gm
const root = resolve(import.meta.dirname, '../..')
/** A separate directory for each run: two of these proofs may run at once. */
const place = join(root, `.cache/bugs-${process.pid}`)
const NOT_COPIED = new Set(['.git', '.cache', 'node_modules'])

const names = process.argv.slice(2).filter((word) => word !== RESUME)
const progress = new Progress(root, process.argv.includes(RESUME))
const all = plantedBugs(root)
const unknown = names.find((name) => !all.some((bug) => bug.name === name))
if (unknown !== undefined)
  fail(`There is no planted bug ${unknown}. lab/bugs has: ${all.map(({ name }) => name).join(', ')}.`)
const bugs = names.length > 0 ? all.filter(({ name }) => names.includes(name)) : all

await using setUp = await setUpTests({ freshCodeCache: false })
void setUp
process.env['STATIC_TEST_STRACE'] = await ensureDebian('strace', '/usr/bin/strace', 'The proof')
// The bundles hold the code without the bug.
delete process.env['STATIC_TEST_BUNDLES']
const copies = Array.from({ length: availableParallelism() }, (_, at) => makeCopy(join(place, String(at))))
const broken: string[] = []
const survivors = new Set<string>()
const table: string[] = []

const proofs = [...new Set(bugs.flatMap((bug) => bug.proofs))]
say(`Running ${proofs.length} test files without a bug`)
await shareOut(proofs, async (proof, copy) => {
  if (progress.of(proof)) return
  const run = await runTest(copy, proof)
  if (run.passed) return progress.add(proof, { verdict: 'passes', seconds: run.seconds })
  broken.push(proof)
  process.stdout.write(`${proof} fails without a bug:\n${run.output}\n`)
})
if (broken.length > 0) fail(`Without a bug, these fail: ${broken.join(', ')}.`)

say(`Planting ${bugs.length} bugs`)
await shareOut(bugs, async (bug, copy) => {
  for (const proof of bug.proofs) {
    const key = `${bug.name} ${proof}`
    const outcome = progress.of(key) ?? (await plant(bug, proof, copy))
    progress.add(key, outcome)
    const { verdict, seconds, failed } = outcome
    if (verdict !== 'caught') survivors.add(bug.name)
    const row = `${verdict.padEnd(8)} ${seconds.toFixed(0).padStart(4)} s  ${bug.name}: ${bug.about}`
    table.push(row)
    process.stdout.write(`${row}\n${' '.repeat(17)}${proof}: ${failed?.join(' · ') ?? '-'}\n`)
  }
})
rmSync(place, { recursive: true, force: true })
process.stdout.write(`\n${table.sort().join('\n')}\n\n`)
process.stdout.write(`promise T14: ${bugs.length - survivors.size} of ${bugs.length} planted bugs caught\n`)
if (survivors.size > 0) fail(`Not caught: ${[...survivors].join(', ')}. A bug that survives is a missing test.`)

/** Works on items, one at a time in each copy of the checkout. */
async function shareOut<Item>(
  items: readonly Item[],
  work: (item: Item, copy: string) => Promise<void>,
): Promise<void> {
  const queue = items.values()
  await Promise.all(
    copies.map(async (copy) => {
      for (const item of queue) await work(item, copy)
    }),
  )
}

/** Packages are linked, not copied: nothing changes them. */
function makeCopy(copy: string): string {
  rmSync(copy, { recursive: true, force: true })
  mkdirSync(copy, { recursive: true })
  const isCopied = (path: string): boolean => !NOT_COPIED.has(basename(path))
  for (const name of readdirSync(root).filter(isCopied))
    cpSync(join(root, name), join(copy, name), { recursive: true, filter: isCopied })
  // A package has those of its own of which the others use another version.
  for (const directory of ['.', ...readdirSync(join(root, 'packages')).map((name) => join('packages', name))]) {
    if (!existsSync(join(root, directory, 'node_modules'))) continue
    const words = ['-al', join(root, directory, 'node_modules'), join(copy, directory)]
    const { status, stderr } = spawnSync('cp', words, { encoding: 'utf8' })
    if (status !== 0) fail(`Linking the packages into ${copy} failed: ${stderr}`)
  }
  return copy
}

async function plant(bug: PlantedBug, proof: string, copy: string): Promise<Outcome> {
  const { passed, isLate, failed, seconds, output } = await runWith(bug, proof, copy)
  if (passed) return { verdict: 'SURVIVES', seconds }
  if (failed.length > 0) return { verdict: 'caught', seconds, failed }
  process.stdout.write(`${output}\n`)
  return { verdict: isLate ? 'TIMEOUT' : 'NO TEST FAILED', seconds }
}

async function runWith(bug: PlantedBug, proof: string, copy: string): Promise<Run> {
  const originals = new Map<string, string>()
  try {
    for (const hunk of bug.hunks) {
      const path = join(copy, hunk.path)
      const text = readFileSync(path, 'utf8')
      if (!originals.has(path)) originals.set(path, text)
      writeFileSync(path, applyHunk(text, hunk))
    }
    return await runTest(copy, proof)
  } finally {
    for (const [path, text] of originals) writeFileSync(path, text)
  }
}

/** Runs a test file, until a moment after its first failure. */
async function runTest(copy: string, file: string): Promise<Run> {
  // Only the process that runs the file itself prints failures as they happen.
  const words = ['--test-reporter=tap', `--test-timeout=${TIMEOUT_MS}`, file]
  const child = spawn(process.execPath, words, { cwd: copy, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  let output = ''
  let isLate = false
  const started = performance.now()
  const end = (): void => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL')
  }
  const timer = setTimeout(() => {
    isLate = true
    end()
  }, FILE_TIMEOUT_MS)
  let grace: NodeJS.Timeout | undefined
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
      // A test that waits for something that the bug prevents would wait for its timeout.
      if (grace === undefined && failedIn(output).length > 0) grace = setTimeout(end, GRACE_MS)
    })
  }
  const code = await new Promise<number | null>((done, reject) => child.on('error', reject).on('close', done))
  clearTimeout(timer)
  clearTimeout(grace)
  const failed = failedIn(output)
  return { passed: code === 0, isLate, failed, output, seconds: (performance.now() - started) / 1000 }
}

function failedIn(output: string): readonly string[] {
  return [...new Set([...output.matchAll(FAILED)].map(([, name = '']) => name))]
}
