import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, globSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { after, test } from 'node:test'

const root = resolve(import.meta.dirname, '../..')
const copy = mkdtempSync(join(tmpdir(), 'static-walls-'))
after(() => rmSync(copy, { recursive: true, force: true }))
for (const file of ['oxlint.config.ts', 'scripts/walls.ts', 'tsconfig.json', 'package.json'])
  cpSync(join(root, file), join(copy, file))
symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))

/** A breach in every folder makes the linter say much. */
const MOST_OUTPUT = 64 * 2 ** 20

/** Something that the linter complains about. */
interface Complaint {
  readonly code: string
  readonly filename: string
  readonly labels: readonly { readonly span: { readonly line: number } }[]
}

/** What the linter says of files that stand at these paths in the house, by rule, path and line. */
function lint(files: ReadonlyMap<string, string>): Set<string> {
  for (const [path, source] of files) {
    mkdirSync(dirname(join(copy, path)), { recursive: true })
    writeFileSync(join(copy, path), source)
  }
  const words = [join(root, 'node_modules/oxlint/bin/oxlint'), '--format=json', ...files.keys()]
  const { stdout, stderr } = spawnSync(process.execPath, words, { cwd: copy, encoding: 'utf8', maxBuffer: MOST_OUTPUT })
  for (const path of files.keys()) rmSync(join(copy, path))
  assert.equal(stderr, '')
  const { diagnostics } = JSON.parse(stdout) as { diagnostics: Complaint[] }
  return new Set(
    diagnostics.flatMap(({ code, filename, labels }) => labels.map(({ span }) => `${code} ${filename}:${span.line}`)),
  )
}

/** Plants imports, one a line, all at once: the linter takes a while to start. Gives those that it complains about. */
function plant(imports: readonly (readonly [path: string, specifier: string])[]): Set<string> {
  const files = Map.groupBy(imports, ([path]) => path)
  const sources = [...files].map(([path, lines]): [string, string] => [
    path,
    lines.map(([, specifier]) => `import '${specifier}'\n`).join(''),
  ])
  const complaints = lint(new Map(sources))
  const isRefused = ([path, specifier]: readonly [string, string]): boolean => {
    const line = 1 + (files.get(path) ?? []).findIndex(([, other]) => other === specifier)
    return complaints.has(`eslint(no-restricted-imports) ${path}:${line}`)
  }
  return new Set(imports.filter(isRefused).map(([path, specifier]) => `${path} ${specifier}`))
}

