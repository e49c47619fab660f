/** Writes that are numbered, each of which touches everything, and the check that only whole ones are there. */
import assert from 'node:assert/strict'
import type { AgentStore, Change, InboxRecord } from '../../src/ports/index.ts'
import {
  AGENT,
  bytesOf,
  CHANNEL,
  epochRecord,
  inboxRecord,
  leaverRecord,
  outboxRecord,
  put,
  RING_BYTES,
} from './support.ts'

/** How many messages stay in outbox and inbox. */
const KEPT = 3
const COMMIT_EVERY = 5
/** How often a write is too large for the ring. */
const LARGE_EVERY = 6

/** The nth write, beginning with 1. */
export function numberedWrite(n: number): Change[] {
  const row = bytesOf(`row ${n}`, 90)
  return [
    put({ counter: n, position: { index: n, hash: bytesOf(`position ${n}`), slot: 1 } }),
    ...(n % COMMIT_EVERY === 1 ? [{ type: 'putEpoch', id: CHANNEL, epoch: epochRecord(`epoch ${n}`) } as const] : []),
    { type: 'putRow', id: CHANNEL, leaf: 0, row },
    { type: 'putOutbox', id: CHANNEL, record: outboxRecord(n) },
    { type: 'putInbox', id: CHANNEL, record: received(n) },
    { type: 'answerOutbox', id: CHANNEL, messageId: outboxRecord(n - 1).messageId, bodyHash: bytesOf(`body ${n - 1}`) },
    { type: 'dropOutbox', id: CHANNEL, messageId: outboxRecord(n - KEPT).messageId },
    { type: 'dropInbox', id: CHANNEL, place: { index: n - KEPT, part: 0 } },
    { type: 'putLeaver', id: CHANNEL, leaver: leaverRecord(AGENT, { slot: n }) },
  ]
}

/** Which write was the last; fails if it, or one before it, is there in part. */
export function lastWrite(store: AgentStore): number {
  const [channel] = store.load().channels
  if (channel === undefined) return 0
  const n = channel.record.counter
  const numbers = [n - 2, n - 1, n].filter((number) => number > 0)
  assert.equal(channel.record.position.index, n)
  assert.deepEqual(channel.epoch?.rows.get(0), bytesOf(`row ${n}`, 90))
  const commit = n - ((n - 1) % COMMIT_EVERY)
  assert.deepEqual(channel.epoch?.group, epochRecord(`epoch ${commit}`).group)
  assert.deepEqual(channel.outbox, [outboxRecord(n)])
  assert.deepEqual(
    channel.answered,
    numbers.slice(0, -1).map((number) => {
      const { messageId, counter } = outboxRecord(number)
      return { messageId, counter, bodyHash: bytesOf(`body ${number}`) }
    }),
  )
  assert.deepEqual(channel.leavers, [leaverRecord(AGENT, { slot: n })])
  assert.deepEqual(
    store.inbox(CHANNEL, 0, 100),
    numbers.map((number) => received(number)),
  )
  return n
}

function received(n: number): InboxRecord {
  return inboxRecord(n, n % LARGE_EVERY === 0 ? { ciphertext: bytesOf(`large ${n}`, RING_BYTES / 2) } : {})
}
