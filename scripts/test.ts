/** `npm test`: static checks, set-up and every test. Arguments after `--` name test files to run on their own. */
import { globSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, resolve } from 'node:path'
import { run as runTests } from 'node:test'
import { spec } from 'node:test/reporters'
import { fail, run, say } from './step.ts'
import { setUpTests } from './test-set-up.ts'

/** Folders with slow files first, so that no core is idle at the end while another runs a slow file. */
const TESTS = ['tests/**/*.test.ts', 'packages/{cli,api,sdk}/test/**/*.test.ts', 'packages/*/test/**/*.test.ts']
/** Tests wait for other processes and for timers: one more test file than cores keeps all cores busy. */
const AT_ONCE = Math.max(3, availableParallelism() + 1)
const TIMEOUT_MS = 300_000
/** Files that are named may be run in their long form. */
const LONG_TIMEOUT_MS = 7_200_000

const root = resolve(import.meta.dirname, '..')
const chosen = process.argv.slice(2)
const files = [
  ...new Set((chosen.length > 0 ? chosen : TESTS).flatMap((pattern) => globSync(pattern, { cwd: root }).sort())),
]
if (files.length === 0) fail(`No test file matches ${chosen.join(' ')}.`)
if (chosen.length === 0 && (await run(process.execPath, ['scripts/check.ts'])) !== 0) process.exit(1)
const setUp = await setUpTests({ freshCodeCache: chosen.length === 0 })
say('Running the tests')
const failures = await runAll(files)
await setUp[Symbol.asyncDispose]()
if (failures > 0) fail('Some tests failed.')

/** Runs each file in its own process and writes their durations to .cache/durations.tsv. */
async function runAll(files: readonly string[]): Promise<number> {
  let failed = 0
  const durations: [seconds: number, file: string][] = []
  const paths = files.map((file) => resolve(root, file))
  const events = runTests({
    files: paths,
    concurrency: AT_ONCE,
    timeout: chosen.length > 0 ? LONG_TIMEOUT_MS : TIMEOUT_MS,
  })
  events.on('test:summary', ({ success, file, duration_ms: ms }) => {
    if (!success) failed++
    if (file !== undefined) durations.push([ms / 1000, file.slice(root.length + 1)])
  })
  events.on('test:fail', ({ name, file, details: { error } }) => {
    // A process that dies says nothing itself: its exit code or signal is all there is.
    const { exitCode, signal } = error as { exitCode?: unknown; signal?: unknown }
    if (exitCode !== undefined || signal)
      say(`${file ?? name}: exit code ${String(exitCode)}, signal ${String(signal)}`)
  })
  for await (const text of events.compose(new spec())) process.stdout.write(text as string)
  durations.sort(([a], [b]) => b - a)
  const lines = durations.map(([seconds, file]) => `${seconds.toFixed(1)}\t${file}\n`)
  writeFileSync(join(root, '.cache/durations.tsv'), lines.join(''))
  return failed
}