const WALLS = [
  ['packages/protocol/src/planted.ts', 'node:net'],
  ['packages/protocol/src/planted.ts', '@static/api'],
  ['packages/protocol/src/planted.ts', '../../api/src/index.ts'],
  ['packages/protocol/src/planted.ts', '@static/node/files'],
  ['packages/node/src/planted.ts', '@static/sdk'],
  ['packages/node/src/planted.ts', '@static/relay'],
  ['packages/node/src/planted.ts', '@static/api'],
  ['packages/node/src/planted.ts', '@static/cli/authority'],
  ['packages/node/src/planted.ts', '@static/testkit'],
  ['packages/node/src/planted.ts', 'ts-mls'],
  ['packages/node/src/quic/planted.ts', '../../../sdk/src/index.ts'],
  ['packages/api/src/planted.ts', '@static/cli'],
  ['packages/api/src/planted.ts', '@static/relay'],
  ['packages/api/src/planted.ts', 'kysely'],
  ['packages/api/src/planted.ts', 'fastify'],
  ['packages/api/src/rules/planted.ts', '../db/store.ts'],
  ['packages/api/src/routes/planted.ts', '../../../cli/src/program.ts'],
  ['packages/relay/src/planted.ts', '@static/api'],
  ['packages/relay/src/planted.ts', 'ts-mls'],
  ['packages/relay/src/planted.ts', '../../sdk/src/index.ts'],
  ['packages/relay/src/planted.ts', '../../node/src/sodium.ts'],
  ['packages/relay/src/core/planted.ts', 'node:crypto'],
  ['packages/relay/src/core/planted.ts', '@static/node/ed25519'],
  ['packages/relay/src/core/planted.ts', '../store/sqlite/store.ts'],
  ['packages/relay/src/store/planted.ts', '../transport/quic/transport.ts'],
  ['packages/relay/src/store/planted.ts', './sqlite/store.ts'],
  ['packages/relay/src/store/ledger/planted.ts', '../postgres/store.ts'],
  ['packages/relay/src/store/planted.ts', '../../../sdk/src/index.ts'],
  ['packages/relay/src/store/sqlite/planted.ts', '../postgres/store.ts'],
  ['packages/relay/src/store/sqlite/planted.ts', '../../transport/quic/transport.ts'],
  ['packages/relay/src/store/postgres/planted.ts', '../sqlite/store.ts'],
  ['packages/relay/src/store/postgres/planted.ts', '@static/relay/internal'],
  ['packages/relay/src/store/postgres/tables/planted.ts', '../../sqlite/store.ts'],
  ['packages/relay/src/store/copy/planted.ts', '../../core/relay.ts'],
  ['packages/relay/src/store/copy/planted.ts', '../../../../node/src/sodium.ts'],
  ['packages/relay/src/transport/planted.ts', '../store/sqlite/store.ts'],
  ['packages/a2a/src/planted.ts', '@static/relay'],
  ['packages/a2a/src/planted.ts', '@static/sdk/internal'],
  ['packages/a2a/src/planted.ts', '../../sdk/src/index.ts'],
  ['packages/sdk/src/planted.ts', '@static/relay'],
  ['packages/sdk/src/planted.ts', '@static/api'],
  ['packages/sdk/src/mls/ts-mls/planted.ts', '@static/cli'],
  ['packages/sdk/src/mls/planted.ts', '../../../relay/src/index.ts'],
  ['packages/sdk/src/mls/engine.ts', 'ts-mls'],
  ['packages/sdk/src/mls/aead.ts', 'ts-mls/mlsError.js'],
  ['packages/sdk/src/mls/provider.ts', 'ts-mls'],
  ['packages/sdk/src/mls/key-package.ts', 'ts-mls/keyPackage.js'],
  ['packages/sdk/src/mls/commit-rules.ts', 'ts-mls/clientState.js'],
  ['packages/sdk/src/ports/index.ts', '../store/sqlite.ts'],
  ['packages/sdk/src/ports/planted.ts', '../public/settings.ts'],
  ['packages/sdk/src/agent/planted.ts', '../session/core-runner.ts'],
  ['packages/sdk/src/agent/planted.ts', '../store/sqlite.ts'],
  ['packages/sdk/src/channel/sending/planted.ts', '../../transport/quic.ts'],
  ['packages/sdk/src/agent/planted.ts', '../admitting/invites.ts'],
  ['packages/sdk/src/channel/planted.ts', '../public/client.ts'],
  ['packages/sdk/src/channel/planted.ts', 'ts-mls'],
  ['packages/sdk/src/joining/planted.ts', '../session/core-runner.ts'],
  ['packages/sdk/src/admitting/planted.ts', '../store/sqlite.ts'],
  ['packages/sdk/src/joining/planted.ts', 'ts-mls'],
  ['packages/sdk/src/session/planted.ts', '../agent/agent.ts'],
  ['packages/sdk/src/session/planted.ts', '../transport/quic.ts'],
  ['packages/sdk/src/session/planted.ts', 'ts-mls'],
  ['packages/sdk/src/store/planted.ts', '../channel/journal.ts'],
  ['packages/sdk/src/store/tables/planted.ts', '../../session/core-runner.ts'],
  ['packages/sdk/src/store/planted.ts', '../admitting/link.ts'],
  ['packages/sdk/src/store/planted.ts', 'ts-mls'],
  ['packages/sdk/src/agent/planted.ts', 'node:crypto'],
  ['packages/sdk/src/channel/log/planted.ts', 'node:crypto'],
  ['packages/sdk/src/joining/planted.ts', '@static/node/compare'],
  ['packages/sdk/src/admitting/planted.ts', 'node:util'],
  ['packages/sdk/src/session/planted.ts', 'node:net'],
  ['packages/sdk/src/mls/planted.ts', '@static/node/ed25519'],
  ['packages/sdk/src/mls/ts-mls/planted.ts', 'node:crypto'],
  ['packages/sdk/src/store/rows/planted.ts', 'node:buffer'],
  ['packages/sdk/src/store/ring/planted.ts', 'node:fs'],
  ['packages/sdk/src/store/ring/planted.ts', '../../channel/journal.ts'],
  ['packages/sdk/src/transport/planted.ts', '../channel/journal.ts'],
  ['packages/sdk/src/transport/planted.ts', '../store/sqlite.ts'],
  ['packages/sdk/src/transport/planted.ts', 'ts-mls'],
  ['packages/sdk/src/transport/planted.ts', '@static/quic'],
  ['packages/sdk/src/transport/quic-package.ts', '@static/quic'],
  ['packages/cli/src/planted.ts', '@static/api'],
  ['packages/cli/src/planted.ts', '@static/relay'],
  ['packages/cli/src/planted.ts', '../../api/src/index.ts'],
  ['packages/console/src/planted.ts', 'node:fs'],
  ['packages/console/src/planted.ts', '@static/protocol'],
  ['packages/console/src/planted.ts', '@static/sdk'],
  ['packages/console/src/planted.ts', '@static/node/files'],
  ['packages/console/src/planted.ts', '../../api/src/index.ts'],
  ['packages/protocol/src/planted.ts', '@static/testkit/random'],
  ['packages/node/src/planted.ts', '@static/testkit/ports'],
  ['packages/api/src/planted.ts', '@static/testkit/random'],
  ['packages/api/src/rules/planted.ts', '@static/node/internal'],
  ['packages/relay/src/planted.ts', '@static/testkit/store/relay-memory'],
  ['packages/relay/src/core/planted.ts', '@static/testkit/random'],
  ['packages/relay/src/store/planted.ts', '@static/relay/internal'],
  ['packages/relay/src/transport/planted.ts', '@static/testkit/ports'],
  ['packages/sdk/src/planted.ts', '@static/testkit/store/agent-memory'],
  ['packages/sdk/src/mls/ts-mls/planted.ts', '@static/sdk/internal'],
  ['packages/cli/src/planted.ts', '@static/sdk/internal'],
  ['packages/cli/src/commands/up.ts', '@static/api'],
  ['packages/cli/src/commands/up.ts', '@static/relay'],
  ['packages/cli/src/commands/up.ts', '@static/relay/internal'],
  ['packages/cli/src/commands/up.ts', '@static/testkit/random'],
  ['packages/console/src/planted.ts', '@static/testkit/random'],
  ['packages/sdk/test/planted.ts', '../../relay/test/support/memory-relay.ts'],
  ['packages/sdk/test/support/planted.ts', '../../../relay/src/ports.ts'],
  ['packages/sdk/test/planted.ts', '../../testkit/src/random.ts'],
  ['packages/sdk/test/planted.ts', '@static/sdk/internal'],
  ['packages/relay/test/planted.ts', '@static/relay/internal'],
  ['packages/relay/test/planted.ts', '../../../bench/relay/load.ts'],
  ['packages/relay/test/planted.ts', '../../../tests/support/raw.ts'],
  ['packages/testkit/src/planted.ts', '../../relay/src/ports.ts'],
  ['packages/testkit/src/relay/planted.ts', '../../../relay/test/support/memory-relay.ts'],
  ['tests/planted.ts', '../packages/api/src/index.ts'],
  ['tests/e2e/planted.ts', '../../packages/relay/test/support/memory-relay.ts'],
  ['tests/planted.ts', '@static/relay/internal'],
  ['bench/planted.ts', '../packages/api/src/index.ts'],
  ['bench/relay/planted.ts', '../../packages/relay/test/support/memory-relay.ts'],
  ['bench/planted.ts', '@static/sdk/internal'],
  ['bench/planted.ts', '../tests/support/raw.ts'],
  ['bench/relay/planted.ts', '../../packages/a2a/src/index.ts'],
  ['lab/traffic/planted.ts', '../../packages/sdk/src/index.ts'],
  ['lab/traffic/planted.ts', '@static/sdk/internal'],
  ['packages/sdk/test/planted.ts', '../../a2a/src/index.ts'],
  ['packages/testkit/src/planted.ts', '../../a2a/src/index.ts'],
  ['packages/cli/src/commands/up.ts', '@static/a2a'],
  ['packages/cli/src/commands/up.ts', '../../../a2a/src/index.ts'],
  ['tests/planted.ts', '../packages/a2a/src/index.ts'],
  ['tests/planted.ts', '@static/a2a/internal'],
  ['packages/sdk/src/planted.ts', '@static/a2a/internal'],
  ['packages/sdk/test/planted.ts', '@static/a2a/internal'],
  ['examples/planted.ts', '../packages/a2a/src/index.ts'],
  ['examples/planted.ts', '@static/testkit/relay'],
  ['scripts/planted.ts', '@static/testkit/ports'],
] as const

