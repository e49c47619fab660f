import assert from 'node:assert/strict'
import { test } from 'node:test'
import { filePartCount, storedFileBytes } from '@static/protocol'
import type { Actor, Refusal, StoreRequest, StoreResult } from '../../src/ports.ts'
import {
  account,
  agentId,
  type ChannelFixture,
  DAY,
  forEachEngine,
  forLedger,
  guest,
  hex16,
  HOUR,
  member,
  refused,
} from './channel-fixture.ts'

const MIB = 1_048_576
const KEPT = { keptMs: 7 * DAY }
const LIMITS = { accountBytes: 100 * MIB, perChannel: 1000, open: 8, unsentMs: DAY }
/** Ended files are left alone for so long. */
const REST = 10_000

type Fields<Name extends 'beginFile' | 'recordPart'> = Partial<StoreRequest<Name>>

/** The files of a fixture. */
class Files {
  readonly #world: ChannelFixture

  constructor(world: ChannelFixture) {
    this.#world = world
  }

  begin(sender: string, label: string, fields: Fields<'beginFile'> = {}): Promise<StoreResult<'beginFile'>> {
    return this.#world.run('beginFile', { ...this.#of(label, sender), size: 2 * MIB, limits: LIMITS, ...fields })
  }

  admit(sender: string, label: string, part: number, actor: Actor = member(sender)): Promise<StoreResult<'admitPart'>> {
    return this.#world.run('admitPart', { ...this.#of(label, sender), actor, part })
  }

  record(
    sender: string,
    label: string,
    part: number,
    fields: Fields<'recordPart'> = {},
  ): Promise<StoreResult<'recordPart'>> {
    return this.#world.run('recordPart', { ...this.#of(label, sender), part, checksum: 1000 + part, ...fields })
  }

  find(agent: string, label: string, part = 0): Promise<StoreResult<'findPart'>> {
    return this.#world.run('findPart', { ...this.#of(label, agent), part })
  }

  status(agent: string, label: string): Promise<StoreResult<'fileStatus'>> {
    return this.#world.run('fileStatus', this.#of(label, agent))
  }

  drop(agent: string, label: string, everyone = false, actor: Actor = member(agent)): Promise<StoreResult<'dropFile'>> {
    return this.#world.run('dropFile', { ...this.#of(label, agent), everyone, actor })
  }

  say(sender: string, label: string, fields = {}): Promise<StoreResult<'append'>> {
    return this.#world.say(sender, { file: { id: hex16(label), ...KEPT }, ...fields })
  }

  /** Begins a file, stores its parts and sends it. */
  async send(sender: string, label: string, size = 2 * MIB, actor: Actor = member(sender)): Promise<void> {
    granted(await this.begin(sender, label, { size, actor }))
    for (let part = 0; part < filePartCount(size); part++) granted(await this.record(sender, label, part, { actor }))
    granted(await this.say(sender, label, { actor }))
  }

  async due(): Promise<readonly string[]> {
    const { files } = await this.#world.run('dueFiles', { now: this.#world.now, limit: 100 })
    return files.map(({ key }) => key)
  }

  async forget(keys: readonly string[]): Promise<void> {
    await this.#world.run('forgetFiles', { keys, now: this.#world.now })
  }

  #of(label: string, agent: string): { channel: string; file: string; actor: Actor; now: number } {
    const { channel, now } = this.#world
    return { channel, file: hex16(label), actor: member(agent), now }
  }
}

/** That it was not refused. */
function granted<Result extends object>(result: Result): Exclude<Result, Refusal> {
  assert.ok(!('refused' in result), JSON.stringify(result))
  return result as Exclude<Result, Refusal>
}

function stateOf(result: StoreResult<'fileStatus'>): readonly [parts: number[], sent: boolean] {
  assert.ok('parts' in result, JSON.stringify(result))
  return [[...result.parts], result.sent]
}

