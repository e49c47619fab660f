/** The order of what waits in a lane. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Message } from '../../src/agent/actions.ts'
import type { Follower } from '../../src/agent/message-queue.ts'
import { type Item, Lane } from '../../src/mcp/lane.ts'

const channel = 'acme/shop/orders'
const sender = { agent_id: 'a', fingerprint: 'a', identity: 'ann', name: 'ann' }
const fields = { channel, epoch: 1, time: 'now', redelivered: false, sender, payload: 'eA==' }
const itemOf = (index: number, part: number): Item => {
  const message: Message = { ...fields, index, message_id: `${index}f${part}` }
  return { channel, message, follower: {} as Follower }
}

test('payloads of a pack that several answers contained are put back in their order', () => {
  const lane = new Lane(
    channel,
    () => assert.fail(),
    () => {},
  )
  lane.putBack([itemOf(7, 3)], false)
  lane.putBack([itemOf(7, 0), itemOf(7, 1)], true)
  lane.putBack([itemOf(7, 2), itemOf(8, 0)], true)
  const order: string[] = []
  for (let item = lane.first; item; item = lane.first) {
    if ('message' in item) order.push(item.message.message_id)
    lane.shift()
  }
  assert.deepEqual(order, ['7f0', '7f1', '7f2', '7f3', '8f0'])
})