const DOORS = [
  ['packages/protocol/src/planted.ts', './errors/errors.ts'],
  ['packages/node/src/planted.ts', '@static/protocol'],
  ['packages/api/src/planted.ts', '@static/protocol'],
  ['packages/api/src/secrets/planted.ts', '@static/node/sodium'],
  ['packages/api/src/db/planted.ts', 'kysely'],
  ['packages/api/src/routes/planted.ts', 'fastify'],
  ['packages/relay/src/core/planted.ts', '../ports.ts'],
  ['packages/relay/src/store/planted.ts', '../ports.ts'],
  ['packages/relay/src/store/planted.ts', 'node:sqlite'],
  ['packages/relay/src/store/sqlite/planted.ts', '../ledger/ledger.ts'],
  ['packages/relay/src/store/postgres/planted.ts', '@static/node/postgres-address'],
  ['packages/relay/src/store/postgres/tables/planted.ts', '../../records/entry.ts'],
  ['packages/relay/src/store/copy/planted.ts', '../sqlite/schema.ts'],
  ['packages/relay/src/store/copy/planted.ts', '../postgres/session.ts'],
  ['packages/relay/src/transport/planted.ts', '@static/quic'],
  ['packages/a2a/src/planted.ts', '@static/sdk'],
  ['packages/sdk/src/planted.ts', '@static/protocol'],
  ['packages/sdk/src/planted.ts', './session/core-runner.ts'],
  ['packages/sdk/src/ports/index.ts', './store.ts'],
  ['packages/sdk/src/ports/planted.ts', './ids.ts'],
  ['packages/sdk/src/agent/planted.ts', '../ports/refusal.ts'],
  ['packages/sdk/src/channel/planted.ts', '../mls/index.ts'],
  ['packages/sdk/src/joining/planted.ts', '../agent/services.ts'],
  ['packages/sdk/src/admitting/planted.ts', '../channel/channel.ts'],
  ['packages/sdk/src/session/planted.ts', '../ports/index.ts'],
  ['packages/sdk/src/store/planted.ts', '../ports/index.ts'],
  ['packages/sdk/src/store/planted.ts', 'node:fs'],
  ['packages/sdk/src/session/planted.ts', '#platform/turn'],
  ['packages/sdk/src/session/planted.ts', '@static/node/connection-error'],
  ['packages/sdk/src/transport/planted.ts', '../ports/index.ts'],
  ['packages/sdk/src/mls/ts-mls/planted.ts', 'ts-mls'],
  ['packages/cli/src/planted.ts', '@static/node/files'],
  ['packages/cli/src/commands/up.ts', '@static/sdk'],
  ['packages/console/src/planted.ts', 'preact'],
  ['packages/relay/test/support/planted.ts', '../../src/ports.ts'],
  ['packages/relay/test/planted.ts', '@static/testkit/random'],
  ['packages/testkit/src/planted.ts', '@static/relay/internal'],
  ['packages/a2a/test/planted.ts', '../src/index.ts'],
  ['tests/planted.ts', '@static/a2a'],
  ['tests/planted.ts', '@static/api'],
  ['tests/planted.ts', '@static/testkit/server'],
  ['bench/planted.ts', '@static/testkit/agent'],
  ['bench/planted.ts', '../lab/traffic/measure.ts'],
  ['lab/traffic/planted.ts', '@static/testkit/random'],
] as const

