/** The table of promises, which proofs write themselves. */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { test } from 'node:test'
import { updatedPage } from '../../scripts/promises.ts'

const PAGE = 'Before.\n<!-- promises -->\n| # |\n<!-- /promises -->\nAfter.\n'

test('a promise has one row, in which a proof replaces its own result and leaves those of others', () => {
  const first = updatedPage(PAGE, [
    { id: 'T14', command: 'npm run proof -- bugs', figures: '2 of 2 caught', date: '2026-01-01' },
    { id: 'T1', command: 'npm run proof -- crash', figures: '60 kills, 0 lost', date: '2026-01-02' },
    { id: 'T1', command: 'npm run proof -- chaos --seeds 2', figures: 'a | b, 7 kills', date: '2026-01-02' },
  ])
  const second = updatedPage(first, [
    { id: 'T1', command: 'npm run proof -- chaos --seeds 3', figures: 'a | b, 9 kills', date: '2026-02-01' },
  ])
  assert.deepEqual(second.split('\n').slice(4, 6), [
    '| T1 | no acknowledged message is lost when a process dies | ' +
      '`chaos --seeds 3` (2026-02-01): a \\| b, 9 kills<br>`crash` (2026-01-02): 60 kills, 0 lost |',
    '| T14 | the tests notice bugs | `bugs` (2026-01-01): 2 of 2 caught |',
  ])
  assert.match(second, /^Before\.[^]*After\.\n$/)
  assert.match(second, /\nIn the runs of T1, processes were killed 69 times: 0 lost, 0 doubled\.\n/)
})

test('a result of no promise, or a page without a table, is refused', () => {
  const result = { id: 'T99', command: 'x', figures: 'y', date: 'z' }
  assert.throws(() => updatedPage(PAGE, [result]), /no promise T99/)
  assert.throws(() => updatedPage('', [{ ...result, id: 'T1' }]), /no table/)
})

test('the page has each promise once', () => {
  const page = readFileSync(resolve(import.meta.dirname, '../../docs/09-promises.md'), 'utf8')
  const ids = [...page.matchAll(/^\| (T\d+) \|/gm)].map(([, id]) => id)
  assert.deepEqual(
    ids,
    Array.from({ length: 15 }, (_, at) => `T${at + 1}`),
  )
  assert.equal(updatedPage(page, []), page, 'and writing it again changes nothing')
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
