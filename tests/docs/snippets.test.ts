/** Every snippet of docs/ and of the package for Python: run in order, as somebody does who reads all of it. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { StaticClient } from '@static/sdk'
import { DOMAIN_PATH } from '@static/sdk/trust'
import { startIssuerWeb } from '@static/testkit/issuers/web'
import { quietPort } from '@static/testkit/ports'
import { commandIn } from '../cli/support.ts'
import { makeDatabase } from '../support/database.ts'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { pages, read, ROOT, type Snippet, snippetsOf } from './markdown.ts'
import { Reader } from './reader.ts'

/** Snippets that no reader runs here, and why. */
const NOT_RUN: Readonly<Record<string, string>> = {
  'docs/01-quickstart.md#A program sh 2': 'tests/pack/installed.ts runs it',
  'docs/06-self-hosting.md#On one machine sh 2': 'needs an authority; lab/acme/acme.test.ts runs it with Pebble',
  'docs/06-self-hosting.md#As a service sh 1':
    'needs systemd; the command of the unit is compared with the one that is run',
  'docs/a2a-binding.md#A2A over a channel json 1':
    'what a command prints; packages/cli/test/help.test.ts has the command',
  'docs/a2a-binding.md#Use it ts 1': 'packages/a2a/test/binding.test.ts does the same',
  'docs/a2a-binding.md#Use it python 1': 'python/tests/test_a2a.py does the same',
  'docs/a2a-binding.md#Calls json 1': 'a message, not a command',
  'docs/07-several-nodes.md#What talks to what sh 1': 'needs an object store; `npm run proof -- files` has one',
  'docs/07-several-nodes.md#From one machine to many sh 1': 'tests/e2e/copy.test.ts copies such files',
  ...Object.fromEntries(
    ['PostgreSQL sh 1', 'PostgreSQL sh 2', 'PostgreSQL sh 3', 'PostgreSQL text 1', 'PostgreSQL sh 4', 'PostgreSQL sh 5']
      .concat('PostgreSQL sh 6', 'Backups sh 1', 'Backups sh 2')
      .map((name) => [`docs/07-several-nodes.md#${name}`, 'tests/docs/postgres.test.ts runs it on two machines']),
  ),
  'docs/11-mcp.md#Configure a host json 1': 'tests/mcp/talk.test.ts starts what it configures',
  'docs/11-mcp.md#Configure a host json 2': 'the same',
  'docs/11-mcp.md#Configure a host json 3': 'the same',
  'docs/11-mcp.md#Configure a host toml 1': 'the same',
  ...Object.fromEntries(
    ['Anna creates the channel sh 1', 'Anna creates the channel json 1', 'Anna creates the channel json 2']
      .concat('Anna creates the channel sh 2', 'Ben joins sh 1', 'Ben joins json 1', 'Ben joins toml 1')
      .concat('They compare twelve words sh 1', 'One agent for several hosts json 1')
      .concat('One agent for several hosts toml 1')
      .map((name) => [`docs/16-two-coding-agents.md#${name}`, 'tests/mcp/talk.test.ts runs it for two users']),
  ),
  'docs/11-mcp.md#Without a waiting model sh 1': 'tests/mcp/handlers.test.ts runs such a command',
  ...Object.fromEntries(
    ['The command sh 1', 'The SDK sh 1', 'The SDK sh 2'].map((name) => [
      `docs/12-install.md#${name}`,
      'needs a release; lab/release/proof.ts runs it',
    ]),
  ),
  ...Object.fromEntries(
    ['GitHub Actions sh 2', 'Other issuers: GitLab, Google, companies sh 1', 'Kubernetes sh 1', 'SPIFFE sh 1'].map(
      (name) => [`docs/17-proofs.md#${name}`, 'needs the issuer; tests/cli/proofs.test.ts trusts one on loopback'],
    ),
  ),
  'docs/17-proofs.md#Other issuers: GitLab, Google, companies ts 1': 'needs a machine of Google',
  'docs/18-files.md#Send ts 1': 'needs a relay with files; packages/sdk/test/files/files.test.ts has one',
  'docs/18-files.md#Receive ts 1': 'the same',
  'docs/18-files.md#Python python 1': 'python/tests/test_files.py does the same',
  'docs/19-history.md#Turn it on sh 1': 'tests/cli/history.test.ts runs it',
  'docs/19-history.md#In a program ts 1': 'packages/sdk/test/keeping/at-rest.test.ts does the same',
  ...Object.fromEntries(
    [
      'A deploy that waits for two of three sh 1',
      'A deploy that waits for two of three sh 2',
      'Check it elsewhere sh 1',
    ].map((name) => [`docs/20-approvals.md#${name}`, 'tests/cli/approvals.test.ts runs it with three people']),
  ),
  'docs/20-approvals.md#In a program ts 1': 'packages/sdk/test/approvals/crash.test.ts does the same',
  'docs/12-install.md#The image sh 1': 'needs docker; lab/image/proof.ts builds the image with buildah',
  'python/README.md#Install sh 1': 'tests/python/static_sdk.test.ts installs the package by pip',
  'python/README.md#Talk python 1': 'tests/python/static_sdk.test.ts runs it',
  'python/README.md#Invite python 1': 'tests/python/static_sdk.test.ts runs it',
}
const LANGUAGES = ['sh', 'text', 'ts', 'python', 'json']
/** The id that stands for the old key in the page about keys. */
const OLD_KEY = '01a1dd29-fb99-77d8-bc4c-7c01980aa2e4'