/** What no file of a package may import, whichever folder it is in. */
const EVERYWHERE = {
  a2a: ['@static/node/files', '@static/relay', '@static/api', '@static/cli/authority'],
  api: ['@static/sdk', '@static/relay', '@static/cli/authority', '@static/a2a'],
  cli: ['@static/api', '@static/relay', '@static/a2a'],
  console: [
    'node:fs',
    '@static/protocol',
    '@static/node/files',
    '@static/sdk',
    '@static/relay',
    '@static/api',
    '@static/a2a',
  ],
  node: ['@static/sdk', '@static/relay', '@static/api', '@static/cli/authority', 'ts-mls', '@static/a2a'],
  protocol: ['node:net', '@static/node/files', '@static/sdk', '@static/relay', '@static/api', '@static/a2a'],
  quic: ['@static/sdk', '@static/relay', '@static/api', '@static/cli/authority', 'ts-mls', '@static/a2a'],
  relay: ['@static/sdk', '@static/api', '@static/cli/authority', 'ts-mls', '@static/a2a'],
  sdk: ['@static/relay', '@static/api', '@static/cli/authority', '@static/a2a'],
} as const

function foldersOf(name: string): string[] {
  return [...new Set(globSync(`packages/${name}/src/**/*.{ts,tsx}`, { cwd: root }).map((path) => dirname(path)))]
}

