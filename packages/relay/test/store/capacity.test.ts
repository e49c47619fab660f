import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Store } from '../../src/ports.ts'
import { Ledger } from '../../src/store/ledger/ledger.ts'
import { MemoryRows } from '@static/testkit/store/relay-memory-rows'
import {
  RETENTION,
  ChannelFixture,
  accepted,
  agentId,
  assertChain,
  forEachEngine,
  guest,
  refused,
  sha256,
} from './channel-fixture.ts'

const body = { ciphertext: new Uint8Array(800) }

forEachEngine((open) => {
  test('a full channel refuses senders and names whom it waits for; commits and leaves still pass', async (t) => {
    const world = await open(t, { channelEntries: 16 })
    await world.found('alice', 'bob', 'carol', 'dave')
    await world.ack('alice', 1)
    accepted(await world.commit('alice', { adds: ['erin'] }))
    // A quarter each, the owner's commits included.
    for (const [name, count] of [
      ['alice', 3],
      ['bob', 4],
      ['carol', 4],
      ['dave', 4],
    ] as const) {
      const results = await world.chatter(name, count + 1)
      results.slice(0, count).forEach(accepted)
      refused(results[count]!, 'queue_full')
    }
    // Now the channel itself is full.
    const { lagging } = refused(await world.say('erin', { paid: false }), 'queue_full')
    assert.deepEqual(new Set(lagging as string[]), new Set(['alice', 'bob', 'carol', 'dave'].map(agentId)))
    accepted(await world.commit('alice'))
    accepted(await world.leave('erin'))
    accepted(await world.commit('alice', { removes: ['erin'] }))
    const { entries, gap } = await world.read('bob', 1)
    assert.deepEqual([entries.length, gap], [19, undefined])
    assertChain(world.channel, entries, (await world.stand('bob')).cursor)
  })

  test('one sender fills a quarter of the bytes and no more, while others can send', async (t) => {
    const world = await open(t, { channelBytes: 40_000 })
    await world.found('alice', 'bob')
    const results = await world.chatter('bob', 11, body)
    results.slice(0, 10).forEach(accepted)
    const { lagging } = refused(results[10]!, 'queue_full')
    assert.deepEqual(new Set(lagging as string[]), new Set([agentId('alice')]))
    accepted(await world.say('alice', body))
    await world.ack('alice', 3)
    refused(await world.say('bob', body), 'queue_full')
    await world.ack('bob', 3)
    accepted(await world.say('bob', body))
  })

  test('what all have acknowledged makes room first, and nobody gets a gap', async (t) => {
    const world = await open(t, { channelEntries: 16 })
    await world.found('alice', 'bob')
    await world.chatter('bob', 4)
    refused(await world.say('bob'), 'queue_full')
    await world.ack('alice', 3)
    await world.ack('bob', 2)
    accepted(await world.say('bob'))
    const { entries, gap } = await world.read('bob', 2)
    assert.deepEqual([entries[0]?.index, gap], [3, undefined])
    assert.equal((await world.read('alice', 3)).gap, undefined)
  })

  test('what fewer than half wait for is let go, oldest first and a little more, and they are told of the gap', async (t) => {
    const world = await open(t, { channelEntries: 80 })
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
    assert.deepEqual(await gapOf('erin', 1), [2, 7, false, 8])
    assert.deepEqual(await gapOf('dave', 5), [6, 7, false, 8])
    assert.deepEqual(await gapOf('carol', 10), [undefined, undefined, undefined, 11])
    // Beyond the third cursor more than half wait: that is not let go.
    let result = await world.say('alice')
    while ('index' in result) result = await world.say('alice')
    const { lagging } = refused(result, 'queue_full')
    assert.deepEqual(await gapOf('carol', 10), [undefined, undefined, undefined, 11])
    assert.deepEqual(lagging, ['erin', 'dave', 'carol'].map(agentId))
  })

  test('a gap says where it ends and whether a commit was in it, and the chain goes on from there', async (t) => {
    const world = await open(t, { channelEntries: 32 })
    await world.found('alice', 'bob', 'carol')
    await world.chatter('alice', 8)
    await world.ack('alice', 9)
    await world.ack('bob', 9)
    await world.chatter('bob', 8)
    accepted(await world.commit('alice'))
    await world.chatter('carol', 8)
    await world.ack('alice', 26)
    await world.ack('bob', 26)
    // Carol waits alone, since the commit that added it. Alice holds a quarter of the messages and one commit more.
    accepted(await world.say('alice'))
    const { gap, entries, last } = await world.read('carol', 1)
    assert.ok(gap)
    assert.deepEqual([gap.first, gap.commitLost], [2, false])
    assert.ok(gap.position.index >= 2 && gap.position.index < 18, `${gap.position.index}`)
    assert.equal(entries[0]?.index, gap.position.index + 1)
    assert.equal(assertChain(world.channel, entries, gap.position).index, last)
    // Not from the cursor: what is known of the slots decides.
    assert.equal((await world.read('carol', 3)).gap?.commitLost, false)

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

  test('a cursor inside of a gap stays where it was, so that the rest of the gap is told', async (t) => {
    const world = await open(t, { channelEntries: 1024 })
    await world.found('alice', 'bob', 'carol')
    await world.chatter('bob', 256)
    await world.ack('alice', 257)
    await world.ack('bob', 257)
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

  test('in a full channel former members hold nothing back; their gap ends where their membership did', async (t) => {
    const world = await open(t, { channelEntries: 16 })
    await world.found('alice', 'bob')
    accepted(await world.commit('alice', { removes: ['bob'] }))
    await world.chatter('alice', 2)
    await world.ack('alice', 4)
    await world.run('sweep', { now: world.now })
    assert.deepEqual((await world.read('bob', 1)).gap, undefined)
    // Only what bob waits for is in the way.
    for (let times = 0; times < 4; times++) accepted(await world.say('alice'))
    const { gap, entries, last, ended } = await world.read('bob', 1)
    assert.ok(gap)
    assert.deepEqual(
      [gap.first, gap.position.index, gap.position.slot, gap.commitLost, gap.ended],
      [2, 2, 2, true, true],
    )
    assert.deepEqual([entries, last, ended], [[], 2, true])
    const { removed, lastIndex } = await world.stand('bob')
    assert.deepEqual([removed, lastIndex], [true, 2])
    await world.ack('bob', 2)
    assert.deepEqual(await world.standing('bob'), { channel: world.channel, refused: 'removed' })
  })

  test('an unpaid or refused message does not make room for itself', async (t) => {
    const world = await open(t, { channelEntries: 16 })
    await world.found('alice', 'bob', 'carol')
    await world.chatter('bob', 4)
    await world.ack('alice', 5)
    await world.ack('bob', 5)
    assert.ok('unpaid' in (await world.say('bob', { paid: false })))
    assert.equal((await world.read('carol', 1)).gap, undefined)
    refused(await world.say('bob', { actor: guest('bob') }), 'api_key_required')
    assert.equal((await world.read('carol', 1)).gap, undefined)
    accepted(await world.say('bob'))
    assert.ok((await world.read('carol', 1)).gap)
  })

  test('what a sender holds is counted across a removal, and given back when it is let go', async (t) => {
    const world = await open(t, { channelEntries: 16 })
    await world.found('alice', 'bob')
    await world.chatter('bob', 4)
    accepted(await world.commit('alice', { removes: ['bob'], adds: ['bob'] }))
    refused(await world.say('bob', { counter: 1 }), 'queue_full')
    await world.ack('alice', 6)
    await world.ack('bob', 6)
    await world.run('sweep', { now: world.now })
    world.recount('bob')
    const results = await world.chatter('bob', 5)
    results.slice(0, 4).forEach(accepted)
    refused(results[4]!, 'queue_full')
  })
})

test('a refusal for fullness looks at no entry again before something has changed, whatever the size', async () => {
  class CountingRows extends MemoryRows {
    looked = 0;

    override *weights(...args: Parameters<MemoryRows['weights']>): ReturnType<MemoryRows['weights']> {
      for (const weight of super.weights(...args)) {
        this.looked += 1
        yield weight
      }
    }
  }
  const rows = new CountingRows()
  const ledger = new Ledger(rows, sha256, { ...RETENTION, channelBytes: 40_000 })
  const store: Store = {
    deployment: { relayId: new Uint8Array(), tokenKey: new Uint8Array() },
    run: async (name, request) => ledger.run(name, request).result,
    healthy: () => true,
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
  rows.looked = 0
  refused(await world.say('bob', { ciphertext: new Uint8Array(9000) }), 'queue_full')
  assert.ok(rows.looked > 0)
  rows.looked = 0
  for (let size = 8999; size > 8000; size--) {
    const { lagging } = refused(await world.say('bob', { ciphertext: new Uint8Array(size) }), 'queue_full')
    assert.equal((lagging as string[]).length, 3)
  }
  assert.equal(rows.looked, 0)
  // What fits is taken, and so is what fits after an acknowledgement.
  accepted(await world.say('bob', { ciphertext: new Uint8Array(500) }))
  refused(await world.say('bob', { ciphertext: new Uint8Array(7000) }), 'queue_full')
  for (const name of ['alice', 'bob', 'carol']) await world.ack(name, 99)
  accepted(await world.say('bob', { ciphertext: new Uint8Array(7000) }))
})
