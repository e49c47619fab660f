import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RepeatLog } from '../src/repeat-log.ts'

test('one line a minute for each kind, with the count since the last line', () => {
  let now = 0
  const repeats = new RepeatLog(() => now)
  const lines: string[] = []
  const note = (kind: string): void => repeats.note(kind, (count) => lines.push(`${kind} ${count}`))
  for (let time = 0; time < 100; time++) note('full')
  note('cut')
  assert.deepEqual(lines, ['full 1', 'cut 1'])
  now = 60_000
  note('full')
  note('full')
  assert.deepEqual(lines, ['full 1', 'cut 1', 'full 100'])
})

test('a few lines a minute for each kind, then only the count', () => {
  let now = 0
  const repeats = new RepeatLog(() => now, 3)
  const counts: number[] = []
  const flood = (times: number): void => {
    for (let time = 0; time < times; time++) repeats.note('refused', (count) => counts.push(count))
  }
  flood(100)
  assert.deepEqual(counts, [1, 1, 1])
  now = 60_000
  flood(5)
  assert.deepEqual(counts, [1, 1, 1, 98, 1, 1])
})

test('kinds that others can make up do not make more lines: beyond a number they count as one', () => {
  let now = 0
  const repeats = new RepeatLog(() => now)
  let lines = 0
  const flood = (): void => {
    for (let kind = 0; kind < 10_000; kind++) repeats.note(`kind ${kind}`, () => lines++)
  }
  flood()
  assert.equal(lines, 257)
  flood()
  assert.equal(lines, 257)
  now = 60_000
  flood()
  assert.equal(lines, 514)
})