const breaches = Object.entries(EVERYWHERE).flatMap(([name, specifiers]) => {
  const others = Object.keys(EVERYWHERE).filter((other) => other !== name)
  return foldersOf(name).flatMap((folder) => {
    const path = `${folder}/planted.ts`
    const up = '../'.repeat(folder.split('/').length - 1)
    const inside = others.map((other) => `${up}${other}/src/index.ts`)
    return [...specifiers, ...inside, '@static/testkit/random', '@static/sdk/internal'].map(
      (specifier) => [path, specifier] as const,
    )
  })
})

const refused = plant([...WALLS, ...DOORS, ...breaches])
for (const [path, specifier] of WALLS) {
  test(`the wall holds: ${path} may not import ${specifier}`, () => assert.ok(refused.has(`${path} ${specifier}`)))
}
for (const [path, specifier] of DOORS) {
  test(`the door is open: ${path} may import ${specifier}`, () => assert.ok(!refused.has(`${path} ${specifier}`)))
}

for (const name of Object.keys(EVERYWHERE)) {
  test(`the walls of ${name} hold in each of its folders`, () => {
    const own = breaches.filter(([path]) => path.startsWith(`packages/${name}/`))
    assert.ok(own.length > 0)
    assert.deepEqual(
      own.map((breach) => breach.join(' ')).filter((breach) => !refused.has(breach)),
      [],
    )
  })
}

test('commands that run servers load api and relay when they run, and no other file of the CLI does', () => {
  const server = 'packages/cli/src/commands/up.ts'
  const nested = 'packages/cli/src/commands/admin/backup.ts'
  const other = 'packages/cli/src/commands/planted.ts'
  const source = [
    "import { startApi } from '@static/api'",
    "import * as relay from '@static/relay'",
    "export { startProxy } from '@static/relay'",
    "export * from '@static/api'",
    "export const api = await import('@static/api')",
    "import type { Api } from '@static/api'",
    'export const used: unknown = [startApi, relay, {} as Api]',
  ].join('\n')
  const complaints = lint(new Map([server, nested, other].map((path) => [path, source])))
  const refusedLines = (path: string): number[] =>
    [1, 2, 3, 4, 5, 6, 7].filter((line) => complaints.has(`eslint(no-restricted-imports) ${path}:${line}`))
  assert.deepEqual(refusedLines(server), [1, 2, 3, 4])
  assert.deepEqual(refusedLines(nested), [1, 2, 3, 4])
  assert.deepEqual(refusedLines(other), [1, 2, 3, 4, 5])
})

