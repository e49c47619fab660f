/**
 * `npm run proof -- repeat [FILES…] [--times 20] [--load] [--resume]`: runs test files repeatedly to find flaky ones, as many at
 * once as `npm test` does. Without FILES, runs those that start processes, race or kill. With --load, keeps one busy
 * process per core running at the same time. Continues after a failure; saves the output of each failed run in
 * .cache/repeat. Ctrl-C ends it and shows the results so far; --resume goes on after it.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { appendFileSync, existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { longestFirst } from './durations.ts'
import { riskyTests } from './risky-tests.ts'
import { fail, say } from './step.ts'
import { AT_ONCE, setUpTests } from './test-set-up.ts'

interface Run {
  readonly passed: boolean
  readonly seconds: number
}

const TIMEOUT_MS = 300_000
const PROGRESS_MS = 60_000
const root = resolve(import.meta.dirname, '..')
const kept = join(root, '.cache/repeat')
/** A line for each run. */
const log = join(kept, 'runs.tsv')

const { values: flags, positionals: patterns } = parseArgs({
  allowPositionals: true,
  options: {
    times: { type: 'string', default: '20' },
    load: { type: 'boolean', default: false },
    resume: { type: 'boolean', default: false },
  },
})
const times = Number(flags.times)
if (!Number.isSafeInteger(times) || times < 1)
  fail(`--times is ${flags.times}. It must be a whole number of at least 1.`)
const files = longestFirst(
  root,
  patterns.length === 0 ? riskyTests(root) : patterns.flatMap((pattern) => globSync(pattern, { cwd: root }).sort()),
)
if (files.length === 0) fail(`No test file matches ${patterns.join(' ')}.`)

if (!flags.resume) rmSync(kept, { recursive: true, force: true })
mkdirSync(kept, { recursive: true })
const setUp = await setUpTests({ freshCodeCache: false })
const load = flags.load ? Array.from({ length: availableParallelism() }, startBusyProcess) : []
process.on('exit', () => load.forEach((child) => child.kill('SIGKILL')))
say(
  `Running ${files.length} test files, ${times} times each${flags.load ? `, with ${load.length} busy processes` : ''}`,
)
const results = new Map<string, Run[]>(files.map((file) => [file, runsBefore(file)]))
const before = new Map([...results].map(([file, runs]) => [file, runs.length]))
// Rounds, not files, come one after the other: all files get their turn, however early the run is stopped.
const queue = Array.from({ length: times }, (_, at) => files.map((file) => ({ file, round: at + 1 })))
  .flat()
  .filter(({ file, round }) => round > (before.get(file) ?? 0))
  .values()
let done = [...results.values()].flat().length
let stopped = false
process.on('SIGINT', () => {
  stopped = true
})
const progress = setInterval(report, PROGRESS_MS)
await Promise.all(Array.from({ length: Math.min(AT_ONCE, files.length) }, work))
clearInterval(progress)
for (const child of load) child.kill('SIGKILL')
await setUp[Symbol.asyncDispose]()
process.stdout.write('passed failed  median   worst  file\n')
for (const line of summary()) process.stdout.write(`${line}\n`)
const failed = failures()
if (failed > 0) fail(`${failed} of ${done} runs failed; their output is in ${kept}.`)
if (stopped) fail(`Stopped after ${done} of ${files.length * times} runs.`)

/** Takes runs from the queue until it is empty. */
async function work(): Promise<void> {
  for (const { file, round } of queue) {
    const { passed, seconds, output } = await runOnce(file)
    if (stopped) return
    done++
    results.get(file)?.push({ passed, seconds })
    appendFileSync(log, `${file}\t${passed}\t${seconds.toFixed(1)}\n`)
    if (passed) continue
    const path = join(kept, `${file.replaceAll('/', '_')}.${round}.log`)
    writeFileSync(path, output)
    say(`${file} failed in round ${round}; its output is in ${path}`)
  }
}

/** Runs of a file that an interrupted proof has done. */
function runsBefore(file: string): Run[] {
  const lines = existsSync(log) ? readFileSync(log, 'utf8').split('\n') : []
  return lines
    .map((line) => line.split('\t'))
    .filter(([name]) => name === file)
    .map(([, passed, seconds]) => ({ passed: passed === 'true', seconds: Number(seconds) }))
}

function report(): void {
  say(`${done} of ${files.length * times} runs done, ${failures()} failed`)
}

function failures(): number {
  return [...results.values()].flat().filter(({ passed }) => !passed).length
}

/** A line for each file that was run, the slowest first. */
function summary(): string[] {
  const lines = [...results].flatMap(([file, runs]) => {
    const seconds = runs.map((run) => run.seconds).sort((a, b) => a - b)
    const worst = seconds.at(-1)
    if (worst === undefined) return []
    const median = seconds[Math.floor(seconds.length / 2)] ?? 0
    const passed = runs.filter((run) => run.passed).length
    const columns = [passed, runs.length - passed].map((count) => String(count).padStart(6))
    const durations = [median, worst].map((figure) => `${figure.toFixed(1)} s`.padStart(7))
    return [{ median, line: `${[...columns, ...durations].join(' ')}  ${file}` }]
  })
  return lines.sort((a, b) => b.median - a.median).map(({ line }) => line)
}

async function runOnce(file: string): Promise<Run & { readonly output: string }> {
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