const all = pages()
  .filter((page) => page !== 'README.md')
  .flatMap(snippetsOf)
const chosen = all.filter(({ name }) => !(name in NOT_RUN))

const workspace = await makeWorkspace()
const ports = await Promise.all(Array.from({ length: 10 }, quietPort))
const [api, grpc, quic, upApi, upGrpc, upQuic, apart, internal, relayGrpc, relayQuic] = ports
const postgres = await makeDatabase()
// The company and the service of the page about proofs are on this machine.
const web = await startIssuerWeb()
const pins = `$& --address ${web.address} --ca ${web.caFile}`
const reader = new Reader({
  workspace,
  env: { STATIC_API_URL: `https://localhost:${api}`, STATIC_RELAY: `quic://localhost:${quic}` },
  meanings: [
    // `npm test` has bundled the command, which starts in half of the time; tests/e2e/readme.test.ts runs the other one.
    ['$PWD/node_modules/.bin', `${dirname(commandIn(workspace))}:$PWD/node_modules/.bin`],
    ['npm start', `npm start -- ${serverFlags()}`],
    ['localhost:8443', `localhost:${api}`],
    ['localhost:5000', `localhost:${grpc}`],
    ['localhost:4433', `localhost:${quic}`],
    // The other machine is this one: tests/e2e/two-machines.test.ts has two.
    ['192.0.2.1:4433', `localhost:${quic}`],
    // The machines, files and ports of the pages about hosting.
    [/postgres:\/\/[^']*/g, postgres.url],
    ['--host ::', '--host localhost'],
    ['static up ', `static up --api-port ${upApi} --grpc-port ${upGrpc} --quic-port ${upQuic} --no-files `],
    ['api.example.com:8443', `localhost:${apart}`],
    ['api.example.com:8444', `localhost:${internal}`],
    ['--internal-port 8444', `--internal-port ${internal} --api-port ${apart}`],
    [/(--data-dir \S+static-api-2)$/gm, '$1 --api-port 0'],
    [
      'static relay ',
      `static relay --api-ca ${workspace.caFile} --grpc-port ${relayGrpc} --quic-port ${relayQuic} --no-files `,
    ],
    ['static proxy ', 'static proxy --grpc-port 0 '],
    [/\b\w+\.example\.com\b(?!\/)/g, 'localhost'],
    [/static (?:domain check|trust add) (?:acme\.example|github:acme\/app)$|rotate acme\.example --finish$/gm, pins],
    ['/etc/static/chain.pem', workspace.nameCertFile],
    ['/etc/static/key.pem', workspace.nameKeyFile],
    ['/var/lib/', `${workspace.path}/`],
  ],
})
web.pages.set(`acme.example${DOMAIN_PATH}`, (_, response) =>
  response.end(readFileSync(join(reader.directory, 'static-agents.json'))),
)
const { publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const keys = [{ ...publicKey.export({ format: 'jwk' }), kid: 'one', use: 'sig', alg: 'RS256' }]
web.pages.set('token.actions.githubusercontent.com/.well-known/jwks', JSON.stringify({ keys }))
after(async () => {
  await web[Symbol.asyncDispose]()
  await reader[Symbol.asyncDispose]()
  await postgres[Symbol.asyncDispose]()
  workspace[Symbol.dispose]()
})

/** The one server has the settings that the pages show, so they are right; and ports that nobody else has. */
function serverFlags(): string {
  const [forApi, forRelay] = chosen.filter(({ language }) => language === 'json').map(({ code }) => JSON.parse(code))
  const settings = workspace.file('settings.json', JSON.stringify({ ...QUICK, ...forApi }))
  const rates = { rates: { commitsPerSecond: 1000, guestCommitsPerSecond: 1000, channelCommitsPerSecond: 1000 } }
  const relay = workspace.file('relay-settings.json', JSON.stringify({ ...rates, ...forRelay }))
  const given = `--api-port ${api} --grpc-port ${grpc} --quic-port ${quic} --no-files`
  const [floor = ''] = /--traffic-floor \w+/.exec(read('docs/04-traffic.md')) ?? []
  return `${given} --settings ${settings} --relay-settings ${relay} ${floor} --log-level silent`
}

test('every snippet is covered by a test', () => {
  const names = all.map(({ name }) => name)
  assert.deepEqual(
    Object.keys(NOT_RUN).filter((name) => !names.includes(name)),
    [],
    'no longer there',
  )
  const unknown = chosen.filter(({ language }) => !LANGUAGES.includes(language))
  assert.deepEqual(
    unknown.map(({ name }) => name),
    [],
  )
})

test('the programs type-check', () => {
  const files = chosen.filter(({ language }) => language === 'ts').map(({ code }, at) => [`program-${at}.ts`, code])
  for (const [name = '', code = ''] of files) writeFileSync(join(reader.directory, `types-${name}`), code)
  const flags = '--ignoreConfig --noEmit --module nodenext --target esnext --strict --skipLibCheck --types node'
  const words = [...flags.split(' '), '--allowImportingTsExtensions', ...files.map(([name]) => `types-${name}`)]
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc')
  const { stdout } = spawnSync(process.execPath, [tsc, ...words], { cwd: reader.directory, encoding: 'utf8' })
  assert.equal(stdout, '')
})

for (const page of new Set(chosen.map((snippet) => snippet.page))) {
  test(`the snippets of ${page} work`, async () => {
    for (const snippet of chosen.filter((one) => one.page === page)) {
      if (snippet.code.includes(OLD_KEY)) reader.meanings.unshift([OLD_KEY, await idOfOldKey()])
      await reader.follow(snippet)
    }
    await reader.endPage()
  })
}

async function idOfOldKey(): Promise<string> {
  const { keys } = JSON.parse(await reader.shell('static keys list --json'))
  return keys.find(({ name }: { readonly name: string }) => name === 'default').id
}

test('the systemd service starts what the page has started', () => {
  const snippets = all.filter(({ page }) => page === 'docs/06-self-hosting.md')
  const unit = read('deploy/static.service')
  const [command = ''] = snippets.filter(({ language }) => language === 'sh').map(({ code }: Snippet) => code)
  assert.match(command, /^static up /)
  assert.equal(/^ExecStart=\/opt\/static\/node_modules\/\.bin\/(.*)$/m.exec(unit)?.[1], command)
})

test('the lowest profile that an operator accepts is the lowest that an agent gets', async () => {
  const dataDir = join(reader.home, 'open')
  const ca = join(reader.home, '.local/share/static/server/ca.pem')
  const where = { endpoint: `quic://localhost:${quic}`, apiKey: null, ca, dataDir, identity: 'open' }
  await assert.rejects(StaticClient.connect({ ...where, traffic: 'off' }), { code: 'not_allowed' })
  await (await StaticClient.connect({ ...where, traffic: 'standard' })).close()
})
