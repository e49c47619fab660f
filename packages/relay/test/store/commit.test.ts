import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MAX_MEMBERS, MAX_WELCOME_BYTES, maxCommitBytes } from '@static/protocol'
import type { Position } from '../../src/ports.ts'
import {
  account,
  accepted,
  agentId,
  assertChain,
  forEachEngine,
  guest,
  hex16,
  id16,
  member,
  notice,
  refused,
  text,
  welcomeFor,
} from './channel-fixture.ts'

const plain = ({ index, hash, slot }: Position): object => {
  assert.ok(hash instanceof Uint8Array)
  return { index, hash: Buffer.from(hash).toString('hex'), slot }
}

forEachEngine((open) => {
  test('a commit takes the slot, changes the roster, stores the Welcomes, and emits its events in order', async (t) => {
    const world = await open(t)
    await world.found('alice')
    world.told()
    const request = world.commitRequest('alice', { adds: ['bob', 'carol'], welcomes: [welcomeFor('carol')] })
    assert.deepEqual(await world.run('commit', request), { index: 1, head: 1, units: 0 })
    const [first, second, ...rest] = world.told()
    assert.deepEqual(rest, [])
    assert.ok(first?.type === 'appended' && first.entry.kind === 'commit' && second?.type === 'welcomed')
    const { hash, ...entry } = first.entry
    assert.deepEqual(entry, {
      kind: 'commit',
      index: 1,
      slot: 0,
      sender: agentId('alice'),
      at: world.now,
      messageId: request.messageId,
      commit: request.commit,
      declaration: request.declaration,
    })
    // The Welcome itself does not ride in the event.
    assert.deepEqual(second, { type: 'welcomed', channel: world.channel, agent: agentId('carol'), inviteId: '' })
    assert.deepEqual(await world.roster('alice', 'bob', 'carol', 'dave'), ['alice', 'carol'])
    const [waiting, ...others] = await world.waiting('carol')
    assert.ok(waiting && others.length === 0)
    const { position, ...welcome } = waiting
    assert.deepEqual(welcome, {
      ...welcomeFor('carol'),
      channel: world.channel,
      name: 'acme/support/routing',
      owner: agentId('alice'),
      sender: agentId('alice'),
      slot: 0,
      sequence: 1,
    })
    assert.deepEqual(plain(position), plain({ index: 1, hash, slot: 1 }))
    assert.deepEqual(await world.standing('bob'), { channel: world.channel, refused: 'not_found' })
    const standing = await world.stand('carol')
    assert.deepEqual(plain(standing.cursor), plain(position))
    assert.equal(standing.head, 1)
    assertChain(world.channel, (await world.read('alice', 0)).entries)
  })

  test('a repeated commit gets the first answer, even after its sender was removed', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    const request = world.commitRequest('bob')
    assert.deepEqual(await world.run('commit', request), { index: 2, head: 2, units: 0 })
    world.told()
    assert.deepEqual(await world.run('commit', request), { index: 2, head: 2, units: 0 })
    assert.deepEqual(await world.run('commit', { ...request, slot: 9 }), { index: 2, head: 2, units: 0 })
    world.head = 2
    accepted(await world.commit('alice', { removes: ['bob'] }))
    assert.deepEqual(await world.run('commit', request), { index: 2, head: 2, units: 0 })
    assert.equal(world.told().length, 1)
  })

  test('exactly one commit wins a slot; nothing of the loser is kept', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    const requests = ['alice', 'bob'].map((name) =>
      world.commitRequest(name, { adds: [`friend of ${name}`], welcomes: [welcomeFor(`friend of ${name}`)] }),
    )
    const results = await Promise.all(requests.map((request) => world.run('commit', request)))
    assert.deepEqual(results, [
      { index: 2, head: 2, units: 0 },
      { refused: 'epoch_mismatch', head: 2 },
    ])
    assert.deepEqual(await world.roster('friend of alice', 'friend of bob'), ['friend of alice'])
    assert.deepEqual(await world.waiting('friend of bob'), [])
    const late = await world.run('commit', { ...requests[1]!, slot: 2 })
    assert.deepEqual(late, { index: 3, head: 3, units: 0 })
  })

  test('permission to commit is checked before the content', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol')
    refused(await world.commit('eve'), 'not_found')
    refused(await world.commit('bob', { channel: hex16('none') }), 'not_found')
    refused(
      await world.commit('bob', { actor: { ...member('bob'), account: account('bob', 'test') }, slot: 9 }),
      'mode_mismatch',
    )
    accepted(await world.commit('bob'))
    refused(await world.commit('bob', { actor: guest('bob'), slot: 9 }), 'api_key_required')
    accepted(await world.commit('carol', { actor: guest('carol') }))
    accepted(await world.commit('alice', { removes: ['carol'] }))
    refused(await world.commit('carol', { actor: guest('carol'), slot: 9 }), 'removed')
    const tooLarge = { commit: new Uint8Array(maxCommitBytes(2) + 1) }
    refused(await world.commit('bob', { ...tooLarge, slot: 9 }), 'epoch_mismatch')
    refused(
      await world.commit('bob', { ...tooLarge, adds: ['bob', 'bob'], commit: new Uint8Array(maxCommitBytes(4) + 1) }),
      'too_large',
    )
    refused(await world.commit('bob', tooLarge), 'too_large')
  })

  test('a Welcome is limited to 128 KiB, with its commit and after it', async (t) => {
    const world = await open(t)
    const others = Array.from({ length: 100 }, (_, n) => `m${n}`)
    await world.found('alice', ...others)
    const welcomes = [welcomeFor('bob', { welcome: new Uint8Array(MAX_WELCOME_BYTES + 1) })]
    refused(await world.commit('alice', { adds: ['bob'], welcomes }), 'too_large')
    const slot = world.head
    accepted(await world.commit('alice', { adds: ['bob'], welcomes: [] }))
    const send = (size: number): Promise<object> => {
      const welcome = welcomeFor('bob', { welcome: new Uint8Array(size) })
      return world.run('welcome', {
        actor: member('alice'),
        channel: world.channel,
        slot,
        welcome,
        paid: 0,
        now: world.now,
      })
    }
    refused(await send(MAX_WELCOME_BYTES + 1), 'too_large')
    assert.deepEqual(await send(MAX_WELCOME_BYTES), { units: 0 })
  })

  test('the size limit of a commit with its Welcomes grows with each member, added ones included', async (t) => {
    const world = await open(t)
    await world.found('alice')
    const room = maxCommitBytes(2)
    const adds = ['bob']
    const welcomes = [welcomeFor('bob', { welcome: new Uint8Array(1000) })]
    refused(await world.commit('alice', { adds, welcomes, commit: new Uint8Array(room - 999) }), 'too_large')
    accepted(await world.commit('alice', { adds, welcomes, commit: new Uint8Array(room - 1000) }))
  })

  test('a declaration must match the roster', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol')
    refused(await world.commit('alice', { adds: ['dave', 'dave'] }), 'invalid_request')
    refused(await world.commit('alice', { removes: ['bob', 'bob'] }), 'invalid_request')
    refused(await world.commit('alice', { removes: ['eve'] }), 'invalid_request')
    refused(await world.commit('alice', { adds: ['bob'] }), 'invalid_request')
    refused(await world.commit('alice', { adds: ['alice'] }), 'invalid_request')
    refused(await world.commit('alice', { adds: ['dave'], welcomes: [welcomeFor('eve')] }), 'invalid_request')
    refused(
      await world.commit('alice', { adds: ['dave'], welcomes: [welcomeFor('dave'), welcomeFor('dave')] }),
      'invalid_request',
    )
    refused(await world.commit('alice', { welcomes: [welcomeFor('bob')] }), 'invalid_request')
    assert.equal((await world.stand('alice')).head, 1)
  })

  test('only the owner can remove others, no one can remove the owner, and no one can remove itself', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol')
    refused(await world.commit('bob', { removes: ['carol'] }), 'not_allowed')
    refused(await world.commit('bob', { removes: ['alice'] }), 'not_allowed')
    refused(await world.commit('alice', { removes: ['alice'] }), 'not_allowed')
    refused(await world.commit('bob', { removes: ['bob'] }), 'invalid_request')
    accepted(await world.commit('alice', { removes: ['carol'] }))
    assert.deepEqual(await world.roster('alice', 'bob', 'carol'), ['alice', 'bob'])
    refused(await world.commit('alice', { removes: ['carol'] }), 'invalid_request')
  })

  test('an agent that has left is off the roster immediately, and any member with its notice can remove it', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol', 'dave')
    world.told()
    const left = notice('carol', 1)
    assert.deepEqual(await world.leave('carol'), { index: 2 })
    const [event] = world.told()
    assert.ok(event?.type === 'appended' && event.entry.kind === 'leave')
    const { hash: _, ...entry } = event.entry
    assert.deepEqual(entry, { kind: 'leave', index: 2, slot: 1, sender: agentId('carol'), at: world.now, notice: left })
    assert.deepEqual(await world.roster('alice', 'bob', 'carol'), ['alice', 'bob'])
    assert.equal((await world.stand('alice')).head, 1)

    refused(await world.commit('bob', { removes: ['carol'] }), 'invalid_request')
    const forged = { ...left, signature: text('forged') }
    refused(await world.commit('bob', { removes: ['carol'], notices: [forged] }), 'invalid_request')
    refused(await world.commit('bob', { removes: [], notices: [left] }), 'invalid_request')
    refused(await world.commit('alice', { removes: ['bob'], notices: [notice('bob', 1)] }), 'invalid_request')
    // Its leaf is still in the tree.
    refused(await world.commit('bob', { adds: ['carol'] }), 'invalid_request')
    accepted(await world.commit('bob', { removes: ['carol'], notices: [left] }))
    refused(await world.commit('bob', { removes: ['carol'], notices: [left] }), 'invalid_request')
    assertChain(world.channel, (await world.read('alice', 0)).entries)

    accepted(await world.leave('dave'))
    accepted(await world.commit('alice', { removes: ['dave'] }))
  })

  test('an agent that has left returns with one commit that removes and adds it', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol')
    await world.chatter('carol', 2)
    accepted(await world.leave('carol'))
    const left = notice('carol', 1)
    accepted(
      await world.commit('bob', {
        removes: ['carol'],
        adds: ['carol'],
        notices: [left],
        welcomes: [welcomeFor('carol')],
      }),
    )
    const standing = await world.stand('carol')
    assert.deepEqual(
      [standing.removed, standing.lastCounter, standing.cursor.index, standing.lastIndex],
      [false, 0, 5, 5],
    )
    // It has acted for an account before: the owner does not pay for it now.
    refused(await world.say('carol', { actor: guest('carol'), counter: 1 }), 'api_key_required')
    accepted(await world.say('carol', { counter: 1 }))
  })

  test('leaving requires only the current head, and can be repeated', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    accepted(await world.say('bob'))
    refused(await world.leave('alice'), 'not_allowed')
    refused(await world.leave('eve'), 'not_found')
    refused(await world.leave('bob', { channel: hex16('none') }), 'not_found')
    assert.deepEqual(await world.leave('bob', { notice: notice('bob', 0) }), { refused: 'epoch_mismatch', head: 1 })
    assert.deepEqual(await world.leave('bob'), { index: 3 })
    world.told()
    assert.deepEqual(await world.leave('bob'), { index: 3 })
    accepted(await world.commit('alice', { removes: ['bob'] }))
    assert.deepEqual(await world.leave('bob', { notice: notice('bob', 1) }), { index: 3 })
    refused(await world.leave('bob', { notice: notice('bob', 2) }), 'not_found')
    assert.equal(world.told().length, 1)
  })

  test('a channel has room for 250 leaves, including those of agents that have left', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    const crowd = Array.from({ length: MAX_MEMBERS - 2 }, (_, at) => `member ${at}`)
    refused(await world.commit('alice', { adds: [...crowd, 'one more'] }), 'group_full')
    accepted(await world.commit('alice', { adds: crowd }))
    refused(await world.commit('alice', { adds: ['one more'] }), 'group_full')
    accepted(await world.leave('bob'))
    refused(await world.commit('alice', { adds: ['one more'] }), 'group_full')
    accepted(await world.commit('alice', { removes: ['bob'], adds: ['one more'] }))
  })

  test('a Welcome is kept until its joiner acknowledges the start of its log; a newer one replaces it', async (t) => {
    const world = await open(t)
    await world.found('alice')
    const waiting = async (): Promise<string[]> => {
      const welcomes = await world.waiting('bob')
      return welcomes.map(({ welcome }) => new TextDecoder().decode(welcome))
    }
    accepted(await world.commit('alice', { adds: ['bob'], welcomes: [welcomeFor('bob')] }))
    assert.deepEqual(await waiting(), ['welcome bob'])
    accepted(await world.say('alice'))
    await world.ack('bob', 0)
    assert.deepEqual(await waiting(), ['welcome bob'])
    accepted(
      await world.commit('alice', {
        removes: ['bob'],
        adds: ['bob'],
        welcomes: [welcomeFor('bob', { welcome: text('second') })],
      }),
    )
    assert.deepEqual(await waiting(), ['second'])
    await world.ack('bob', 2)
    assert.deepEqual(await waiting(), ['second'])
    await world.ack('bob', 3)
    assert.deepEqual(await waiting(), [])
    assert.equal((await world.stand('bob')).cursor.index, 3)
  })

  test('a later Welcome must come from the sender of the commit, for an agent that it added', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    accepted(await world.commit('bob', { adds: ['carol'], welcomes: [] }))
    accepted(await world.say('alice'))
    world.told()
    const send = (name: string, slot: number, fields = welcomeFor('carol')): Promise<object> =>
      world.run('welcome', {
        actor: member(name),
        channel: world.channel,
        slot,
        welcome: fields,
        paid: 0,
        now: world.now,
      })
    refused(await send('eve', 1), 'not_found')
    refused(await send('bob', 2), 'not_found')
    refused(await send('alice', 1), 'not_allowed')
    refused(await send('bob', 1, welcomeFor('alice')), 'invalid_request')
    refused(await send('bob', 1, welcomeFor('carol', { welcome: new Uint8Array(maxCommitBytes(3) + 1) })), 'too_large')
    assert.deepEqual(world.told(), [])
    assert.deepEqual(await send('bob', 1), { units: 0 })
    assert.deepEqual(world.told(), [
      { type: 'welcomed', channel: world.channel, agent: agentId('carol'), inviteId: '' },
    ])
    const [waiting] = await world.waiting('carol')
    assert.equal(waiting?.slot, 1)
    assert.deepEqual(plain(waiting.position), plain((await world.stand('carol')).cursor))

    accepted(await world.commit('alice', { removes: ['carol'], adds: ['carol'] }))
    refused(await send('bob', 1), 'invalid_request')
  })

  test('at most 64 Welcomes of one account’s channels are pending for an agent', async (t) => {
    const world = await open(t)
    const add = async (at: number, name: string, owner = 'alice', actor = member(owner)): Promise<object> => {
      const channel = hex16(`many ${owner} ${at}`)
      await world.create(owner, { channel, name: `a/b/c${at}`, actor })
      const welcomes = [welcomeFor(name)]
      return world.run('commit', world.commitRequest(owner, { actor, adds: [name], welcomes, channel, slot: 0 }))
    }
    for (let at = 0; at < 64; at++) accepted(await add(at, 'bob'))
    // Final: with `rate_limited`, the sender would retry until the agent comes online.
    const { message } = refused(await add(64, 'bob'), 'not_allowed')
    assert.match(String(message), /^Agent .* already has 64 pending Welcomes.* remove it from some of them\.$/)
    assert.equal((await world.waiting('bob')).length, 64)
    // Nothing of it was kept, and others are not concerned.
    const last = hex16('many alice 64')
    const welcomeOf = (name: string): Promise<object> =>
      world.run('welcome', {
        actor: member('alice'),
        channel: last,
        slot: 0,
        welcome: welcomeFor(name),
        paid: 0,
        now: world.now,
      })
    const commit = (fields: object): Promise<object> =>
      world.run('commit', world.commitRequest('alice', { channel: last, slot: 0, ...fields }))
    refused(await welcomeOf('bob'), 'not_found')
    accepted(await add(0, 'bob', 'carol'))
    accepted(await add(65, 'bob', 'alice', { ...member('alice'), account: account('alice', 'test') }))
    accepted(await commit({ adds: ['bob', 'dave'], welcomes: [] }))
    refused(await welcomeOf('bob'), 'not_allowed')
    assert.deepEqual(await welcomeOf('dave'), { units: 0 })
    // One that takes the place of another is not one more.
    const first = { channel: hex16('many alice 0'), slot: 1, removes: ['bob'], adds: ['bob'] }
    accepted(await commit({ ...first, welcomes: [welcomeFor('bob')] }))
    await world.run('ack', { agent: agentId('bob'), positions: [{ channel: first.channel, index: 2 }] })
    assert.deepEqual(await welcomeOf('bob'), { units: 0 })
    assert.deepEqual(await welcomeOf('bob'), { units: 0 })
  })

  test('a Welcome is dropped when its agent is removed or leaves, and does not return with an undone removal', async (t) => {
    const world = await open(t)
    await world.found('alice')
    const { lastIndex } = await world.stand('alice')
    accepted(
      await world.commit('alice', { adds: ['bob', 'carol'], welcomes: [welcomeFor('bob'), welcomeFor('carol')] }),
    )
    assert.deepEqual([(await world.waiting('bob')).length, (await world.waiting('carol')).length], [1, 1])
    const slot = world.head
    accepted(await world.commit('alice', { removes: ['bob'] }))
    accepted(await world.leave('carol'))
    assert.deepEqual([await world.waiting('bob'), await world.waiting('carol')], [[], []])
    assert.ok('rejected' in (await world.reject(member('alice'), slot)))
    assert.deepEqual(await world.waiting('bob'), [])
    // It is on the roster again, and reads on from where it was added.
    assert.equal((await world.stand('bob')).cursor.index, lastIndex + 1)
  })

  test('a commit counts uses of the invites named in its Welcomes, only those of this channel', async (t) => {
    const world = await open(t)
    await world.found('alice')
    const other = hex16('other')
    await world.create('alice', { channel: other, name: 'acme/support/other' })
    const ids = ['here', 'there'].map((label) => id16(label))
    for (const [at, channel] of [world.channel, other].entries()) {
      const id = Buffer.from(ids[at]!).toString('hex')
      const invite = { id, channel, admissionKey: text('k'), expiresAt: world.now + 1000, maxUses: 5, members: false }
      assert.deepEqual(
        await world.run('registerInvite', { actor: member('alice'), invite, maxInvites: 10, now: world.now }),
        { done: true },
      )
    }
    const names = ['bob', 'carol', 'dave', 'erin']
    const inviteIds = [ids[0]!, ids[0]!, ids[1]!, id16('nowhere')]
    const welcomes = names.map((name, at) => welcomeFor(name, { inviteId: inviteIds[at]! }))
    accepted(await world.commit('alice', { adds: names, welcomes }))
    const uses = await Promise.all(
      ids.map(async (id) => (await world.run('invite', { id: Buffer.from(id).toString('hex') })).invite?.uses),
    )
    assert.deepEqual(uses, [2, 0])
  })

  test('only the agent that registered an invite can use it up', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    const invite = {
      id: hex16('one'),
      channel: world.channel,
      admissionKey: text('k'),
      expiresAt: world.now + 1000,
      maxUses: 5,
      members: false,
    }
    await world.run('registerInvite', { actor: member('alice'), invite, maxInvites: 10, now: world.now })
    const uses = async (): Promise<unknown> => (await world.run('invite', { id: invite.id })).invite?.uses
    const inviteId = id16('one')
    accepted(await world.commit('bob', { adds: ['carol'], welcomes: [welcomeFor('carol', { inviteId })] }))
    assert.equal(await uses(), 0)
    accepted(await world.commit('alice', { adds: ['dave'], welcomes: [welcomeFor('dave', { inviteId })] }))
    assert.equal(await uses(), 1)
  })
})
