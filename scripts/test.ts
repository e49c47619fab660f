/** `npm test`: set-up, static checks and every test. Words after `--` name test files to run alone. */
import { mkdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { ensureCapture, ensureDebian } from './debian.ts'
import { startPostgres } from './postgres.ts'
import { fail, run, say } from './step.ts'

const TESTS = ['packages/*/test/**/*.test.ts', 'tests/**/*.test.ts']
const root = resolve(import.meta.dirname, '..')
const temporary = join(root, '.cache/tmp')
mkdirSync(temporary, { recursive: true })

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
const postgres = await startPostgres(temporary)
// Of whoever runs the tests: an agent, an account or a database that is none of theirs.
const personal = ['API_KEY', 'API_URL', 'CA', 'DATABASE', 'DATA_DIR', 'IDENTITY', 'NODE', 'RELAY', 'RELAY_NAME']
for (const name of personal) delete process.env[`STATIC_${name}`]
say('Running the tests')
const code = await run(
  process.execPath,
  ['--test', '--test-concurrency=3', '--test-timeout=300000', ...(chosen.length > 0 ? chosen : TESTS)],
  { STATIC_TEST_POSTGRES: postgres.url, TMPDIR: temporary },
)
await postgres.stop()
if (code !== 0) fail('Some tests failed.')
