/** What a session remembers of channels that are not delivered to it. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { ReceiptDemand } from '@static/protocol/relay'
import type { Delivery } from '../../src/core/delivery.ts'
import type { Effects } from '../../src/core/effects.ts'
import { type Session, stayOf } from '../../src/core/sessions/stream.ts'
import type { Entry, Standing } from '../../src/ports.ts'
import { readingSession } from './reading-session.ts'

const AGENT = 'aa'.repeat(32)
const OWNER = 'bb'.repeat(32)
const HASH = new Uint8Array(32)
const MANY = 3000
const MOST = 1000

const channelOf = (number: number): string => number.toString(16).padStart(32, '0')

interface World {
  readonly session: Session
  readonly delivery: Delivery
  readonly effects: Effects
  readonly resume: (channel: string, addedIndex: number) => void
  readonly welcome: (channel: string, index: number) => void
}

function makeWorld(): World {
  const { effects, delivery, session } = readingSession(AGENT)
  const resume = (channel: string, addedIndex: number): void => {
    const cursor = { index: addedIndex, hash: HASH, slot: 3 }
    const about = { name: 'a/b/c', owner: OWNER, payer: { id: 'x', mode: 'live' }, guestLimit: 1 } as const
    const state = { head: 3, lastCounter: 0, barred: false, welcome: false, removed: false }
    const standing: Standing = { channel, cursor, addedIndex, lastIndex: addedIndex, ...about, ...state }
    delivery.start(session, standing, ReceiptDemand.UNSPECIFIED)
  }
  const welcome = (channel: string, index: number): void => {
    delivery.welcomed(session)
    const [asked] = effects.take().flatMap((effect) => (effect.type === 'store' ? [effect] : []))
    const fields = { agent: AGENT, welcome: HASH, inviteId: HASH, tag: HASH }
    const position = { index, hash: HASH, slot: 3 }
    const stored = {
      ...fields,
      name: 'a/b/c',
      owner: OWNER,
      sender: OWNER,
      slot: 2,
      position,
      sequence: index,
      channel,
    }
    const welcomes = [stored]
    effects.done(asked?.id ?? assert.fail(), { ok: true, value: { welcomes, more: false } })
  }
  return { session, delivery, effects, resume, welcome }
}

function removal(index: number): Entry {
  const removes = [new Uint8Array(Buffer.from(AGENT, 'hex'))]
  const declaration = { adds: [], removes, leaveNotices: [], vouches: [], signature: new Uint8Array(64) }
  const common = { index, hash: HASH, slot: 2, sender: OWNER, at: 0, messageId: new Uint8Array(16) }
  return { ...common, kind: 'commit', commit: new Uint8Array(1), declaration }
}

test('a channel that is deleted leaves nothing in the sessions of its members', () => {
  const { session, delivery, resume, welcome } = makeWorld()
  for (let number = 0; number < MANY; number++) {
    const channel = channelOf(number)
    if (number % 2 === 0) resume(channel, 0)
    else welcome(channel, 1)
    delivery.handle({ type: 'deleted', channel, name: 'a/b/c', members: [AGENT] })
  }
  assert.deepEqual([session.stays.size, session.subscriptions.size], [0, 0])
})

test('a session that many channels remove it from, or welcome it to, remembers the last ones', () => {
  const { session, delivery, resume, welcome } = makeWorld()
  const read = channelOf(MANY)
  resume(read, 7)
  for (let number = 0; number < MANY; number++) {
    const channel = channelOf(number)
    if (number % 2 === 0) {
      resume(channel, 5)
      delivery.handle({ type: 'appended', channel, entry: removal(6) })
    } else welcome(channel, 9)
  }
  assert.equal(session.stays.size, MOST)
  assert.equal(stayOf(session, channelOf(MANY - 1)), 9)
  assert.equal(stayOf(session, channelOf(MANY - 2)), 5, 'its removal can still be acknowledged')
  assert.equal(stayOf(session, channelOf(MANY - MOST - 1)), undefined)
  assert.equal(stayOf(session, read), 7, 'what it reads does not count')
})

test('a session acknowledges in the membership that it was last told of', () => {
  const { session, delivery, resume, welcome } = makeWorld()
  const channel = channelOf(1)
  resume(channel, 5)
  // By way of another node, whose event has not arrived yet.
  welcome(channel, 9)
  assert.equal(stayOf(session, channel), 9)
  delivery.handle({ type: 'appended', channel, entry: removal(6) })
  assert.equal(stayOf(session, channel), 9, 'the end of the earlier one changes nothing')
  resume(channel, 5)
  assert.equal(stayOf(session, channel), 5, 'it has returned to the earlier one')
})
