/** `npm test`: set-up, static checks and every test. Words after `--` name test files to run alone. */
import { spawnSync } from 'node:child_process'
import { globSync, mkdirSync, readdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, resolve } from 'node:path'
import { run as runTests } from 'node:test'
import { spec } from 'node:test/reporters'
import { ensureCapture, ensureDebian } from './debian.ts'
import { startPostgres } from './postgres.ts'
import { fail, run, say } from './step.ts'

/** Folders with long files first, so that no core idles at the end while the other runs a long one. */
const TESTS = ['tests/**/*.test.ts', 'packages/{cli,api,sdk}/test/**/*.test.ts', 'packages/*/test/**/*.test.ts']
/** Tests wait for other processes and for timers: one more than there are cores keeps all of them busy. */
const AT_ONCE = Math.max(3, availableParallelism() + 1)
const TIMEOUT_MS = 300_000
/** What the temporary files need at most. */
const ENOUGH_MEMORY = 4 * 1024 ** 3

const root = resolve(import.meta.dirname, '..')
const chosen = process.argv.slice(2)
if (chosen.length === 0 && (await run(process.execPath, ['scripts/check.ts'])) !== 0) process.exit(1)
const python = '/usr/lib/python3/dist-packages'
await ensureDebian('curl', '/usr/bin/curl', 'The test of the README')
await ensureDebian('python3-pip', `${python}/pip/__init__.py`, 'The test of the package for Python')
await ensureDebian('python3-grpcio', `${python}/grpc/__init__.py`, 'The test with Python')
await ensureDebian('python3-protobuf', `${python}/google/protobuf/__init__.py`, 'The test with Python')
await ensureDebian('python3-cryptography', `${python}/cryptography/__init__.py`, 'The test with Python')
await ensureDebian('chromium', '/usr/bin/chromium', 'The test in a browser')
await ensureCapture('The test of the traffic')
const temporary = temporaryDirectory()
const postgres = await startPostgres(temporary)
// Of whoever runs the tests: an agent, an account or a database that is none of theirs.
const personal = ['API_KEY', 'API_URL', 'CA', 'DATABASE', 'DATA_DIR', 'IDENTITY', 'NODE', 'RELAY', 'RELAY_NAME']
for (const name of personal) delete process.env[`STATIC_${name}`]
process.env['STATIC_TEST_POSTGRES'] = postgres.url
process.env['TMPDIR'] = temporary
process.env['NODE_COMPILE_CACHE'] = compileCache()
say('Running the tests')
const files = [
  ...new Set((chosen.length > 0 ? chosen : TESTS).flatMap((pattern) => globSync(pattern, { cwd: root }).sort())),
]
if (files.length === 0) fail(`No test file is called ${chosen.join(' ')}.`)
const failures = await runAll(files)
await postgres.stop()
rmSync(temporary, { recursive: true, force: true })
if (failures > 0) fail('Some tests failed.')

/** Runs the files, each in a process of its own; notes in .cache/durations.tsv how long each took. */
async function runAll(files: readonly string[]): Promise<number> {
  let failed = 0
  const durations: [seconds: number, file: string][] = []
  const paths = files.map((file) => resolve(root, file))
  const events = runTests({ files: paths, concurrency: AT_ONCE, timeout: TIMEOUT_MS })
  events.on('test:summary', ({ success, file, duration_ms: ms }) => {
    if (!success) failed++
    if (file !== undefined) durations.push([ms / 1000, file.slice(root.length + 1)])
  })
  for await (const text of events.compose(new spec())) process.stdout.write(text as string)
  durations.sort(([a], [b]) => b - a)
  const lines = durations.map(([seconds, file]) => `${seconds.toFixed(1)}\t${file}\n`)
  writeFileSync(join(root, '.cache/durations.tsv'), lines.join(''))
  return failed
}

/**
 * In memory where there is room: the tests kill processes, never the machine, so what they prove does not depend on a
 * disk, and they would wait for it thousands of times.
 */
function temporaryDirectory(): string {
  const parent = hasRoom('/dev/shm') ? '/dev/shm' : join(root, '.cache/tmp')
  mkdirSync(parent, { recursive: true })
  for (const name of readdirSync(parent)) {
    // Left behind by a run that was killed.
    const [, pid] = /^static-test-(\d+)$/.exec(name) ?? []
    if (pid !== undefined && !isRunning(Number(pid))) rmSync(join(parent, name), { recursive: true, force: true })
  }
  const directory = join(parent, `static-test-${process.pid}`)
  // The user of PostgreSQL must be able to enter it.
  mkdirSync(directory, { mode: 0o755 })
  return directory
}

function hasRoom(directory: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(directory)
    if (bavail * bsize < ENOUGH_MEMORY) return false
    // Programs are installed and run there: not every machine allows that.
    const probe = join(directory, `static-probe-${process.pid}`)
    writeFileSync(probe, '#!/bin/sh\n', { mode: 0o700 })
    try {
      return spawnSync(probe).status === 0
    } finally {
      rmSync(probe)
    }
  } catch {
    return false
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Compiled code for all processes of the tests: half of what a process does before its first test is to compile. */
function compileCache(): string {
  const directory = join(root, '.cache/compiled')
  // Programs in temporary directories leave their code here, too.
  if (chosen.length === 0) rmSync(directory, { recursive: true, force: true })
  return directory
}
