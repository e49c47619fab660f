/** What a node remembers of channels in PostgreSQL: as much as its limit allows, and exactly what is stored. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { leaveBody, RECEIPT_BYTES } from '@static/protocol'
import { emptyChannel, lowestCursor, placeMember } from '../../src/store/ledger/state.ts'
import { type Row, Session } from '../../src/store/postgres/session.ts'
import type { PostgresStore } from '../../src/store/postgres/store.ts'
import { AccountTable } from '../../src/store/postgres/tables/accounts.ts'
import { ChannelCache } from '../../src/store/postgres/tables/channel-cache.ts'
import type { Kept } from '../../src/store/postgres/tables/kept.ts'
import { pack, unpack } from '../../src/store/postgres/tables/packed-channel.ts'
import { type ChannelRow, channelRow, readChannel } from '../../src/store/records/channel.ts'
import { type MemberRow, memberRow, readMember } from '../../src/store/records/member.ts'
import type { Transaction } from '../../src/store/postgres/write.ts'
import { type SenderRow, readSender, senderRow } from '../../src/store/records/sender.ts'
import { emptyScratch, openScratch } from '../support/postgres.ts'
import { RETENTION, START, accepted, account, hex16, id16, member, notice, sha256 } from './channel-fixture.ts'

const LARGE = 2 ** 50
const position = (index: number): [number, Uint8Array, number] => [index, sha256(`entry ${index}`), index >> 1]

/** Every column has a value of its own. */
function makeKept(label: string, people = 1): Kept {
  const id = id16(label)
  const owner = sha256(`owner of ${label}`)
  const ends = [...position(300), START + 3, ...position(127)]
  const row = [
    id,
    `acme/ünïcode/${label}`,
    START - 1,
    'account of acme',
    'test',
    owner,
    128,
    sha256('standby'),
    99,
    98,
    ...ends,
    LARGE,
    START,
    20_000,
    1,
  ]
  const counts = [2, 3, 4, START + 1, 495_000, 5, 6, START + 2]
  const channel = emptyChannel(readChannel(LARGE + 1, [...row, ...counts] as unknown as ChannelRow))
  const add = (name: string, rest: readonly unknown[]): void =>
    placeMember(channel, readMember([id, sha256(name), ...rest] as unknown as MemberRow))
  const staying = [null, null, null, null, null, 0]
  const receipt = new Uint8Array(RECEIPT_BYTES).fill(255)
  for (let at = 0; at < people; at++) {
    add(`stays ${at}`, [7, owner, 5, 1, ...position(200 + at), at % 2 === 0 ? receipt : null, null, 9, ...staying])
    add(`waits ${at}`, [8, null, null, 0, ...position(300), null, 8, null, ...staying])
    add(`left ${at}`, [
      1,
      owner,
      null,
      1,
      ...position(3),
      null,
      null,
      null,
      ...position(250),
      START,
      leaveBody(notice('carol', 2)),
      1,
    ])
    add(`removed ${at}`, [1, null, LARGE, 1, ...position(3), null, null, null, ...position(251), START, null, 0])
    const sender = [sha256(`stays ${at}`), 10 + at, at % 2, 1, 299, 495_001, 11, LARGE, 12, 13]
    channel.senders.set(Buffer.from(sha256(`stays ${at}`)).toString('hex'), readSender(sender as unknown as SenderRow))
  }
  channel.acked = lowestCursor(channel)
  return { channel, version: 2 ** 33, membersAt: 12_345 }
}

/** What is stored of a channel. */
function rowsOf({ channel }: Kept): readonly unknown[] {
  const { number, id, members, former, senders } = channel
  const people = [...members.values(), ...former.values()].map((each) => memberRow(id, each).map(plain))
  return [
    number,
    channelRow(channel).map(plain),
    people,
    [...senders.values()].map((each) => senderRow(each).map(plain)),
  ]
}

/** Hashes are equal in whichever memory they are. */
function plain(value: unknown): unknown {
  return value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value
}

test('a packed channel unpacks to what it was', () => {
  for (const people of [0, 1, 3, 500]) {
    const kept = makeKept('one', people)
    const again = unpack(pack(kept))
    assert.deepEqual(rowsOf(again), rowsOf(kept))
    assert.equal(again.version, kept.version)
    assert.equal(again.membersAt, kept.membersAt)
    assert.equal(again.channel.acked, kept.channel.acked)
    assert.equal(again.channel.former.size, kept.channel.former.size)
    assert.deepEqual([...again.channel.senders.keys()], [...kept.channel.senders.keys()])
    assert.deepEqual(again.channel.changes, {
      channel: false,
      ownedBefore: undefined,
      members: new Set(),
      senders: new Set(),
    })
  }
})