forEachEngine((open) => {
  test('a file is begun, stored part by part, sent with a message, and fetched', async (t) => {
    const world = await open(t)
    const files = new Files(world)
    await world.found('alice', 'bob')
    const begun = granted(await files.begin('alice', 'log', { size: 1.25 * MIB }))
    assert.deepEqual([begun.size, begun.expiresAt, stateOf(begun)], [1.25 * MIB, world.now + DAY, [[0], false]])
    const first = granted(await files.admit('alice', 'log', 0))
    assert.deepEqual([first.bytes, first.stored, first.payer], [MIB + 28, undefined, account('alice')])
    assert.match(first.key, /^[0-9a-f]{32}$/)
    assert.equal(granted(await files.admit('alice', 'log', 1)).bytes, MIB / 4 + 28)
    assert.deepEqual(await files.record('alice', 'log', 1, { checksum: 0xffff_fffe }), { charged: true })
    assert.deepEqual(stateOf(await files.status('alice', 'log')), [[2], false])
    // Nobody else knows of it yet, and its message cannot be sent.
    refused(await files.status('bob', 'log'), 'file_expired')
    refused(await files.find('bob', 'log'), 'file_expired')
    refused(await files.say('alice', 'log'), 'file_incomplete')
    assert.deepEqual(await files.record('alice', 'log', 0), { charged: true })
    granted(await files.say('alice', 'log'))
    const sent = await files.status('bob', 'log')
    assert.deepEqual([stateOf(sent), 'expiresAt' in sent && sent.expiresAt], [[[3], true], world.now + 7 * DAY])
    const { key } = first
    assert.deepEqual(await files.find('bob', 'log'), { key, bytes: MIB + 28, total: 1.25 * MIB + 56 })
    assert.deepEqual(await files.find('bob', 'log', 1), { key, bytes: MIB / 4 + 28, total: 1.25 * MIB + 56 })
    refused(await files.find('bob', 'log', 2), 'invalid_request')
  })

  test('the first write of a part wins, and a repeat costs nothing', async (t) => {
    const world = await open(t)
    const files = new Files(world)
    await world.found('alice', 'bob')
    await files.begin('alice', 'log')
    assert.deepEqual(await files.record('alice', 'log', 0), { charged: true })
    assert.deepEqual(await files.record('alice', 'log', 0), { charged: false })
    refused(await files.record('alice', 'log', 0, { checksum: 7 }), 'invalid_request')
    assert.equal(granted(await files.admit('alice', 'log', 0)).stored, 1000)
    // Both at once, as after a lost connection.
    const both = await Promise.all([files.record('alice', 'log', 1), files.record('alice', 'log', 1)])
    assert.deepEqual(both.map((result) => 'charged' in result && result.charged).toSorted(), [false, true])
  })

  test('a repeated BeginFile continues; another size, agent or ended file is refused', async (t) => {
    const world = await open(t)
    const files = new Files(world)
    await world.found('alice', 'bob')
    await files.begin('alice', 'log')
    await files.record('alice', 'log', 1)
    assert.deepEqual(stateOf(granted(await files.begin('alice', 'log'))), [[2], false])
    refused(await files.begin('alice', 'log', { size: MIB }), 'invalid_request')
    refused(await files.begin('bob', 'log'), 'invalid_request')
    refused(await files.admit('bob', 'log', 0), 'file_expired')
    refused(await files.record('bob', 'log', 0), 'file_expired')
    refused(await files.say('bob', 'log'), 'file_expired')
    world.now += DAY
    refused(await files.begin('alice', 'log'), 'file_expired')
    refused(await files.record('alice', 'log', 0), 'file_expired')
    refused(await files.status('alice', 'log'), 'file_expired')
    world.now += REST
    await files.forget(await files.due())
    granted(await files.begin('alice', 'log', { size: MIB }))
  })

  test('a message names a file once, in the transaction that stores it', async (t) => {
    const world = await open(t)
    const files = new Files(world)
    await world.found('alice', 'bob')
    refused(await files.say('alice', 'unknown'), 'file_expired')
    await files.send('alice', 'log')
    refused(await files.say('alice', 'log'), 'invalid_request')
    // The same message again gets its answer.
    granted(await files.begin('alice', 'more', { size: MIB }))
    await files.record('alice', 'more', 0)
    const message = world.message('alice', { file: { id: hex16('more'), ...KEPT } })
    const { index } = granted(await world.run('append', message)) as { index: number }
    assert.deepEqual(await world.run('append', message), { index, charged: false })
    // A message that is refused leaves its file unsent.
    granted(await files.begin('bob', 'third', { size: MIB }))
    await files.record('bob', 'third', 0)
    refused(await files.say('bob', 'third', { counter: 9 }), 'out_of_order')
    assert.deepEqual(stateOf(await files.status('bob', 'third')), [[1], false])
  })

  test('those who are members when a file is sent may fetch it, until they leave', async (t) => {
    const world = await open(t)
    const files = new Files(world)
    await world.found('alice', 'bob', 'carol')
    await files.send('alice', 'log')
    granted(await world.commit('alice', { adds: ['dave'], vouches: ['dave'] }))
    granted(await files.find('alice', 'log'))
    granted(await files.find('bob', 'log'))
    refused(await files.find('dave', 'log'), 'not_allowed')
    refused(await files.find('mallory', 'log'), 'not_found')
    granted(await world.commit('alice', { removes: ['bob'] }))
    refused(await files.find('bob', 'log'), 'removed')
    // Back again, it has come later.
    granted(await world.commit('alice', { adds: ['bob'], vouches: ['bob'] }))
    refused(await files.find('bob', 'log'), 'not_allowed')
    granted(await files.find('carol', 'log'))
  })

  test('a file ends when all that may fetch it have dropped it', async (t) => {
    const world = await open(t)
    const files = new Files(world)
    await world.found('alice', 'bob', 'carol')
    await files.send('alice', 'log')
    granted(await world.commit('alice', { adds: ['dave'], vouches: ['dave'] }))
    // Neither its sender nor a later member counts.
    for (const agent of ['alice', 'dave', 'bob', 'bob'])
      assert.deepEqual(await files.drop(agent, 'log'), { done: true })
    refused(await files.find('bob', 'log'), 'file_expired')
    granted(await files.find('carol', 'log'))
    assert.deepEqual(await files.drop('carol', 'log'), { done: true })
    refused(await files.find('carol', 'log'), 'file_expired')
    refused(await files.status('alice', 'log'), 'file_expired')
    assert.deepEqual(await files.drop('carol', 'log'), { done: true })
    assert.deepEqual(await files.due(), [])
    world.now += REST
    const due = await files.due()
    assert.equal(due.length, 1)
    assert.deepEqual(await world.run('knownFiles', { keys: [...due, 'f'.repeat(32)] }), { keys: due })
    await files.forget(due)
    assert.deepEqual(await world.run('knownFiles', { keys: due }), { keys: [] })
  })

  test('its sender and the owner end a file for all, other members do not', async (t) => {
    const world = await open(t)
    const files = new Files(world)
    await world.found('alice', 'bob', 'carol')
    await files.send('bob', 'one')
    await files.send('bob', 'two')
    refused(await files.drop('carol', 'one', true), 'not_allowed')
    assert.deepEqual(await files.drop('bob', 'one', true), { done: true })
    assert.deepEqual(await files.drop('alice', 'two', true), { done: true })
    refused(await files.find('carol', 'one'), 'file_expired')
    refused(await files.find('carol', 'two'), 'file_expired')
    // Not sent yet.
    granted(await files.begin('bob', 'three'))
    assert.deepEqual(await files.drop('bob', 'three', true), { done: true })
    refused(await files.record('bob', 'three', 0), 'file_expired')
  })

  test('room is reserved before the first byte and free once the bytes are deleted', async (t) => {
    const world = await open(t)
    const files = new Files(world)
    await world.found('alice', 'bob')
    const size = 4 * MIB
    const need = storedFileBytes(size)
    // Three quarters are exactly three files.
    const limits = { ...LIMITS, accountBytes: 4 * need }
    for (const label of ['1', '2', '3']) granted(await files.begin('alice', label, { size, limits }))
    refused(await files.begin('alice', '4', { size, limits }), 'queue_full')
    await files.drop('alice', '1', true)
    refused(await files.begin('alice', '4', { size, limits }), 'queue_full')
    world.now += REST
    await files.forget(await files.due())
    granted(await files.begin('alice', '4', { size, limits }))
    // The other channels of the account have the rest.
    const channel = hex16('other')
    granted(await world.create('alice', { channel, name: 'acme/support/other' }))
    granted(await files.begin('alice', '5', { size, limits, channel }))
    refused(await files.begin('alice', '6', { size: 65_536, limits, channel }), 'quota_exceeded')
    // A plan may allow less than the relay.
    const limitsOf = { channelBytes: undefined, accountBytes: undefined, fileBytes: need }
    await world.run('allot', { account: account('alice'), ...limitsOf, at: world.now })
    refused(await files.begin('alice', '7', { size: 65_536 }), 'queue_full')
  })

  test('files that are begun at once do not share their room', async (t) => {
    const world = await open(t)
    const files = new Files(world)
    await world.found('alice', 'bob')
    const limits = { ...LIMITS, accountBytes: 4 * storedFileBytes(4 * MIB) }
    const labels = ['1', '2', '3', '4', '5']
    const begun = await Promise.all(labels.map((label) => files.begin('alice', label, { size: 4 * MIB, limits })))
    assert.equal(begun.filter((result) => 'parts' in result).length, 3)
    const small = { ...LIMITS, open: 5 }
    const more = await Promise.all(
      ['6', '7', '8'].map((label) => files.begin('alice', label, { size: MIB, limits: small })),
    )
    assert.equal(more.filter((result) => 'parts' in result).length, 2)
  })

  test('a deleted channel takes its files with it', async (t) => {
    const world = await open(t)
    const files = new Files(world)
    await world.found('alice', 'bob')
    await files.send('alice', 'log')
    await files.begin('bob', 'more')
    await world.run('delete', { account: account('alice'), channel: world.channel, name: undefined })
    const due = await files.due()
    assert.equal(due.length, 2)
    await files.forget(due)
    assert.deepEqual(await world.run('knownFiles', { keys: due }), { keys: [] })
  })

  test('an agent has a few unsent files, in all its channels', async (t) => {
    const world = await open(t)
    const files = new Files(world)
    await world.found('alice', 'bob')
    const channel = hex16('other')
    granted(await world.create('bob', { channel, name: 'acme/support/other' }))
    const limits = { ...LIMITS, open: 2 }
    granted(await files.begin('bob', '1', { limits, channel }))
    granted(await files.begin('bob', '2', { limits, size: 65_536 }))
    refused(await files.begin('bob', '3', { limits }), 'rate_limited')
    granted(await files.begin('alice', '3', { limits }))
    await files.record('bob', '2', 0)
    granted(await files.say('bob', '2'))
    granted(await files.begin('bob', '4', { limits }))
  })

  test('guests leave places for the files of others, however small theirs are', async (t) => {
    const world = await open(t)
    const files = new Files(world)
    granted(await world.create('alice', { guestLimit: 100 }))
    granted(await world.commit('alice', { adds: ['gina', 'gus'], vouches: ['gina', 'gus'] }))
    const fields = { size: 65_536, limits: { ...LIMITS, perChannel: 8 } }
    granted(await files.begin('gina', '1', { ...fields, actor: guest('gina') }))
    // It takes its place until it is swept.
    granted(await files.begin('gus', '2', { ...fields, actor: guest('gus') }))
    granted(await files.drop('gus', '2', true, guest('gus')))
    for (const name of ['gina', 'gus']) {
      refused(await files.begin(name, '3', { ...fields, actor: guest(name) }), 'queue_full')
    }
    for (let label = 4; label < 10; label++) granted(await files.begin('alice', String(label), fields))
    refused(await files.begin('alice', '10', fields), 'queue_full')
  })
})

