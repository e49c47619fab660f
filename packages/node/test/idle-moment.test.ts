import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atIdleMoment, type Thread } from '../src/idle-moment.ts'

/** A thread of which this share is idle, and the time at which the wait ends on it. */
function waitOn(share: number): number {
  let now = 0
  const due: [number, () => void][] = []
  const thread: Thread = {
    watch: () => () => ({ passed: now, idle: now * share }),
    after: (milliseconds, act) => void due.push([now + milliseconds, act]),
  }
  let ended: number | undefined
  atIdleMoment(() => (ended = now), thread)
  for (let next = due.shift(); next; next = due.shift()) {
    now = next[0]
    next[1]()
  }
  assert.ok(ended !== undefined, 'it calls back')
  return ended
}

test('the wait is short on an idle thread, longer on a busy one, and ends on one that is never idle', () => {
  assert.equal(waitOn(1), 2)
  assert.equal(waitOn(0.5), 4)
  assert.equal(waitOn(0), 5)
})
