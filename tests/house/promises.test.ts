/** The table of promises, which proofs write themselves. */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { test } from 'node:test'
import { updatedPage } from '../../scripts/promises.ts'

const PAGE = 'Before.\n<!-- promises -->\n| # |\n<!-- /promises -->\nAfter.\n'

test('a proof replaces its own rows and leaves those of others', () => {
  const first = updatedPage(PAGE, [
    { id: 'T14', command: 'npm run proof -- bugs', result: '2 of 2 caught', date: '2026-01-01' },
    { id: 'T1', command: 'npm run proof -- crash', result: '60 kills, 0 lost', date: '2026-01-02' },
  ])
  const second = updatedPage(first, [
    { id: 'T14', command: 'npm run proof -- bugs', result: '3 of 3 caught', date: '2026-02-01' },
  ])
  assert.deepEqual(second.split('\n').slice(4, 6), [
    '| T1 | no acknowledged message is lost when a process dies | `npm run proof -- crash` | 60 kills, 0 lost | 2026-01-02 |',
    '| T14 | the tests notice bugs | `npm run proof -- bugs` | 3 of 3 caught | 2026-02-01 |',
  ])
  assert.match(second, /^Before\.[^]*After\.\n$/)
  assert.match(second, /\nIn the runs of T1, processes were killed 60 times: 0 lost, 0 doubled\.\n/)
})

test('a result of no promise, or a page without a table, is refused', () => {
  const row = { id: 'T99', command: 'x', result: 'y', date: 'z' }
  assert.throws(() => updatedPage(PAGE, [row]), /no promise T99/)
  assert.throws(() => updatedPage('', [{ ...row, id: 'T1' }]), /no table/)
})

test('each promise has a proof that prints its row', () => {
  const cwd = resolve(import.meta.dirname, '../..')
  const files = globSync(['lab/**/*.ts', '{tests,packages}/*/**/*.ts', 'scripts/proof.ts'], {
    cwd,
    exclude: (path) => path.endsWith('node_modules'),
  })
  const printed = new Set<string>()
  for (const file of files) {
    for (const [, id = ''] of readFileSync(resolve(cwd, file), 'utf8').matchAll(/`promise (T\d+): /g)) printed.add(id)
  }
  const missing = Array.from({ length: 15 }, (_, at) => `T${at + 1}`).filter((id) => !printed.has(id))
  assert.deepEqual(missing, [])
})
