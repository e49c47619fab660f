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