forLedger((open) => {
  test('guests fill only their share of the room, and the owner pays for their parts up to the limit', async (t) => {
    const world = await open(t)
    const files = new Files(world)
    granted(await world.create('alice', { guestLimit: 3 }))
    granted(await world.commit('alice', { adds: ['gina'], vouches: ['gina'] }))
    const actor = guest('gina')
    const need = storedFileBytes(2 * MIB)
    // A quarter of three quarters is one file and a bit.
    const limits = { ...LIMITS, accountBytes: Math.ceil((16 / 3) * need) + 4 }
    granted(await files.begin('gina', '1', { actor, limits }))
    refused(await files.begin('gina', '2', { actor, limits, size: 65_536 }), 'queue_full')
    granted(await files.begin('alice', '3', { limits }))
    assert.deepEqual(granted(await files.admit('gina', '1', 0, actor)).payer, account('alice'))
    granted(await files.record('gina', '1', 0, { actor }))
    granted(await files.record('gina', '1', 0, { actor }))
    granted(await files.record('gina', '1', 1, { actor }))
    // Both parts count, the repeat does not: one message is left.
    granted(await files.say('gina', '1', { actor }))
    refused(await world.say('gina', { actor }), 'quota_exceeded')
    granted(await files.begin('gina', '4', { actor }))
    refused(await files.admit('gina', '4', 0, actor), 'quota_exceeded')
    refused(await files.record('gina', '4', 0, { actor }), 'quota_exceeded')
  })

  test('a channel has a limited number of files', async (t) => {
    const world = await open(t)
    const files = new Files(world)
    await world.found('alice', 'bob')
    const limits = { ...LIMITS, perChannel: 2 }
    for (const label of ['1', '2']) granted(await files.begin('alice', label, { limits, size: 65_536 }))
    refused(await files.begin('bob', '3', { limits, size: 65_536 }), 'queue_full')
  })

  test('no part is out of range, and no id reaches the files of another channel', async (t) => {
    const world = await open(t)
    const files = new Files(world)
    await world.found('alice', 'bob')
    await files.begin('alice', 'log')
    for (const part of [2, 4096, 2 ** 31]) {
      refused(await files.admit('alice', 'log', part), 'invalid_request')
      refused(await files.record('alice', 'log', part), 'invalid_request')
    }
    const channel = hex16('other')
    granted(await world.create('bob', { channel, name: 'acme/support/other' }))
    granted(await files.begin('bob', 'log', { channel }))
    const own = granted(await files.admit('alice', 'log', 0))
    const other = await world.run('admitPart', {
      actor: member('bob'),
      channel,
      file: hex16('log'),
      part: 0,
      now: world.now,
    })
    assert.notEqual(granted(other).key, own.key)
  })

  test('a removed member stores and sends nothing more', async (t) => {
    const world = await open(t)
    const files = new Files(world)
    await world.found('alice', 'bob', 'carol')
    await files.begin('bob', 'log', { size: 65_536 })
    granted(await world.commit('alice', { removes: ['bob'] }))
    refused(await files.record('bob', 'log', 0), 'removed')
    refused(await files.drop('bob', 'log', true), 'removed')
    refused(await files.begin('bob', 'more'), 'removed')
    world.now += HOUR
    assert.deepEqual(await world.run('check', { actor: member('carol'), channel: world.channel }), { done: true })
    assert.equal(agentId('bob').length, 64)
  })
})