test('a file of more than 700 lines, a function of more than 80, an import cycle and an `any` are refused', () => {
  const long = 'packages/relay/src/long.ts'
  const full = 'packages/cli/src/full.ts'
  const over = 'packages/cli/src/over.ts'
  const one = 'packages/relay/src/one.ts'
  const two = 'packages/relay/src/two.ts'
  const whole = 'packages/sdk/src/channel/planted-whole.ts'
  const part = 'packages/sdk/src/channel/planted-part.ts'
  const lines = (count: number): string => '  step()\n'.repeat(count)
  const functionOf = (name: string, count: number): string =>
    `export function ${name}(step: () => void): void {\n${lines(count - 2)}}\n`
  const complaints = lint(
    new Map([
      [long, functionOf('fits', 80) + functionOf('doesNot', 81)],
      [full, `export {}\n${'// a line\n'.repeat(699)}`],
      [over, `export {}\n${'// a line\n'.repeat(700)}`],
      [one, "import type { Two } from './two.ts'\nexport type One = Two | 1\n"],
      [two, "import type { One } from './one.ts'\nexport type Two = One | any\n"],
      [whole, "import { part } from './planted-part.ts'\nexport const whole = part\n"],
      [part, "import type { whole } from './planted-whole.ts'\nexport const part: typeof whole | 1 = 1\n"],
    ]),
  )
  for (const expected of [
    `eslint(max-lines-per-function) ${long}:81`,
    `import(no-cycle) ${one}:1`,
    `import(no-cycle) ${two}:1`,
    `typescript(no-explicit-any) ${two}:2`,
  ]) {
    assert.ok(complaints.has(expected), `${expected} is not in ${[...complaints].join(', ')}`)
  }
  assert.ok(!complaints.has(`eslint(max-lines-per-function) ${long}:1`))
  // Parts of a channel may name the type of the whole.
  for (const planted of [whole, part]) assert.ok(!complaints.has(`import(no-cycle) ${planted}:1`), planted)
  const files = [...complaints].filter((each) => each.startsWith('eslint(max-lines) '))
  assert.deepEqual(
    files.map((each) => each.replace(/:\d+$/, '')),
    [`eslint(max-lines) ${over}`],
  )
})

test('protocol, core and the rules of commits have no clock and no randomness, and no promise is left floating', () => {
  const protocol = 'packages/protocol/src/planted.ts'
  const core = 'packages/relay/src/core/planted.ts'
  const rules = 'packages/sdk/src/mls/commit-rules.ts'
  const ring = 'packages/sdk/src/store/ring/planted.ts'
  const api = 'packages/api/src/planted.ts'
  const clock = 'export const now: number = Date.now()\n'
  const floating = 'async function work(): Promise<void> {}\nexport function start(): void {\n  work()\n}\n'
  const complaints = lint(
    new Map([
      [protocol, clock],
      [rules, clock],
      [ring, 'export const bytes: Uint8Array = Buffer.alloc(1)\nsetImmediate(() => {})\n'],
      [core, `${clock}export const bit: number = Math.random()\n`],
      [api, floating],
    ]),
  )
  for (const expected of [
    `eslint(no-restricted-globals) ${protocol}:1`,
    `eslint(no-restricted-globals) ${rules}:1`,
    `eslint(no-restricted-globals) ${ring}:1`,
    `eslint(no-restricted-globals) ${ring}:2`,
    `eslint(no-restricted-properties) ${core}:1`,
    `eslint(no-restricted-properties) ${core}:2`,
    `typescript(no-floating-promises) ${api}:3`,
  ]) {
    assert.ok(complaints.has(expected), expected)
  }
})
