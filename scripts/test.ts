/** `npm test`: static checks, set-up and the usual tests. Arguments after `--` name test files to run on their own. */
import { globSync } from 'node:fs'
import { resolve } from 'node:path'
import { run as runTests } from 'node:test'
import { spec } from 'node:test/reporters'
import { longestFirst, saveDurations } from './durations.ts'
import { fail, run, say } from './step.ts'
import { bundleTests } from './test-bundles.ts'
import { groupFiles } from './test-groups.ts'
import { AT_ONCE, setUpTests } from './test-set-up.ts'
import { usualTests } from './whole-tests.ts'

/** Timeout of a file or group of files. Even on a busy machine, only a hung one takes that long. */
const TIMEOUT_MS = 900_000
/** Files that are named may be run in their long form. */
const LONG_TIMEOUT_MS = 7_200_000
/** Most objects of a test die young: a larger young generation saves a tenth of the CPU time. */
const NODE_FLAGS = [
  '--import',
  resolve(import.meta.dirname, 'no-test-hook.mjs'),
  '--min-semi-space-size=16',
  '--max-semi-space-size=32',
  '--enable-source-maps',
]

const root = resolve(import.meta.dirname, '..')
const chosen = process.argv.slice(2)
const named = chosen.flatMap((pattern) => globSync(pattern, { cwd: root }).sort())
const files = chosen.length > 0 ? [...new Set(named)] : usualTests(root)
if (files.length === 0) fail(`No test file matches ${chosen.join(' ')}.`)
if (chosen.length === 0 && (await run(process.execPath, ['scripts/check.ts'])) !== 0) process.exit(1)
const setUp = await setUpTests({ freshCodeCache: chosen.length === 0 })
say('Running the tests')
// Files that are named run on their own.
const failures = await runAll(
  longestFirst(root, chosen.length > 0 ? files : bundleTests(root, groupFiles(root, files))),
)
await setUp[Symbol.asyncDispose]()
if (failures > 0) fail('Some tests failed.')

/** Runs each file or group in its own process, and saves their durations if these are all files. */
async function runAll(files: readonly string[]): Promise<number> {
  let failed = 0
  const durations = new Map<string, number>()
  const paths = files.map((file) => resolve(root, file))
  const events = runTests({
    files: paths,
    execArgv: NODE_FLAGS,
    concurrency: AT_ONCE,
    timeout: chosen.length > 0 ? LONG_TIMEOUT_MS : TIMEOUT_MS,
  })
  events.on('test:summary', ({ success, file, duration_ms: ms }) => {
    if (!success) failed++
    if (file !== undefined) durations.set(file.slice(root.length + 1), ms / 1000)
  })
  events.on('test:fail', ({ name, file, details: { error } }) => {
    // A process that dies says nothing itself: its exit code or signal is all there is.
    const { exitCode, signal } = error as { exitCode?: unknown; signal?: unknown }
    if (exitCode !== undefined || signal)
      say(`${file ?? name}: exit code ${String(exitCode)}, signal ${String(signal)}`)
  })
  for await (const text of events.compose(new spec())) process.stdout.write(text as string)
  if (chosen.length === 0) saveDurations(root, durations)
  return failed
}
