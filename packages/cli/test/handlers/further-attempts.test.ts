/** Attempts at messages that share an index. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Message } from '../../src/agent/actions.ts'
import { markFurtherAttempts } from '../../src/handlers/further-attempts.ts'

const sender = { agent_id: 'a', fingerprint: 'a', identity: 'ann', name: 'ann' }
const fields = { index: 1, epoch: 1, time: 'now', redelivered: false, sender, payload: 'eA==' }
const messageOf = (part: number): Message => ({ channel: 'acme/shop/orders', message_id: `f${part}`, ...fields })

test('of the payloads of a pack, only one that was tried before is marked', async () => {
  const seen: [id: string, redelivered: boolean][] = []
  const handler = markFurtherAttempts((message) => {
    seen.push([message.message_id, message.redelivered])
    return message.message_id === 'f0' ? Promise.reject(new Error('no')) : Promise.resolve()
  })
  await assert.rejects(handler(messageOf(0)))
  await handler(messageOf(1))
  await assert.rejects(handler(messageOf(0)))
  await handler(messageOf(1))
  assert.deepEqual(seen, [
    ['f0', false],
    ['f1', false],
    ['f0', true],
    ['f1', false],
  ])
})