test('the cache packs the least recently used channels, eventually forgets them, and stays within its limit', () => {
  const limit = 100_000
  const cache = new ChannelCache(limit)
  const all = Array.from({ length: 200 }, (_, at) => makeKept(`channel ${at}`))
  for (const kept of all) {
    cache.put(kept)
    assert.ok(cache.size.bytes <= limit, `${cache.size.bytes} bytes`)
  }
  const { channels } = cache.size
  assert.ok(channels > 40 && channels < 200, `${channels} channels`)
  const known = all.map(({ channel: { id } }) => cache.get(id))
  assert.ok(known.slice(0, -channels).every((kept) => kept === undefined))
  // The last ones are the records themselves.
  assert.equal(known.at(-1), all.at(-1))
  for (const [at, kept] of known.entries()) {
    if (!kept) continue
    assert.deepEqual(rowsOf(kept), rowsOf(all[at] as Kept))
    assert.equal(cache.get(kept.channel.id), kept)
  }
  // All are records again: the next one that is put packs them.
  cache.put(makeKept('one more'))
  assert.ok(cache.size.bytes <= limit, `${cache.size.bytes} bytes`)
  for (const { channel } of all) cache.drop(channel.id)
  cache.drop(hex16('one more'))
  assert.deepEqual(cache.size, { channels: 0, bytes: 0 })
})

test('a record that is larger than the limit is kept alone', () => {
  const cache = new ChannelCache(20_000)
  cache.put(makeKept('small'))
  const large = makeKept('large', 100)
  cache.put(large)
  assert.equal(cache.get(large.channel.id), large)
  assert.equal(cache.size.channels, 1)
})

test('a size that is read after a message counts the message once, whichever is answered first', async () => {
  const owner = account('acme')
  let stored = 100
  const rows = async (): Promise<Row[]> => [[owner.id, owner.mode, stored, null]]
  const table = new AccountTable({ session: { rows } } as unknown as Transaction, Number.MIN_VALUE, new Map())
  const size = async (): Promise<number> => {
    table.begin()
    await table.assumeKnown([owner])
    return table.get(owner).bytes
  }
  assert.equal(await size(), 100)
  for (const isSizeFirst of [true, false]) {
    const before = await size()
    table.get(owner).bytes += 10
    stored += 10
    const refreshed = table.refresh([owner])
    if (isSizeFirst) await new Promise(setImmediate)
    table.committed()
    await refreshed
    assert.equal(await size(), before + 10)
  }
})

async function openFull(t: TestContext, channels: readonly string[]): Promise<PostgresStore> {
  const options = { lanes: 1, freshMs: 60_000, cachedBytes: 20_000 }
  const store = await openScratch(await emptyScratch(), RETENTION, () => {}, options)
  t.after(() => store.close())
  for (const channel of channels) {
    const request = { actor: member(channel), channel, name: `acme/team/${channel}`, welcome: sha256(channel) }
    const result = await store.run('create', { ...request, guestLimit: 0, maxChannels: 1, now: START })
    assert.ok(!('refused' in result))
  }
  return store
}

test('a message to a channel that the node has packed takes one statement', async (t) => {
  const channels = Array.from({ length: 20 }, (_, at) => hex16(`channel ${at}`))
  const store = await openFull(t, channels)
  assert.equal(store.cached.channels, channels.length)
  assert.ok(store.cached.bytes <= 20_000, `${store.cached.bytes} bytes`)
  const sent: string[] = []
  const rows = Reflect.get(Session.prototype, 'rows')
  t.mock.method(Session.prototype, 'rows', function (this: Session, ...asked: Parameters<Session['rows']>) {
    if (!/current_setting|min\(oldest_at\)/.test(asked[0].text)) sent.push(asked[0].text)
    return rows.apply(this, asked)
  })
  for (let counter = 1; counter <= 3; counter++) {
    for (const channel of channels) {
      const message = { slot: 0, messageId: id16(`${channel} ${counter}`), counter, control: false }
      const request = {
        actor: member(channel),
        channel,
        ...message,
        ciphertext: sha256('text'),
        paid: member(channel).account,
        now: START,
      }
      assert.equal(accepted(await store.run('append', request)), counter)
    }
  }
  assert.deepEqual(
    sent.filter((text) => !text.includes('is_current')),
    [],
  )
  assert.equal(sent.length, 3 * channels.length)
})
