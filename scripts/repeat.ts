/**
 * `npm run proof -- repeat [FILES…] [--times 20] [--load]`: runs test files repeatedly to find flaky ones. Without
 * FILES, runs those that start processes, race or kill. With --load, keeps one busy process per core running at the
 * same time. Continues after a failure; saves the output of each failed run in .cache/repeat.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { globSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { riskyTests } from './risky-tests.ts'
import { fail, say } from './step.ts'
import { setUpTests } from './test-set-up.ts'

interface Run {
  readonly passed: boolean
  readonly seconds: number
  readonly output: string
}

const TIMEOUT_MS = 300_000
const root = resolve(import.meta.dirname, '..')
const kept = join(root, '.cache/repeat')

const { values: flags, positionals: patterns } = parseArgs({
  allowPositionals: true,
  options: { times: { type: 'string', default: '20' }, load: { type: 'boolean', default: false } },
})
const times = Number(flags.times)
if (!Number.isSafeInteger(times) || times < 1)
  fail(`--times is ${flags.times}. It must be a whole number of at least 1.`)
const files =
  patterns.length === 0 ? riskyTests(root) : patterns.flatMap((pattern) => globSync(pattern, { cwd: root }).sort())
if (files.length === 0) fail(`No test file matches ${patterns.join(' ')}.`)

rmSync(kept, { recursive: true, force: true })
mkdirSync(kept, { recursive: true })
const setUp = await setUpTests({ freshCodeCache: false })
const load = flags.load ? Array.from({ length: availableParallelism() }, startBusyProcess) : []
process.on('exit', () => load.forEach((child) => child.kill('SIGKILL')))
say(
  `Running ${files.length} test files, ${times} times each${flags.load ? `, with ${load.length} busy processes` : ''}`,
)
process.stdout.write('passed failed  median   worst  file\n')
let failed = 0
for (const file of files) failed += await repeat(file)
for (const child of load) child.kill('SIGKILL')
await setUp[Symbol.asyncDispose]()
if (failed > 0) fail(`${failed} of ${files.length * times} runs failed; their output is in ${kept}.`)

/** Runs a file `times` times and prints its line; resolves to the number of failures. */
async function repeat(file: string): Promise<number> {
  const runs: Run[] = []
  for (let round = 1; round <= times; round++) {
    const done = await runOnce(file)
    runs.push(done)
    if (!done.passed) writeFileSync(join(kept, `${file.replaceAll('/', '_')}.${round}.log`), done.output)
  }
  const failures = runs.filter(({ passed }) => !passed).length
  const seconds = runs.map((done) => done.seconds).sort((a, b) => a - b)
  const figures = [seconds[Math.floor(seconds.length / 2)] ?? 0, seconds.at(-1) ?? 0]
  const columns = [times - failures, failures].map((count) => String(count).padStart(6))
  const durations = figures.map((figure) => `${figure.toFixed(1)} s`.padStart(7))
  process.stdout.write(`${[...columns, ...durations].join(' ')}  ${file}\n`)
  return failures
}

async function runOnce(file: string): Promise<Run> {
  const started = performance.now()
  const words = ['--test', '--test-reporter=spec', `--test-timeout=${TIMEOUT_MS}`, file]
  const child = spawn(process.execPath, words, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  }
  const code = await new Promise<number | null>((done, reject) => child.on('error', reject).on('close', done))
  return { passed: code === 0, seconds: (performance.now() - started) / 1000, output }
}

function startBusyProcess(): ChildProcess {
  return spawn(process.execPath, ['--eval', 'for (;;) {}'], { stdio: 'ignore' })
}
