import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Pressure, Store } from '../../src/ports.ts'
import { Ledger } from '../../src/store/ledger/ledger.ts'
import { MemoryRows } from '@static/testkit/store/relay-memory-rows'
import {
  RETENTION,
  ChannelFixture,
  accepted,
  agentId,
  assertChain,
  forLedger,
  guest,
  refused,
  sha256,
} from './channel-fixture.ts'

const agents = (lagging: unknown): string[] => (lagging as { agent: string }[]).map(({ agent }) => agent)
const body = { ciphertext: new Uint8Array(800) }

forLedger((open) => {
  test('a full channel refuses senders and names the lagging members; commits and leaves are still accepted', async (t) => {
    const world = await open(t, { channelEntries: 16 })
    await world.found('alice', 'bob', 'carol', 'dave')
    await world.ack('alice', 1)
    accepted(await world.commit('alice', { adds: ['erin'] }))
    // Eleven of its own count for a third more, beside the second commit: the first one makes way.
    const results = await world.chatter('bob', 12)
    results.slice(0, 11).forEach(accepted)
    refused(results[11]!, 'queue_full')
    for (let times = 0; times < 3; times++) accepted(await world.say('carol'))
    const { lagging, message } = refused(await world.say('erin', { paid: undefined }), 'queue_full')
    const waiting = ['alice', 'bob', 'carol', 'dave'].map((name) => ({ agent: agentId(name), waiting: 15 }))
    assert.deepEqual(
      lagging,
      waiting.sort((one, other) => (one.agent < other.agent ? -1 : 1)),
    )
    assert.match(
      message as string,
      /^The channel is full: it holds 15 of 16 entries \(0 from this sender, .*remove them\.$/,
    )
    accepted(await world.commit('alice'))
    accepted(await world.leave('erin'))
    accepted(await world.commit('alice', { removes: ['erin'] }))
    const { entries, gap } = await world.read('bob', 1)
    assert.deepEqual([entries.length, gap], [18, undefined])
    assertChain(world.channel, entries, (await world.stand('bob')).cursor)
  })

  test('one sender can fill three quarters, and the next one still has room', async (t) => {
    const world = await open(t, { channelEntries: 1600 })
    await world.found('alice', 'bob', 'carol', 'dave', 'erin')
    let left = 1599
    for (const name of ['bob', 'carol', 'dave', 'erin']) {
      const results = await world.chatter(name, left)
      const count = results.filter((result) => 'index' in result).length
      assert.ok(Math.abs(count - (left * 3) / 4) <= 1, `${name}: ${count} of ${left}`)
      refused(results[count]!, 'queue_full')
      left -= count
    }
  })

  test('the bytes of one sender are limited to three quarters, while others can send', async (t) => {
    const world = await open(t, { channelBytes: 41_400 })
    await world.found('alice', 'bob')
    const results = await world.chatter('bob', 30, body)
    results.slice(0, 29).forEach(accepted)
    const { lagging, message } = refused(results[29]!, 'queue_full')
    assert.deepEqual(lagging, [{ agent: agentId('alice'), waiting: 30 }])
    assert.match(message as string, /of 41400 bytes \(29000 from this sender/)
    accepted(await world.say('alice', body))
    await world.ack('alice', 3)
    refused(await world.say('bob', body), 'queue_full')
    await world.ack('bob', 3)
    accepted(await world.say('bob', body))
  })

  test('from three quarters on, answers name the lagging members and a wait; not before, nor once these have read', async (t) => {
    const world = await open(t, { channelEntries: 120 })
    const away = Array.from({ length: 10 }, (_, at) => `away ${at}`)
    await world.found('alice', 'bob', ...away)
    await world.ack('alice', 1)
    const pressures: (Pressure | undefined)[] = []
    for (let at = 0; at < 89; at++) {
      const result = await world.say('bob')
      const index = accepted(result)
      pressures.push('pressure' in result ? result.pressure : undefined)
      for (const name of ['alice', 'bob']) await world.ack(name, index)
    }
    // 1 + n + n / 3 entries of 120.
    const first = pressures.findIndex(Boolean)
    assert.equal(first, 66)
    const waits = pressures.slice(first).map((pressure) => pressure?.waitMs ?? 0)
    assert.deepEqual(
      waits,
      waits.toSorted((one, other) => one - other),
    )
    assert.deepEqual([waits[0], waits.at(-1)], [2, 99])
    const named = pressures.at(-1)?.lagging ?? []
    const expected = away.map(agentId).sort().slice(0, 8)
    assert.deepEqual(
      named,
      expected.map((agent) => ({ agent, waiting: 89 })),
    )
    for (const name of away) await world.ack(name, 90)
    assert.deepEqual(await world.say('bob'), { index: 91, charged: true })
  })

  test('entries that all members have acknowledged are dropped first, and no one gets a gap', async (t) => {
    const world = await open(t, { channelEntries: 16 })
    await world.found('alice', 'bob')
    await world.chatter('bob', 11)
    refused(await world.say('bob'), 'queue_full')
    await world.ack('alice', 3)
    await world.ack('bob', 2)
    accepted(await world.say('bob'))
    const { entries, gap } = await world.read('bob', 2)
    assert.deepEqual([entries[0]?.index, gap], [3, undefined])
    assert.equal((await world.read('alice', 3)).gap, undefined)
  })

  test('entries that fewer than half still need are dropped, oldest first and a few more, and those members get a gap', async (t) => {
    const world = await open(t, { channelEntries: 86 })
    await world.found('alice', 'bob', 'carol', 'dave', 'erin')
    await world.ack('alice', 1)
    await world.chatter('alice', 15)
    for (const name of ['bob', 'carol', 'dave', 'erin']) (await world.chatter(name, 16)).forEach(accepted)
    await world.ack('alice', 80)
    await world.ack('bob', 80)
    await world.ack('carol', 10)
    await world.ack('dave', 5)
    // The first entry is everyone's, and enough.
    accepted(await world.say('alice'))
    assert.equal((await world.read('erin', 1)).gap, undefined)
    // One more is needed, and a sixteenth of the limit goes with it.
    accepted(await world.say('bob'))
    const gapOf = async (name: string, after: number): Promise<unknown> => {
      const { gap, entries } = await world.read(name, after)
      return [gap?.first, gap?.position.index, gap?.commitLost, entries[0]?.index]
    }
    assert.deepEqual(await gapOf('erin', 1), [2, 8, false, 9])
    assert.deepEqual(await gapOf('dave', 5), [6, 8, false, 9])
    assert.deepEqual(await gapOf('carol', 10), [undefined, undefined, undefined, 11])
    // Beyond the third cursor more than half wait: that is not let go.
    let result = await world.say('alice')
    while ('index' in result) result = await world.say('alice')
    const { lagging } = refused(result, 'queue_full')
    assert.deepEqual(await gapOf('carol', 10), [undefined, undefined, undefined, 11])
    assert.deepEqual(agents(lagging), ['erin', 'dave', 'carol'].map(agentId))
  })

  test('a gap states where it ends and whether it contains a commit, and the chain continues from there', async (t) => {
    const world = await open(t, { channelEntries: 29 })
    await world.found('alice', 'bob', 'carol')
    await world.chatter('alice', 8)
    await world.ack('alice', 9)
    await world.ack('bob', 9)
    await world.chatter('bob', 8)
    accepted(await world.commit('alice'))
    await world.chatter('carol', 8)
    await world.ack('alice', 26)
    await world.ack('bob', 26)
    // Carol waits alone, since the commit that added it.
    accepted(await world.say('alice'))
    const { gap, entries, last } = await world.read('carol', 1)
    assert.ok(gap)
    assert.deepEqual([gap.first, gap.commitLost], [2, false])
    assert.ok(gap.position.index >= 2 && gap.position.index < 18, `${gap.position.index}`)
    assert.equal(entries[0]?.index, gap.position.index + 1)
    assert.equal(assertChain(world.channel, entries, gap.position).index, last)
    // Not from the cursor: what is known of the slots decides.
    assert.equal((await world.read('carol', 2)).gap?.commitLost, false)

    await world.ack('alice', 27)
    await world.ack('bob', 27)
    await world.chatter('bob', 8)
    await world.ack('alice', 99)
    await world.ack('bob', 99)
    await world.chatter('bob', 8)
    const later = await world.read('carol', 1)
    assert.ok(later.gap)
    assert.ok(later.gap.position.index >= 18)
    assert.deepEqual([later.gap.first, later.gap.commitLost], [2, true])
    assert.equal((await world.read('carol', 10)).gap?.commitLost, true)
    assert.equal((await world.read('carol', later.gap.position.index)).gap, undefined)
    assertChain(world.channel, later.entries, later.gap.position)
  })

  test('a cursor inside a gap does not move, so that the rest of the gap is reported', async (t) => {
    const world = await open(t, { channelEntries: 341 })
    await world.found('alice', 'bob', 'carol')
    await world.chatter('bob', 255)
    await world.ack('alice', 256)
    await world.ack('bob', 256)
    accepted(await world.say('bob'))
    const { gap } = await world.read('carol', 1)
    assert.ok(gap)
    const end = gap.position.index
    assert.equal(end, 18)
    await world.ack('carol', 2)
    assert.equal((await world.stand('carol')).cursor.index, 1)
    await world.ack('carol', end)
    const { cursor } = await world.stand('carol')
    assert.deepEqual([cursor.index, Buffer.from(cursor.hash)], [end, Buffer.from(gap.position.hash)])
    assert.equal((await world.read('carol', end)).gap, undefined)
  })

  test('in a full channel former members do not delay deletion; their gap ends where their membership did', async (t) => {
    const world = await open(t, { channelEntries: 16 })
    await world.found('alice', 'bob')
    accepted(await world.commit('alice', { removes: ['bob'] }))
    await world.chatter('alice', 2)
    await world.ack('alice', 4)
    await world.run('sweep', { now: world.now })
    assert.deepEqual((await world.read('bob', 1)).gap, undefined)
    // Only what bob waits for is in the way.
    for (let times = 0; times < 10; times++) accepted(await world.say('alice'))
    const { gap, entries, last, ended } = await world.read('bob', 1)
    assert.ok(gap)
    assert.deepEqual(
      [gap.first, gap.position.index, gap.position.slot, gap.commitLost, gap.ended, gap.last],
      [2, 2, 2, true, true, true],
    )
    assert.deepEqual([entries, last, ended], [[], 2, true])
    const { removed, lastIndex } = await world.stand('bob')
    assert.deepEqual([removed, lastIndex], [true, 2])
    await world.ack('bob', 2)
    assert.deepEqual(await world.standing('bob'), { channel: world.channel, refused: 'removed' })
  })

  test('an unpaid or refused message does not make room for itself', async (t) => {
    const world = await open(t, { channelEntries: 13 })
    await world.found('alice', 'bob', 'carol')
    await world.chatter('bob', 9)
    await world.ack('alice', 10)
    await world.ack('bob', 10)
    assert.ok('unpaid' in (await world.say('bob', { paid: undefined })))
    assert.equal((await world.read('carol', 1)).gap, undefined)
    refused(await world.say('bob', { actor: guest('bob') }), 'api_key_required')
    assert.equal((await world.read('carol', 1)).gap, undefined)
    accepted(await world.say('bob'))
    assert.ok((await world.read('carol', 1)).gap)
  })

  test('the size of a sender’s entries is counted across a removal, and released when they are dropped', async (t) => {
    const world = await open(t, { channelEntries: 16 })
    await world.found('alice', 'bob')
    await world.chatter('bob', 11)
    accepted(await world.commit('alice', { removes: ['bob'], adds: ['bob'] }))
    refused(await world.say('bob', { counter: 1 }), 'queue_full')
    await world.ack('alice', 13)
    await world.ack('bob', 13)
    await world.run('sweep', { now: world.now })
    world.recount('bob')
    const results = await world.chatter('bob', 13)
    results.slice(0, 12).forEach(accepted)
    refused(results[12]!, 'queue_full')
  })

  test('of three vouched members, one that is offline, even the owner, does not stop the channel', async (t) => {
    for (const away of ['alice', 'bob'] as const) {
      const world = await open(t, { channelEntries: 24 })
      await world.found('alice', 'bob', 'carol')
      // Reads nothing, but the owner does not vouch for it.
      accepted(await world.commit('bob', { adds: ['dave'] }))
      // The owner needs every commit; it has read this one.
      await world.ack('alice', 2)
      const there = ['alice', 'bob', 'carol'].filter((name) => name !== away)
      for (let at = 0; at < 60; at++) {
        const index = accepted(await world.say(there[at % there.length]!))
        for (const name of there) await world.ack(name, index)
      }
      assert.ok((await world.read(away, 2)).gap)
      assert.equal((await world.read('carol', (await world.stand('carol')).cursor.index)).gap, undefined)
    }
  })

  test('of two vouched members nothing that one needs is dropped, alone or beside others', async (t) => {
    for (const others of [[], ['carol', 'dave']]) {
      const world = await open(t, { channelEntries: 24 })
      await world.found('alice', 'bob')
      accepted(await world.commit('bob', { adds: others }))
      const results = await world.chatter('bob', 30)
      for (const name of ['bob', ...others]) await world.ack(name, 99)
      refused(
        results.find((result) => 'refused' in result)!,
        'queue_full',
      )
      refused(await world.say('bob'), 'queue_full')
      assert.equal((await world.read('alice', 0)).gap, undefined)
    }
  })
})

test('a full channel does not search the same entries again until something has changed, whatever the size', async () => {
  const rows = new MemoryRows()
  let looked = 0
  const weights = rows.log.weights.bind(rows.log)
  rows.log.weights = function* (...args) {
    for (const weight of weights(...args)) {
      looked += 1
      yield weight
    }
  }
  const ledger = new Ledger(rows, sha256, { ...RETENTION, channelBytes: 21_000 })
  const store: Store = {
    deployment: { relayId: new Uint8Array(), tokenKey: new Uint8Array() },
    run: async (name, request) => ledger.run(name, request).result,
    healthy: () => true,
    durability: () => 'memory',
    close: () => Promise.resolve(),
  }
  const world = new ChannelFixture(store, [])
  await world.found('alice', 'bob', 'carol')
  for (let times = 0; times < 8; times++) {
    accepted(await world.say('alice'))
    accepted(await world.say('bob', { ciphertext: new Uint8Array(1000) }))
  }
  await world.ack('alice', 5)
  await world.ack('bob', 5)
  looked = 0
  refused(await world.say('bob', { ciphertext: new Uint8Array(9000) }), 'queue_full')
  assert.ok(looked > 0)
  looked = 0
  for (let size = 8999; size > 8000; size--) {
    const { lagging } = refused(await world.say('bob', { ciphertext: new Uint8Array(size) }), 'queue_full')
    assert.equal((lagging as string[]).length, 3)
  }
  assert.equal(looked, 0)
  // What fits is taken, and so is what fits after an acknowledgement.
  accepted(await world.say('bob', { ciphertext: new Uint8Array(500) }))
  refused(await world.say('bob', { ciphertext: new Uint8Array(7000) }), 'queue_full')
  for (const name of ['alice', 'bob', 'carol']) await world.ack(name, 99)
  accepted(await world.say('bob', { ciphertext: new Uint8Array(7000) }))
})
