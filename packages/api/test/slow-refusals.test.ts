import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { SlowRefusals } from '../src/http/slow-refusals.ts'

test('refusals for too many requests are sent a moment later, other answers and refusals beyond a bound at once', (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.after(() => mock.timers.reset())
  const refusals = new SlowRefusals(2)
  const sent: string[] = []
  const send = (status: number, name: string): void => refusals.send(status, () => sent.push(name))
  send(200, 'ok')
  send(401, 'refused')
  send(429, 'first')
  send(429, 'second')
  send(429, 'beyond')
  assert.deepEqual(sent, ['ok', 'refused', 'beyond'])
  mock.timers.tick(250)
  assert.deepEqual(sent.slice(3), ['first', 'second'])
  send(429, 'again')
  assert.equal(sent.length, 5)
})
