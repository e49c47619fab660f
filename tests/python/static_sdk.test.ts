/** The Python SDK on real servers: its own tests and the examples of its README. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { after, before, test } from 'node:test'
import { userPlaces } from '@static/sdk/account'
import { parseRoot, TrustStore } from '@static/sdk/trust'
import { type OidcIssuer, startOidcIssuer } from '@static/testkit/issuers/oidc'
import { makeClient } from '@static/testkit/server/client'
import { signUp } from '@static/testkit/server/accounts'
import { type Server, startServer } from '@static/testkit/server'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace, type Workspace } from '@static/testkit/server/workspace'
import { IS_WHOLE, WHOLE_ONLY } from '@static/testkit/whole'
import { install, installA2A, type Ran, runPython, SOURCES, testNames } from './installed.ts'

/** The short form: what dies, what is told once more, what is hostile, and one of everything else. */
const SHORT = [
  'tests.test_death',
  'tests.test_errors',
  'tests.test_typescript.TypeScriptTest.test_python_owns_and_typescript_joins_over_quic',
  'tests.test_aio.SameMethodsTest',
  'tests.test_aio.AioTest.test_a_channel_and_a_request_need_no_await',
  ...[
    'settling.SettlingTest.test_what_a_killed_program_may_have_seen_is_redelivered',
    'settling.SettlingTest.test_nothing_is_read_once_the_client_has_said_what_was_read',
    'settling.SettlingTest.test_a_handler_that_fails_with_an_endless_text_or_none_puts_its_message_aside',
    'life.KilledDriverTest.test_killed_in_send',
    'life.ParentTest.test_killed',
    'asks.AsksTest.test_a_member_answers_and_its_errors_have_codes',
    'asks.SchemaTest',
    'files',
    'driver.DriverTest.test_no_secret_in_the_arguments_and_no_node_variable_in_the_environment',
    'driver.DriverTest.test_compiled_code_is_kept_only_where_this_user_alone_can_write',
    'options.AccountTest',
    'proofs',
    'manager.ManagerTest.test_a_guest_joins_with_a_token_and_both_send',
    'surface.SurfaceTest.test_a_client_invites_and_joins',
    'surface.SurfaceTest.test_payloads_that_are_too_long_or_not_bytes_are_refused',
  ].map((name) => `tests.test_${name}`),
]

let workspace: Workspace
let server: Server
let home: string
let installed: string
let apiKey: string
let issuer: OidcIssuer

before(async () => {
  workspace = await makeWorkspace()
  home = workspace.directory('home')
  installed = workspace.directory('installed')
  const dataDir = join(home, '.local/share/static/server')
  const settings = { ...QUICK, quota: { free: null } }
  // The tests add members faster than any real user.
  const relay = {
    filesPort: 0,
    settings: { rates: { commitsPerSecond: 1000, guestCommitsPerSecond: 1000, channelCommitsPerSecond: 1000 } },
  }
  const options = { workspace, dataDir, command: 'up', settings, relay, logLevel: 'silent' } as const
  ;[server, , issuer] = await Promise.all([startServer(options), install(installed), startOidcIssuer()])
  const pin = { address: issuer.address, ca: issuer.ca }
  new TrustStore(userPlaces({ HOME: home }).trust).change(() => [{ root: parseRoot(`oidc:${issuer.issuer}`, { pin }) }])
  using client = makeClient(server.url, readFileSync(join(dataDir, 'ca.pem'), 'utf8'))
  apiKey = (await signUp(client)).api_key.key
})

after(async () => {
  await issuer[Symbol.asyncDispose]()
  await server[Symbol.asyncDispose]()
  workspace[Symbol.dispose]()
})

// To run some of them: STATIC_PYTHON_TESTS=tests.test_life npm test -- tests/python/static_sdk.test.ts
test('the tests of static_sdk pass with the package installed by pip', async (t) => {
  const chosen = process.env['STATIC_PYTHON_TESTS']?.split(' ') ?? (IS_WHOLE ? testNames() : SHORT)
  const { code, stdout, stderr } = await runTests(['-X', 'dev', '-m', 'unittest', '-v', ...chosen])
  assert.equal(code, 0, stdout + stderr)
  assert.doesNotMatch(stdout + stderr, /Warning|Traceback/)
  t.diagnostic(stderr.trim().split('\n').slice(-3).join(' '))
})

test('A2A over a channel works with a2a-sdk', WHOLE_ONLY, async (t) => {
  const found = await installA2A()
  if ('reason' in found) return t.skip(`a2a-sdk cannot be installed from PyPI: ${found.reason}`)
  const { code, stdout, stderr } = await runTests(['-m', 'unittest', '-v', 'tests.test_a2a'], found.directory)
  assert.equal(code, 0, stdout + stderr)
  assert.doesNotMatch(stderr, /skipped/)
})

/** Runs Python with the installed package, its tests and where the server is. */
async function runTests(words: readonly string[], ...paths: readonly string[]): Promise<Ran> {
  const place = {
    quic: `quic://localhost:${server.relay.quicPort}`,
    grpc: `https://localhost:${server.relay.grpcPort}`,
    apiUrl: server.url,
    ca: join(home, '.local/share/static/server/ca.pem'),
    apiKey,
    issuer: { address: issuer.address, ca: issuer.caFile },
    directory: workspace.directory(`agents-${words.length}`),
  }
  const env = {
    HOME: home,
    PYTHONPATH: [installed, SOURCES, ...paths].join(delimiter),
    STATIC_NODE: process.execPath,
    STATIC_MESSAGES: process.env['STATIC_MESSAGES'],
    STATIC_TEST_SERVER: JSON.stringify(place),
  }
  return await runPython(words, env, home)
}

const examples = [...readFileSync(join(SOURCES, 'README.md'), 'utf8').matchAll(/```python\n([\s\S]*?)```/g)]

/** Runs an example of the README against this server. */
async function runExample([, example = '']: readonly string[], env: NodeJS.ProcessEnv): Promise<void> {
  const here = example
    .replace('quic://localhost:4433', `quic://localhost:${server.relay.quicPort}`)
    .replace('https://localhost:8443', server.url)
    .replaceAll('acme/', `acme-${Object.keys(env).length}/`)
  assert.notEqual(here, example)
  const { code, stdout, stderr } = await runPython(
    ['-c', here],
    { HOME: home, STATIC_API_KEY: apiKey, ...env },
    workspace.directory(`example-${Object.keys(env).length}-${example.length}`),
  )
  assert.deepEqual([code, stdout, stderr], [0, 'hello\n', ''])
}

test('the examples of its README run with the installed package', async () => {
  assert.equal(examples.length, 2)
  for (const example of examples) {
    await runExample(example, { PYTHONPATH: installed, STATIC_NODE: process.execPath })
  }
})

test('in a checkout PYTHONPATH=python is sufficient', async () => {
  const [example] = examples
  assert.ok(example)
  await runExample(example, { PYTHONPATH: SOURCES })
})
