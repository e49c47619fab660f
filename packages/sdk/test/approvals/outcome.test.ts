import assert from 'node:assert/strict'
import { test } from 'node:test'
import { randomBelow } from '@static/testkit/random'
import { type ApprovalEvent, outcomeOf } from '../../src/approvals/outcome.ts'

const DEADLINE = 1000
const request = (
  need: number,
  ...from: readonly string[]
): { need: number; from: readonly string[]; deadline: number } => ({
  need,
  from,
  deadline: DEADLINE,
})
const event = (agent: string, what: ApprovalEvent['what'], at = 1): ApprovalEvent => ({ agent, what, at })
const after = (
  asked: ReturnType<typeof request>,
  events: readonly ApprovalEvent[],
  now = 2,
): readonly [string, string] => {
  const { state, by } = outcomeOf(asked, events, now)
  return [state, by.join()]
}

test('two of three approve', () => {
  const asked = request(2, 'ada', 'ben', 'cy')
  assert.deepEqual(after(asked, []), ['pending', ''])
  assert.deepEqual(after(asked, [event('ada', 'approve')]), ['pending', 'ada'])
  const both = [event('cy', 'approve'), event('ada', 'approve')]
  assert.deepEqual(after(asked, both), ['approved', 'cy,ada'])
  assert.deepEqual(after(asked, [...both, event('ben', 'deny'), event('ada', 'removed')], 2000), ['approved', 'cy,ada'])
})

test('a request is denied once too few are left', () => {
  const asked = request(2, 'ada', 'ben', 'cy')
  assert.deepEqual(after(asked, [event('ben', 'deny')]), ['pending', ''])
  assert.deepEqual(after(asked, [event('ben', 'deny'), event('cy', 'deny'), event('ada', 'approve')]), [
    'denied',
    'ben,cy',
  ])
  assert.deepEqual(after(asked, [event('ben', 'removed'), event('cy', 'removed')]), ['denied', ''])
})

test('an agent counts once, with its first decision, and a stranger not at all', () => {
  const asked = request(2, 'ada', 'ben', 'cy')
  assert.deepEqual(after(asked, [event('ada', 'approve'), event('ada', 'approve')]), ['pending', 'ada'])
  assert.deepEqual(after(asked, [event('ada', 'deny'), event('ada', 'approve'), event('ben', 'approve')]), [
    'pending',
    'ben',
  ])
  assert.deepEqual(after(asked, [event('ada', 'approve'), event('mallory', 'approve')]), ['pending', 'ada'])
})

test('a member that was removed before the outcome does not count, even if it is added again', () => {
  const asked = request(2, 'ada', 'ben', 'cy')
  const removed = [event('ada', 'approve'), event('ada', 'removed'), event('ben', 'approve')]
  assert.deepEqual(after(asked, removed), ['pending', 'ben'])
  assert.deepEqual(after(asked, [...removed, event('ada', 'approve')]), ['pending', 'ben'])
  assert.deepEqual(after(asked, [...removed, event('cy', 'approve')]), ['approved', 'ben,cy'])
})

test('what is processed at the deadline or later changes nothing', () => {
  const asked = request(1, 'ada')
  assert.deepEqual(after(asked, [event('ada', 'approve', DEADLINE - 1)], DEADLINE), ['approved', 'ada'])
  assert.deepEqual(after(asked, [event('ada', 'approve', DEADLINE)], DEADLINE), ['expired', ''])
  assert.deepEqual(after(asked, [], DEADLINE), ['expired', ''])
  assert.deepEqual(after(asked, [], DEADLINE - 1), ['pending', ''])
})

test('an outcome stays whatever follows, and permission needs as many distinct agents', () => {
  const below = randomBelow(48)
  for (let round = 0; round < 2000; round++) {
    const from = ['a', 'b', 'c', 'd'].slice(0, 1 + below(4))
    const asked = request(1 + below(from.length), ...from)
    const events = Array.from({ length: below(9) }, (_, at) =>
      event(
        ['a', 'b', 'c', 'd', 'e'][below(5)] ?? '',
        (['approve', 'approve', 'deny', 'removed'] as const)[below(4)] ?? 'deny',
        at * 150,
      ),
    )
    const outcomes = events.map((_, count) => outcomeOf(asked, events.slice(0, count), events[count - 1]?.at ?? 0))
    const last = outcomeOf(asked, events, DEADLINE)
    for (const outcome of outcomes) if (outcome.state !== 'pending') assert.deepEqual(outcome, last)
    assert.notEqual(last.state, 'pending')
    if (last.state !== 'approved') continue
    assert.ok(new Set(last.by).size >= asked.need)
    for (const agent of last.by) assert.ok(from.includes(agent))
  }
})
