import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MAX_CIPHERTEXT_BYTES } from '@static/protocol'
import {
  DAY,
  HOUR,
  START,
  account,
  accepted,
  agentId,
  assertChain,
  forEachEngine,
  guest,
  hex16,
  member,
  notice,
  refused,
} from './channel-fixture.ts'

forEachEngine((open) => {
  test('messages get consecutive indexes, a chain, and an event each before the answer', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    world.told()
    const request = world.message('bob')
    const answer = world.run('append', request).then((result) => ({ result, events: world.told() }))
    const { result, events } = await answer
    assert.deepEqual(result, { index: 2, charged: true })
    const [event] = events
    assert.ok(event?.type === 'appended' && event.entry.kind === 'message')
    const { hash, ...entry } = event.entry
    assert.equal(event.channel, world.channel)
    assert.equal(hash.length, 32)
    assert.deepEqual(entry, {
      kind: 'message',
      index: 2,
      slot: 1,
      sender: agentId('bob'),
      at: world.now,
      messageId: request.messageId,
      counter: 1,
      control: false,
      ciphertext: request.ciphertext,
    })
    world.recount('bob', 1)
    const many = await world.chatter('bob', 20)
    assert.deepEqual(
      many.map(accepted),
      Array.from({ length: 20 }, (_, at) => 3 + at),
    )
    const { entries } = await world.read('alice', 0)
    assertChain(world.channel, entries)
    assert.equal(entries.length, 22)
    assert.deepEqual(
      world.told().map((told) => told.type === 'appended' && told.entry.index),
      many.map(accepted),
    )
  })

  test('a repeated message gets the first answer, and is not charged, logged or announced again', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    const request = world.message('bob')
    assert.deepEqual(await world.run('append', request), { index: 2, charged: true })
    world.told()
    assert.deepEqual(await world.run('append', request), { index: 2, charged: false })
    assert.deepEqual(await world.run('append', { ...request, paid: undefined }), { index: 2, charged: false })
    // Everything else may be wrong by now: the id comes first.
    assert.deepEqual(await world.run('append', { ...request, counter: 2 }), { index: 2, charged: false })
    assert.deepEqual(await world.run('append', { ...request, counter: 9, slot: 7, ciphertext: new Uint8Array() }), {
      index: 2,
      charged: false,
    })
    assert.deepEqual(await world.run('append', { ...request, actor: guest('bob') }), { index: 2, charged: false })
    assert.deepEqual(world.told(), [])
    assert.equal((await world.stand('bob')).lastCounter, 1)
  })

  test('an id is remembered after its entry was deleted, for a former member too, until it expires', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    const request = world.message('bob')
    accepted(await world.run('append', request))
    await world.ack('alice', 2)
    await world.ack('bob', 2)
    assert.deepEqual(await world.run('sweep', { now: world.now }), { removed: 2 })
    assert.deepEqual(await world.run('append', request), { index: 2, charged: false })
    accepted(await world.commit('alice', { removes: ['bob'] }))
    assert.deepEqual(await world.run('append', request), { index: 2, charged: false })

    accepted(await world.commit('alice', { adds: ['bob'] }))
    const late = { ...request, slot: world.head, now: world.now + 7 * DAY }
    assert.deepEqual(await world.run('append', { ...late, now: late.now - 1 }), { index: 2, charged: false })
    assert.deepEqual(await world.run('append', late), { index: 5, charged: true })
    assert.deepEqual(await world.run('append', late), { index: 5, charged: false })
  })

  test('ids are scoped to their sender, and those of commits are separate from those of messages', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    const { messageId } = world.message('bob')
    assert.equal(accepted(await world.say('bob', { messageId })), 2)
    assert.equal(accepted(await world.say('alice', { messageId })), 3)
    assert.equal(accepted(await world.commit('bob', { messageId })), 4)
  })

  test('strangers, former members, the wrong mode and lapsed accounts are refused, in this order', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol')
    refused(await world.say('bob', { channel: hex16('none') }), 'not_found')
    refused(await world.say('eve'), 'not_found')
    const wrongMode = { agent: agentId('bob'), account: account('bob', 'test') }
    refused(await world.say('bob', { actor: wrongMode, counter: 9, slot: 9 }), 'mode_mismatch')
    accepted(await world.say('bob'))
    refused(await world.say('bob', { actor: guest('bob'), counter: 9, slot: 9 }), 'api_key_required')
    accepted(await world.say('carol', { actor: guest('carol') }))
    accepted(await world.commit('alice', { removes: ['bob', 'carol'] }))
    refused(await world.say('bob', { actor: wrongMode }), 'removed')
    refused(await world.say('carol', { actor: guest('carol') }), 'removed')
  })

  test('a refused action does not make a guest an account holder', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    refused(await world.say('bob', { counter: 5 }), 'out_of_order')
    assert.ok('unpaid' in (await world.say('bob', { paid: undefined })))
    accepted(await world.say('bob', { actor: guest('bob') }))
  })

  test('counters rise by one, starting at one; the slot is checked next, then the size', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    const empty = new Uint8Array()
    assert.deepEqual(await world.say('bob', { counter: 0, slot: 5, ciphertext: empty }), {
      refused: 'out_of_order',
      lastCounter: 0,
    })
    refused(await world.say('bob', { counter: 2 }), 'out_of_order')
    accepted(await world.say('bob'))
    assert.deepEqual(await world.say('bob', { counter: 1 }), { refused: 'out_of_order', lastCounter: 1 })
    assert.deepEqual(await world.say('bob', { slot: 0, ciphertext: empty }), { refused: 'epoch_mismatch', head: 1 })
    refused(await world.say('bob', { slot: 2 }), 'epoch_mismatch')
    refused(await world.say('bob', { ciphertext: empty, paid: undefined }), 'invalid_request')
    refused(
      await world.say('bob', { ciphertext: new Uint8Array(MAX_CIPHERTEXT_BYTES + 1), paid: undefined }),
      'too_large',
    )
    accepted(await world.say('bob', { ciphertext: new Uint8Array(MAX_CIPHERTEXT_BYTES) }))
    refused(await world.say('bob', { control: true, ciphertext: new Uint8Array(4978), paid: undefined }), 'too_large')
    accepted(await world.say('bob', { control: true, ciphertext: new Uint8Array(4977), paid: undefined }))
    assert.equal((await world.stand('bob')).lastCounter, 3)
  })

  test('a counter restarts when its agent is added again', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    await world.chatter('bob', 3)
    accepted(await world.commit('alice', { removes: ['bob'], adds: ['bob'] }))
    assert.equal((await world.stand('bob')).lastCounter, 0)
    refused(await world.say('bob'), 'out_of_order')
    accepted(await world.say('bob', { counter: 1 }))
  })

  test('an unpaid message changes nothing and names the payer, which is the owner for a guest', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol')
    world.told()
    const request = world.message('bob', { paid: undefined })
    assert.deepEqual(await world.run('append', request), { unpaid: account('bob') })
    assert.deepEqual(await world.say('carol', { actor: guest('carol'), paid: undefined }), { unpaid: account('alice') })
    assert.deepEqual(world.told(), [])
    assert.equal((await world.stand('bob')).lastCounter, 0)
    assert.deepEqual(await world.run('append', { ...request, paid: account('bob') }), { index: 2, charged: true })
  })

  test('only a unit of the payer counts, so that a former owner does not pay for guests', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol')
    accepted(await world.say('bob'))
    accepted(await world.commit('alice', { owner: 'alice', standby: 'bob' }))
    accepted(await world.commit('bob', { owner: 'bob' }))
    const request = { actor: guest('carol'), paid: account('alice') }
    assert.deepEqual(await world.say('carol', request), { unpaid: account('bob') })
    assert.deepEqual(await world.say('carol', { ...request, paid: account('bob', 'test') }), { unpaid: account('bob') })
    accepted(await world.say('carol', { ...request, paid: account('bob') }))
  })

  test('a number of control messages an hour are free, with or without a reserved unit', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    const control = { control: true, paid: undefined }
    world.now += HOUR - 1
    assert.deepEqual(await world.say('bob', control), { index: 2, charged: false })
    assert.deepEqual(await world.say('bob', { ...control, paid: account('bob') }), { index: 3, charged: false })
    assert.deepEqual(await world.say('bob', control), { index: 4, charged: false })
    assert.deepEqual(await world.say('bob', control), { unpaid: account('bob') })
    assert.deepEqual(await world.say('bob', { ...control, paid: account('bob') }), { index: 5, charged: true })
    assert.deepEqual(await world.say('alice', control), { index: 6, charged: false })
    world.now += 1
    assert.deepEqual(await world.say('bob', control), { index: 7, charged: false })
  })

  test('nodes whose clocks differ at midnight count the messages of guests together', async (t) => {
    const world = await open(t)
    await world.create('alice', { guestLimit: 2 })
    accepted(await world.commit('alice', { adds: ['bob'] }))
    const say = (now: number): Promise<object> => world.say('bob', { actor: guest('bob'), now })
    accepted(await say(START + DAY))
    accepted(await say(START + DAY - 1))
    for (const now of [START + DAY, START + DAY - 1]) refused(await say(now), 'quota_exceeded')
    accepted(await say(START + 2 * DAY))
  })

  test('messages of guests in a channel are limited per day; those of accounts and free ones do not count', async (t) => {
    const world = await open(t)
    await world.create('alice', { guestLimit: 2 })
    accepted(await world.commit('alice', { adds: ['bob', 'carol', 'dave'] }))
    const [bob, carol] = [{ actor: guest('bob') }, { actor: guest('carol') }]
    accepted(await world.say('bob', { ...bob, control: true, paid: undefined }))
    accepted(await world.say('bob', bob))
    accepted(await world.say('carol', carol))
    const { message } = refused(await world.say('bob', { ...bob, paid: undefined }), 'quota_exceeded')
    assert.match(String(message), /guests/i)
    refused(await world.say('carol', carol), 'quota_exceeded')
    accepted(await world.say('carol', { ...carol, control: true, paid: undefined }))
    assert.deepEqual(await world.say('dave'), { index: 6, charged: true })
    world.now += DAY
    assert.deepEqual(await world.say('bob', bob), { index: 7, charged: true })
  })

  test('an agent that has left can still learn that its message was accepted', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    const request = world.message('bob', { actor: guest('bob') })
    accepted(await world.run('append', request))
    accepted(await world.leave('bob', { notice: notice('bob', 1) }))
    assert.deepEqual(await world.run('append', request), { index: 2, charged: false })
    refused(await world.say('bob', { actor: guest('bob') }), 'removed')
  })

  test('an agent that has acted for an account in another channel can still be a guest here', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    const other = { channel: hex16('other'), name: 'acme/support/other' }
    await world.create('bob', other)
    accepted(await world.run('append', world.message('bob', { channel: other.channel, slot: 0 })))
    accepted(await world.say('bob', { actor: guest('bob') }))
    refused(
      await world.run(
        'append',
        world.message('bob', { channel: other.channel, slot: 0, actor: guest('bob'), counter: 2 }),
      ),
      'api_key_required',
    )
    assert.deepEqual(await world.run('check', { actor: member('bob'), channel: world.channel }), { done: true })
    refused(await world.say('bob', { actor: guest('bob') }), 'api_key_required')
  })
})
