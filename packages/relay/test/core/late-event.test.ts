/** Events that arrive after the agents they are about have moved on, as from another node. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { ReceiptDemand } from '@static/protocol/relay'
import type { Delivery } from '../../src/core/delivery.ts'
import type { Effects } from '../../src/core/effects.ts'
import type { Entry, Standing } from '../../src/ports.ts'
import { readingSession } from './reading-session.ts'

const AGENT = 'aa'.repeat(32)
const OWNER = 'bb'.repeat(32)
const CHANNEL = 'cc'.repeat(16)
const HASH = new Uint8Array(32)

/** An agent that was added again by entry 20 and has resumed from there. */
function resumed(): { readonly effects: Effects; readonly delivery: Delivery } {
  const { effects, delivery, session } = readingSession(AGENT)
  const standing: Standing = {
    channel: CHANNEL,
    name: 'a/b/c',
    owner: OWNER,
    head: 3,
    lastIndex: 20,
    lastCounter: 0,
    cursor: { index: 20, hash: HASH, slot: 3 },
    addedIndex: 20,
    welcome: false,
    barred: false,
    guestLimit: 1,
    payer: { id: 'x', mode: 'live' },
    removed: false,
  }
  delivery.start(session, standing, ReceiptDemand.UNSPECIFIED)
  return { effects, delivery }
}

function commit(index: number, change: { readonly adds?: string[]; readonly removes?: string[] }): Entry {
  const bytes = (ids: string[] = []): Uint8Array[] => ids.map((id) => new Uint8Array(Buffer.from(id, 'hex')))
  const declaration = { adds: bytes(change.adds), removes: bytes(change.removes) }
  const common = { kind: 'commit', index, hash: HASH, slot: 2, sender: OWNER, at: 0, messageId: new Uint8Array(16) }
  return { ...common, commit: new Uint8Array(1), declaration } as unknown as Entry
}

const MESSAGE: Entry = {
  kind: 'message',
  index: 21,
  hash: HASH,
  slot: 3,
  sender: OWNER,
  at: 0,
  messageId: new Uint8Array(16),
  counter: 1,
  control: false,
  ciphertext: new Uint8Array(4),
}

const LATE: readonly [about: string, entry: Entry][] = [
  ['the commit that added it again', commit(20, { adds: [AGENT] })],
  ['the commit that had removed it', commit(19, { removes: [AGENT] })],
  ['a commit that had added it before', commit(5, { adds: [AGENT] })],
]

for (const [about, entry] of LATE) {
  test(`${about} arrives late: the agent keeps reading`, () => {
    const { effects, delivery } = resumed()
    delivery.handle({ type: 'appended', channel: CHANNEL, entry })
    delivery.handle({ type: 'appended', channel: CHANNEL, entry: MESSAGE })
    assert.deepEqual(
      effects.take().map(({ type }) => type),
      ['send'],
    )
  })
}

test('an undone add that arrives late is looked up in the log before the next entry is sent', () => {
  const { effects, delivery } = resumed()
  const undone = { slot: 1, sender: OWNER, undoneAdds: [AGENT], undoneRemoves: [] }
  delivery.handle({ type: 'rejected', channel: CHANNEL, ...undone })
  delivery.handle({ type: 'appended', channel: CHANNEL, entry: MESSAGE })
  const asked = effects.take()
  assert.deepEqual(
    asked.map(({ type }) => type),
    ['send', 'store'],
    'it hears of the rejection, and nothing else yet',
  )
  const id = asked.flatMap((effect) => (effect.type === 'store' ? [effect.id] : []))[0] ?? 0
  // The log as it was before entry 21.
  const value = { entries: [], gap: undefined, last: 20, ended: false, from: 20 }
  effects.done(id, { ok: true, value })
  assert.deepEqual(
    effects.take().map(({ type }) => type),
    ['store'],
    'the next entry came meanwhile, so it reads on',
  )
})
