/** The figures of the house (`npm run proof -- house`), and whether they would notice. */
import assert from 'node:assert/strict'
import { globSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { test } from 'node:test'
import { copiesBetween, figuresOf, readPackages } from '../../lab/house/figures.ts'

const root = resolve(import.meta.dirname, '../..')

test('no package has an import cycle or an `any`, and no two have six lines in common', () => {
  const packages = readPackages(root)
  assert.ok(packages.length >= 9)
  for (const { name, files, circles, anys } of packages.map(figuresOf)) {
    assert.ok(files > 0)
    assert.deepEqual({ circles, anys }, { circles: [], anys: [] }, name)
  }
  assert.deepEqual(copiesBetween(packages), [])
})

test('a cycle, an `any` and a copy are found, and classes are measured', (t) => {
  const home = mkdtempSync(join(tmpdir(), 'static-house-'))
  t.after(() => rmSync(home, { recursive: true }))
  const write = (path: string, lines: readonly string[]): void => {
    mkdirSync(dirname(join(home, path)), { recursive: true })
    writeFileSync(join(home, path), lines.map((line) => `${line}\n`).join(''))
  }
  const six = Array.from({ length: 6 }, (_, n) => `  step(${n}, 'the same')`)
  write('packages/a/src/one.ts', ["import type { Two } from './deep/two.ts'", 'export type One = Two | 1'])
  write('packages/a/src/deep/two.ts', [
    'import {',
    '  type One,',
    "} from '../one.ts'",
    'export type Two = One | any',
    '/** For any of them: nothing. */',
    ...six,
  ])
  // Parts of a channel name the type of the whole, and nothing else may.
  const whole = 'packages/sdk/src/channel/channel.ts'
  write(whole, ["import { Part } from './part.ts'", "import { Other } from './other.ts'"])
  write('packages/sdk/src/channel/part.ts', ["import type { AgentChannel } from './channel.ts'"])
  write('packages/sdk/src/channel/other.ts', ["import { AgentChannel } from './channel.ts'"])
  write('packages/b/src/life.ts', [
    'export class Life {',
    '  readonly name: string',
    '  #secret = 1',
    '  constructor(name: string) {',
    '    this.name = name',
    '  }',
    '',
    '  get secret(): number {',
    '    return this.#secret',
    '  }',
    '',
    '  async live(): Promise<void> {',
    ...six.map((line) => `  ${line}`),
    '  }',
    '}',
  ])
  const packages = readPackages(home)
  const [a, b, c] = packages.map(figuresOf)
  assert.deepEqual(a?.circles, ['packages/a/src/deep/two.ts → packages/a/src/one.ts → packages/a/src/deep/two.ts'])
  assert.deepEqual(c?.circles, [`${whole} → packages/sdk/src/channel/other.ts → ${whole}`])
  assert.deepEqual(a?.anys, ['packages/a/src/deep/two.ts:4'])
  assert.deepEqual(b?.mostPublic, { name: 'Life', lines: 20, members: 3 })
  assert.deepEqual(b?.largestFile, { name: 'life.ts', lines: 20 })
  assert.deepEqual(copiesBetween(packages), ['packages/a/src/deep/two.ts:6 and packages/b/src/life.ts:13 are the same'])
})

test('no folder of the SDK has more than 16 files', () => {
  const folders = new Map<string, number>()
  for (const file of globSync('packages/sdk/src/**/*.ts', { cwd: root })) {
    folders.set(dirname(file), (folders.get(dirname(file)) ?? 0) + 1)
  }
  assert.ok(folders.size > 10)
  assert.deepEqual(
    [...folders].filter(([, count]) => count > 16),
    [],
  )
})
