import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { after, test } from 'node:test'

const root = resolve(import.meta.dirname, '../..')
const copy = mkdtempSync(join(tmpdir(), 'static-walls-'))
after(() => rmSync(copy, { recursive: true, force: true }))
for (const file of ['.oxlintrc.json', 'tsconfig.json', 'package.json']) cpSync(join(root, file), join(copy, file))
symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))

/** What the linter says of one file that stands at this path in the house. */
function lint(path: string, source: string): { status: number | null; output: string } {
  const file = join(copy, path)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, source)
  const linter = join(root, 'node_modules/oxlint/bin/oxlint')
  const { status, stdout, stderr } = spawnSync(process.execPath, [linter, path], { cwd: copy, encoding: 'utf8' })
  rmSync(file)
  return { status, output: stdout + stderr }
}

const side = (specifier: string): string => `import '${specifier}'\n`

for (const [path, specifier] of [
  ['packages/protocol/src/planted.ts', 'node:net'],
  ['packages/protocol/src/planted.ts', '@static/api'],
  ['packages/protocol/src/planted.ts', '../../api/src/index.ts'],
  ['packages/api/src/planted.ts', '@static/cli'],
  ['packages/api/src/planted.ts', '@static/relay'],
  ['packages/api/src/planted.ts', 'kysely'],
  ['packages/api/src/planted.ts', 'fastify'],
  ['packages/api/src/rules/planted.ts', '../db/store.ts'],
  ['packages/api/src/routes/planted.ts', '../../../cli/src/main.ts'],
  ['packages/relay/src/planted.ts', '@static/api'],
  ['packages/relay/src/planted.ts', 'ts-mls'],
  ['packages/relay/src/planted.ts', '../../sdk/src/index.ts'],
  ['packages/relay/src/core/planted.ts', 'node:crypto'],
  ['packages/relay/src/core/planted.ts', '../store/sqlite/store.ts'],
  ['packages/relay/src/store/planted.ts', '../transport/quic/port.ts'],
  ['packages/relay/src/transport/planted.ts', '../store/sqlite/store.ts'],
  ['packages/sdk/src/planted.ts', '@static/relay'],
  ['packages/sdk/src/planted.ts', '@static/api'],
  ['packages/sdk/src/mls/ts-mls/planted.ts', '@static/cli'],
  ['packages/sdk/src/mls/planted.ts', '../../../relay/src/index.ts'],
  ['packages/sdk/src/mls/engine.ts', 'ts-mls'],
  ['packages/sdk/src/mls/commit-rules.ts', 'ts-mls/clientState.js'],
  ['packages/cli/src/planted.ts', '@static/api'],
  ['packages/cli/src/planted.ts', '@static/relay'],
  ['packages/cli/src/planted.ts', '../../api/src/index.ts'],
  ['packages/console/src/planted.ts', 'node:fs'],
  ['packages/console/src/planted.ts', '@static/protocol'],
  ['packages/console/src/planted.ts', '@static/sdk'],
  ['packages/console/src/planted.ts', '../../api/src/index.ts'],
  ['tests/planted.ts', '../packages/api/src/index.ts'],
  ['bench/planted.ts', '../packages/api/src/index.ts'],
] as const) {
  test(`the wall holds: ${path} may not import ${specifier}`, () => {
    const { status, output } = lint(path, side(specifier))
    assert.notEqual(status, 0, output)
    assert.match(output, /no-restricted-imports/)
  })
}

for (const [path, specifier] of [
  ['packages/protocol/src/planted.ts', './errors.ts'],
  ['packages/api/src/planted.ts', '@static/protocol'],
  ['packages/api/src/db/planted.ts', 'kysely'],
  ['packages/api/src/routes/planted.ts', 'fastify'],
  ['packages/relay/src/core/planted.ts', '../ports.ts'],
  ['packages/relay/src/store/planted.ts', 'node:sqlite'],
  ['packages/sdk/src/planted.ts', '@static/protocol'],
  ['packages/sdk/src/mls/ts-mls/planted.ts', 'ts-mls'],
  ['packages/console/src/planted.ts', 'preact'],
  ['tests/planted.ts', '@static/api'],
] as const) {
  test(`the door is open: ${path} may import ${specifier}`, () => {
    assert.equal(lint(path, side(specifier)).output.includes('no-restricted-imports'), false)
  })
}

test('which commits are valid does not depend on a clock', () => {
  const { output } = lint('packages/sdk/src/mls/commit-rules.ts', 'export const now: number = Date.now()\n')
  assert.match(output, /no-restricted-globals/)
})

test('protocol and core have no clock and no randomness, and a promise is not left floating', () => {
  const clock = lint('packages/protocol/src/planted.ts', 'export const now: number = Date.now()\n')
  assert.match(clock.output, /no-restricted-globals/)
  const core = 'packages/relay/src/core/planted.ts'
  assert.match(lint(core, 'export const now: number = Date.now()\n').output, /no-restricted-properties/)
  assert.match(lint(core, 'export const bit: number = Math.random()\n').output, /no-restricted-properties/)
  const floating = 'async function work(): Promise<void> {}\nexport function start(): void {\n  work()\n}\n'
  const { status, output } = lint('packages/api/src/planted.ts', floating)
  assert.notEqual(status, 0)
  assert.match(output, /no-floating-promises/)
})
