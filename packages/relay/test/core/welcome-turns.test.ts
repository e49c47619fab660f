/** Strangers can send an agent any number of Welcomes; they must not hold up the messages of its channels. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { ReceiptDemand } from '@static/protocol/relay'
import type { Delivery } from '../../src/core/delivery.ts'
import type { Effects } from '../../src/core/effects.ts'
import type { Effect } from '../../src/core/io.ts'
import type { Entry, Standing } from '../../src/ports.ts'
import { readingSession } from './reading-session.ts'

const AGENT = 'aa'.repeat(32)
const OWNER = 'bb'.repeat(32)
const [KNOWN, NEW] = ['cc'.repeat(16), 'dd'.repeat(16)] as const
const HASH = new Uint8Array(32)

function standing(channel: string, changes: Partial<Standing> = {}): Standing {
  const cursor = { index: 20, hash: HASH, slot: 3 }
  const about = { name: 'a/b/c', owner: OWNER, payer: { id: 'x', mode: 'live' }, guestLimit: 1 } as const
  const state = { head: 3, lastCounter: 0, barred: false, welcome: false, removed: false }
  return { channel, cursor, addedIndex: 20, lastIndex: 20, ...about, ...state, ...changes }
}

function message(index: number): Entry {
  const place = { index, hash: HASH, slot: 3, sender: OWNER, at: 0 }
  return { kind: 'message', ...place, messageId: new Uint8Array(16), counter: 1, control: false, ciphertext: HASH }
}

/** What the relay has done since the last time: calls of the store by name, and what it sent. */
function taken(effects: Effects): { readonly calls: string[]; readonly sent: number; readonly last: number } {
  const all: readonly Effect[] = effects.take()
  const calls = all.flatMap((effect) => (effect.type === 'store' ? [effect] : []))
  const sent = all.filter(({ type }) => type === 'send').length
  return { calls: calls.map(({ name }) => name), sent, last: calls.at(-1)?.id ?? 0 }
}

/** Answers a request for Welcomes with one. */
function answerWelcomes(effects: Effects, call: number, sequence: number, more: boolean): void {
  const bytes = { agent: AGENT, welcome: HASH, inviteId: HASH, tag: HASH }
  const position = { index: 20, hash: HASH, slot: 3 }
  const about = {
    channel: sequence.toString(16).padStart(32, '0'),
    name: 'a/b/c',
    owner: OWNER,
    sender: OWNER,
    slot: 2,
  }
  effects.done(call, { ok: true, value: { welcomes: [{ ...bytes, ...about, position, sequence }], more } })
}

function appended(delivery: Delivery, channel: string, index: number): void {
  delivery.handle({ type: 'appended', channel, entry: message(index) })
}

test('a new entry of a channel passes while Welcomes are fetched', () => {
  const { effects, delivery, session } = readingSession(AGENT)
  delivery.start(session, standing(KNOWN), ReceiptDemand.UNSPECIFIED)
  delivery.welcomed(session)
  assert.deepEqual(taken(effects).calls, ['welcomes'])
  appended(delivery, KNOWN, 21)
  assert.equal(taken(effects).sent, 1)
})

test('a channel that is behind has its turn after one page of Welcomes, however many follow', () => {
  const { effects, delivery, session } = readingSession(AGENT)
  delivery.welcomed(session)
  delivery.start(session, standing(KNOWN, { lastIndex: 30 }), ReceiptDemand.UNSPECIFIED)
  const first = taken(effects)
  assert.deepEqual(first.calls, ['welcomes'])
  answerWelcomes(effects, first.last, 1, true)
  const second = taken(effects)
  assert.deepEqual(second.calls, ['read'])
  const entries = [message(21)]
  const value = { entries, gap: undefined, last: 30, ended: false, from: 20 }
  effects.done(second.last, { ok: true, value })
  assert.deepEqual(taken(effects).calls, ['welcomes'])
})

test('entries of a new membership follow its Welcome, whether they were there before or arrive meanwhile', () => {
  const { effects, delivery, session } = readingSession(AGENT)
  delivery.welcomed(session)
  delivery.start(session, standing(NEW, { welcome: true }), ReceiptDemand.UNSPECIFIED)
  appended(delivery, NEW, 21)
  const first = taken(effects)
  assert.deepEqual([first.calls, first.sent], [['welcomes'], 0])
  answerWelcomes(effects, first.last, 1, true)
  const second = taken(effects)
  assert.deepEqual([second.calls, second.sent], [['welcomes'], 1])
  answerWelcomes(effects, second.last, 2, false)
  assert.deepEqual(taken(effects).calls, ['read'])
})
