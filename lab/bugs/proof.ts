/**
 * `npm run proof -- bugs [NAME…]`: applies each planted bug to a copy of the checkout, runs the test files that must notice
 * it, and fails if one does not. First runs these test files without any bug: they must pass.
 */
import { spawn, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { ensureDebian } from '../../scripts/debian.ts'
import { fail, say } from '../../scripts/step.ts'
import { setUpTests } from '../../scripts/test-set-up.ts'
import { applyHunk, type PlantedBug, plantedBugs } from './planted-bug.ts'

/** A run of a test file. */
interface Run {
  readonly passed: boolean
  /** The first test that failed. */
  readonly failed: string | undefined
  readonly output: string
}

const TIMEOUT_MS = 120_000
const FAILED = /^ *not ok \d+ - (.+)\n/m
const root = resolve(import.meta.dirname, '../..')
/** Of its own: two of these proofs may run at once. */
const place = join(root, `.cache/bugs-${process.pid}`)
const NOT_COPIED = new Set(['.git', '.cache', 'node_modules'])

const names = process.argv.slice(2)
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

const proofs = [...new Set(bugs.flatMap((bug) => bug.proofs))]
say(`Running ${proofs.length} test files without a bug`)
await shareOut(proofs, async (proof, copy) => {
  const run = await runTest(copy, proof)
  if (run.passed) return
  broken.push(proof)
  process.stdout.write(`${proof} fails without a bug:\n${run.output}\n`)
})
if (broken.length > 0) fail(`Without a bug, these fail: ${broken.join(', ')}.`)

say(`Planting ${bugs.length} bugs`)
await shareOut(bugs, async (bug, copy) => {
  for (const proof of bug.proofs) {
    const run = await runWith(bug, proof, copy)
    const first = run.failed
    if (run.passed || first === undefined) survivors.add(bug.name)
    const verdict = run.passed ? 'SURVIVES' : first === undefined ? 'NO TEST FAILED' : 'caught'
    process.stdout.write(
      `${verdict.padEnd(8)}  ${bug.name}: ${bug.about}\n${' '.repeat(10)}${proof}: ${first ?? '-'}\n`,
    )
    if (!run.passed && first === undefined) process.stdout.write(`${run.output}\n`)
  }
})
rmSync(place, { recursive: true, force: true })
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
  const { status, stderr } = spawnSync('cp', ['-al', join(root, 'node_modules'), copy], { encoding: 'utf8' })
  if (status !== 0) fail(`Linking the packages into ${copy} failed: ${stderr}`)
  return copy
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

/** Runs a test file until its first failure. */
async function runTest(copy: string, file: string): Promise<Run> {
  // Failures are printed when they happen only by the process that runs the file itself.
  const words = ['--test-reporter=tap', `--test-timeout=${TIMEOUT_MS}`, file]
  const child = spawn(process.execPath, words, { cwd: copy, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  let output = ''
  let failed: string | undefined
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
      if (failed !== undefined) return
      failed = FAILED.exec(output)?.[1]
      // What waits for something that the bug prevents would wait for its timeout.
      if (failed !== undefined && child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
    })
  }
  const code = await new Promise<number | null>((done, reject) => child.on('error', reject).on('close', done))
  return { passed: code === 0, failed, output }
}
