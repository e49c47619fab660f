/** For whom the owner vouches, and what the members that it does not vouch for cannot do. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  accepted,
  agentId,
  type ChannelFixture,
  type CommitOptions,
  DAY,
  forLedger,
  guest,
  HOUR,
  id16,
  member,
  notice,
  refused,
  welcomeFor,
} from './channel-fixture.ts'

const KIB = 1024
const sybils = (count: number, label = 'sybil'): string[] => Array.from({ length: count }, (_, at) => `${label} ${at}`)

/** Mallory, a guest, adds seven agents of its own. Three leave, and the owner's agent removes them by itself. */
async function infiltrated(world: ChannelFixture): Promise<string[]> {
  await world.found('alice', 'bob', 'mallory')
  const all = sybils(7)
  accepted(await world.commit('mallory', { actor: guest('mallory'), adds: all }))
  const [leavers, staying] = [all.slice(0, 3), all.slice(3)]
  for (const name of leavers) accepted(await world.leave(name))
  const notices = leavers.map((name) => notice(name, world.head))
  accepted(await world.commit('alice', { removes: leavers, notices }))
  return staying
}

/** Whether an agent has a vote on a commit that Bob makes now. */
async function hasVote(world: ChannelFixture, name: string): Promise<boolean> {
  const slot = world.head
  accepted(await world.commit('bob'))
  return 'votes' in (await world.reject(guest(name), slot))
}

/** How many commits of 20 KiB the channel takes from these agents in turn. */
async function commitsOf(world: ChannelFixture, names: readonly string[], count: number): Promise<number> {
  let taken = 0
  for (let at = 0; at < count; at++) {
    const name = names[at % names.length]!
    const result = await world.commit(name, { actor: guest(name), commit: new Uint8Array(20 * KIB), paid: 0 })
    if ('index' in result) taken += 1
    else refused(result, 'rate_limited')
  }
  return taken
}

/** An agent sends until the channel is full. It and the readers acknowledge everything at once. */
async function flood(world: ChannelFixture, name: string, ...readers: string[]): Promise<Record<string, unknown>> {
  let result = await world.say(name)
  for (let at = 0; 'index' in result; at++) {
    assert.ok(at < 100, 'the channel drops entries without end')
    for (const reader of [name, ...readers]) await world.ack(reader, accepted(result))
    result = await world.say(name)
  }
  return refused(result, 'queue_full')
}

forLedger((open) => {
  test('the agents of a guest cannot reject a commit, though the owner’s agent has committed since they came', async (t) => {
    const world = await open(t)
    const staying = await infiltrated(world)
    const slot = world.head
    accepted(await world.commit('bob', { adds: ['carol'] }))
    for (const name of staying) refused(await world.reject(guest(name), slot), 'not_allowed')
    // Mallory's own vote is one of three.
    assert.deepEqual(await world.reject(guest('mallory'), slot), { rejected: false, votes: 1, needed: 2 })
    assert.deepEqual(await world.roster('carol'), ['carol'])
    accepted(await world.commit('bob'))
  })

  test('the agents of a guest share its allowance, though the owner’s agent has committed since they came', async (t) => {
    const world = await open(t)
    const staying = await infiltrated(world)
    assert.equal(await commitsOf(world, ['mallory', ...staying], 40), 12, '256 KiB in all')
    accepted(await world.commit('bob', { commit: new Uint8Array(20 * KIB) }))
  })

  test('the agents of a guest do not keep a full channel full, though the owner’s agent has committed since they came', async (t) => {
    const world = await open(t, { channelEntries: 40 })
    const staying = await infiltrated(world)
    for (let at = 0; at < 60; at++) {
      const index = accepted(await world.say(at % 2 === 0 ? 'alice' : 'bob'))
      for (const name of ['alice', 'bob']) await world.ack(name, index)
    }
    // Those that the owner vouches for count like others.
    assert.deepEqual(await world.vouch(staying), { done: true })
    const results = [...(await world.chatter('alice', 30)), ...(await world.chatter('bob', 30))]
    assert.ok(results.some((result) => 'refused' in result && result.refused === 'queue_full'))
  })

  test('a guest that floods a channel drops nothing that the offline owner or the one other vouched member needs', async (t) => {
    for (const vouched of [[], ['bob']]) {
      const world = await open(t, { channelEntries: 40 })
      await world.found('alice', ...vouched)
      accepted(await world.commit('alice', { adds: ['mallory', 'carol', 'dave'] }))
      // They have read every commit, so messages are all that they need.
      for (const name of ['alice', ...vouched]) await world.ack(name, world.head)
      await flood(world, 'mallory')
      for (const name of ['alice', ...vouched]) {
        const { cursor } = await world.stand(name)
        assert.equal((await world.read(name, cursor.index)).gap, undefined, name)
      }
      // The members that nobody vouches for need not read on.
      const { lagging } = refused(await world.say('mallory'), 'queue_full')
      const named = (lagging as { agent: string }[]).map(({ agent }) => agent)
      assert.ok(named.every((agent) => ['alice', ...vouched].map(agentId).includes(agent)))
      for (const name of ['alice', ...vouched]) await world.ack(name, 30)
      accepted(await world.say('mallory'))
    }
  })

  test('a guest that floods a channel of three vouched members drops no commit that the offline owner has not read', async (t) => {
    const world = await open(t, { channelEntries: 40 })
    await world.found('alice', 'bob', 'mallory')
    await world.ack('alice', 1)
    accepted(await world.say('bob'))
    accepted(await world.commit('mallory', { actor: guest('mallory') }))
    const { lagging, message } = await flood(world, 'mallory', 'bob')
    const { cursor, lastIndex } = await world.stand('alice')
    assert.deepEqual(lagging, [{ agent: agentId('alice'), waiting: lastIndex - cursor.index }])
    assert.match(message as string, /The owner has not fetched/)
    // The messages before it may go.
    const { gap, entries } = await world.read('alice', cursor.index)
    assert.deepEqual([gap?.position.index, gap?.commitLost, entries[0]?.kind], [2, false, 'commit'])
    // Others still have room, and the owner acts as soon as it has read.
    accepted(await world.say('bob'))
    await world.ack('alice', world.head + 1)
    accepted(await world.commit('alice', { removes: ['mallory'] }))
    accepted(await world.say('bob'))
  })

  test('an owner that never returns does not stop a full channel of three vouched members once the commit has expired', async (t) => {
    const world = await open(t, { channelEntries: 40 })
    await world.found('alice', 'bob', 'mallory')
    accepted(await world.commit('mallory', { actor: guest('mallory') }))
    await flood(world, 'mallory', 'bob')
    world.now += 7 * DAY
    await world.run('sweep', { now: world.now })
    // The owner has lost a commit, so no later one is kept for it.
    accepted(await world.commit('bob'))
    for (let at = 0; at < 60; at++) {
      const index = accepted(await world.say('bob'))
      for (const name of ['bob', 'mallory']) await world.ack(name, index)
    }
  })

  test('in a channel of two, nothing that the other member needs is dropped, though the owner does not vouch for it', async (t) => {
    const world = await open(t, { channelEntries: 40 })
    await world.found('alice')
    accepted(await world.commit('alice', { adds: ['bob'] }))
    await flood(world, 'alice')
    assert.equal((await world.read('bob', 1)).gap, undefined)
  })

  test('votes of members that the owner has removed since do not count', async (t) => {
    const world = await open(t)
    const hostile = sybils(3)
    await world.found('alice', 'bob', ...hostile)
    const slot = world.head
    accepted(await world.commit('bob', { adds: ['carol'] }))
    for (const [at, name] of hostile.slice(0, 2).entries()) {
      assert.deepEqual(await world.reject(guest(name), slot), { rejected: false, votes: at + 1, needed: 3 })
    }
    accepted(await world.commit('alice', { removes: hostile.slice(0, 2) }))
    // A later membership does not bring the vote back.
    accepted(await world.commit('sybil 2', { actor: guest('sybil 2'), adds: ['sybil 1'] }))
    for (const name of ['sybil 0', 'sybil 1']) refused(await world.reject(guest(name), slot), 'not_allowed')
    for (let times = 0; times < 2; times++) {
      assert.deepEqual(await world.reject(guest('sybil 2'), slot), { rejected: false, votes: 1, needed: 3 })
    }
    accepted(await world.leave('sybil 2'))
    refused(await world.reject(guest('sybil 2'), slot), 'not_allowed')
    accepted(await world.commit('bob'))
    assert.deepEqual(await world.roster('carol'), ['carol'])
  })

  test('an agent whose adder has left uses the allowance of the vouched member behind it', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'mallory')
    const [firsts, seconds] = [sybils(8, 'first'), sybils(8, 'second')]
    accepted(await world.commit('mallory', { actor: guest('mallory'), adds: firsts }))
    for (const [at, first] of firsts.entries()) {
      accepted(await world.commit(first, { actor: guest(first), adds: [seconds[at]!] }))
      accepted(await world.leave(first))
      accepted(await world.commit('alice', { removes: [first], notices: [notice(first, world.head)] }))
    }
    assert.ok((await commitsOf(world, seconds, 40)) <= 12)
    refused(
      await world.commit('mallory', { actor: guest('mallory'), commit: new Uint8Array(20 * KIB) }),
      'rate_limited',
    )
  })

  test('those that the owner admits without vouching for them have no vote, and share an allowance beside the owner’s', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    const crowd = sybils(20, 'joiner')
    accepted(await world.commit('alice', { adds: crowd, vouches: [] }))
    accepted(await world.commit('joiner 0', { actor: guest('joiner 0'), adds: ['joiner of a joiner'] }))
    for (const name of ['joiner 0', 'joiner of a joiner']) assert.equal(await hasVote(world, name), false)
    assert.equal(await commitsOf(world, [...crowd, 'joiner of a joiner'], 60), 12)
    assert.deepEqual(await world.commit('alice', { commit: new Uint8Array(60 * KIB), paid: 0 }).then(unitsOf), 0)
    accepted(await world.commit('bob', { commit: new Uint8Array(20 * KIB) }))
    world.now += HOUR
    assert.equal(await commitsOf(world, crowd, 1), 1)
  })

  test('a joiner with an invite for members uses the shared allowance, not that of the member whose agent admitted it', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    await world.invite('shared', { members: true })
    const admit = (name: string): CommitOptions => ({
      adds: [name],
      welcomes: [welcomeFor(name, { inviteId: id16('shared') })],
    })
    accepted(await world.commit('bob', admit('mallory')))
    accepted(await world.commit('mallory', { actor: guest('mallory'), adds: ['sybil'] }))
    assert.equal(await commitsOf(world, ['mallory', 'sybil'], 20), 12)
    accepted(await world.commit('bob', { ...admit('carol'), commit: new Uint8Array(20 * KIB) }))
    // Those that a member adds by its own choice still use its allowance.
    accepted(await world.commit('bob', { adds: ['dave'] }))
    assert.equal(await commitsOf(world, ['dave'], 20), 11)
    refused(await world.commit('bob', { commit: new Uint8Array(20 * KIB) }), 'rate_limited')
  })

  test('an unvouched guest and its agents use up neither the adds of an hour nor the last places of the group', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    accepted(await world.commit('alice', { adds: ['mallory'] }))
    const adds = (names: readonly string[]): CommitOptions => ({ adds: names, welcomes: [] })
    const adding = (name: string, count: number, label: string): Promise<object> =>
      world.commit(name, { actor: guest(name), ...adds(sybils(count, label)) })
    refused(await adding('mallory', 21, 'many'), 'too_large')
    accepted(await world.commit('mallory', { actor: guest('mallory'), adds: ['sybil'] }))
    accepted(await adding('mallory', 12, 'hers'))
    accepted(await adding('sybil', 7, 'its'))
    for (const name of ['mallory', 'sybil']) {
      const { message, retryAfterMs } = refused(await adding(name, 1, 'more'), 'rate_limited')
      assert.equal(retryAfterMs, HOUR)
      assert.match(message as string, /the owner has not vouched for can add only the first 20/)
    }
    accepted(await world.commit('bob', adds(sybils(40, 'of bob'))))
    refused(await world.commit('bob', adds(['carol'])), 'rate_limited')

    world.now += HOUR
    accepted(await world.commit('alice', adds(sybils(136, 'of alice'))))
    accepted(await adding('mallory', 1, 'last'))
    const { message } = refused(await adding('mallory', 1, 'beyond'), 'group_full')
    assert.match(message as string, /200/)
    accepted(await world.commit('mallory', { actor: guest('mallory') }))
    accepted(await world.commit('bob', adds(['carol'])))
    accepted(await world.commit('alice', adds(['dave'])))
  })

  test('a vouch in the commit that adds a member counts from the next slot on, one made later from its slot on', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    const slot = world.head
    accepted(await world.commit('bob', { adds: ['carol'] }))
    accepted(await world.commit('bob'))
    assert.deepEqual(await world.vouch(['carol']), { done: true })
    accepted(await world.commit('bob'))
    refused(await world.reject(guest('carol'), slot), 'not_allowed')
    refused(await world.reject(guest('carol'), slot + 1), 'not_allowed')
    assert.deepEqual(await world.reject(guest('carol'), slot + 2), { rejected: false, votes: 1, needed: 2 })
    // A second time changes nothing.
    assert.deepEqual(await world.vouch(['carol']), { done: true })
    assert.deepEqual(await world.reject(guest('carol'), slot + 2), { rejected: false, votes: 1, needed: 2 })
  })

  test('the majority is that of the vouched members', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol')
    accepted(await world.commit('bob', { adds: sybils(5) }))
    assert.deepEqual(await world.vouch(['sybil 0', 'sybil 1']), { done: true })
    const slot = world.head
    accepted(await world.commit('carol'))
    assert.deepEqual(await world.reject(guest('sybil 0'), slot), { rejected: false, votes: 1, needed: 3 })
    assert.deepEqual(await world.reject(guest('sybil 1'), slot), { rejected: false, votes: 2, needed: 3 })
    assert.deepEqual(await world.reject(member('bob'), slot), { rejected: true, votes: 3, needed: 3 })
  })

  test('a vouched member whose Welcome comes after a commit counts in the majority that its vote needs', async (t) => {
    const world = await open(t)
    await world.found('alice')
    accepted(await world.commit('alice', { adds: ['bob'] }))
    const slot = world.head
    accepted(await world.commit('alice', { adds: ['mallory'], vouches: ['mallory'], welcomes: [] }))
    accepted(await world.commit('bob', { adds: ['carol'] }))
    const request = { actor: member('alice'), channel: world.channel, paid: 0, now: world.now }
    refused(await world.reject(guest('mallory'), slot + 1), 'not_allowed')
    assert.ok('units' in (await world.run('welcome', { ...request, slot, welcome: welcomeFor('mallory') })))
    assert.deepEqual(await world.reject(guest('mallory'), slot + 1), { rejected: false, votes: 1, needed: 2 })
    assert.deepEqual(await world.roster('carol'), ['carol'])
  })

  test('a member whose removal the owner undoes counts in the majority of the commits in between', async (t) => {
    const world = await open(t)
    await world.found('alice', 'mallory')
    accepted(await world.commit('alice', { adds: ['bob'] }))
    const slot = world.head
    accepted(await world.commit('alice', { removes: ['mallory'] }))
    accepted(await world.commit('bob', { adds: ['carol'] }))
    assert.ok('rejected' in (await world.reject(member('alice'), slot)))
    assert.deepEqual(await world.reject(guest('mallory'), slot + 1), { rejected: false, votes: 1, needed: 2 })
    assert.deepEqual(await world.roster('carol'), ['carol'])
  })

  test('only the owner vouches, in its commits for agents that they add', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    refused(await world.commit('bob', { adds: ['carol'], vouches: ['carol'] }), 'invalid_request')
    refused(await world.commit('alice', { adds: ['carol'], vouches: ['dave'] }), 'invalid_request')
    refused(await world.commit('alice', { vouches: ['bob'] }), 'invalid_request')
    refused(await world.commit('alice', { adds: ['carol'], vouches: ['carol', 'carol'] }), 'invalid_request')
    accepted(await world.commit('alice', { adds: ['carol'], vouches: ['carol'] }))
    assert.equal(await hasVote(world, 'carol'), true)
  })

  test('only the owner vouches for members, at the current head', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    accepted(await world.commit('bob', { adds: ['carol', 'dave'] }))
    refused(await world.vouch(['carol'], { actor: member('bob') }), 'not_allowed')
    refused(await world.vouch(['carol'], { actor: guest('carol') }), 'not_allowed')
    refused(await world.vouch(['carol'], { actor: member('eve') }), 'not_found')
    refused(await world.vouch(['carol', 'eve']), 'invalid_request')
    accepted(await world.leave('dave'))
    refused(await world.vouch(['dave']), 'invalid_request')
    assert.deepEqual(await world.vouch(['carol'], { slot: 1 }), { refused: 'epoch_mismatch', head: 2 })
    assert.equal(await hasVote(world, 'carol'), false)
    assert.deepEqual(await world.vouch(['alice', 'carol']), { done: true })
    assert.equal(await hasVote(world, 'carol'), true)
  })

  test('a vouch ends with the membership', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol')
    accepted(await world.commit('alice', { removes: ['carol'] }))
    accepted(await world.commit('bob', { adds: ['carol'] }))
    assert.equal(await hasVote(world, 'carol'), false)
    accepted(await world.commit('alice', { removes: ['carol'], adds: ['carol'] }))
    assert.equal(await hasVote(world, 'carol'), false)
    accepted(await world.commit('alice', { removes: ['carol'], adds: ['carol'], vouches: ['carol'] }))
    assert.equal(await hasVote(world, 'carol'), true)
  })

  test('a rejected commit takes its vouches with it, and restores those of the members that it removed', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol')
    accepted(await world.commit('bob', { adds: ['dave'] }))
    assert.deepEqual(await world.vouch(['dave']), { done: true })
    const slot = world.head
    accepted(await world.commit('alice', { removes: ['carol', 'dave'], adds: ['carol'] }))
    assert.equal(await hasVote(world, 'carol'), false)
    assert.ok('rejected' in (await world.reject(member('alice'), slot)))
    for (const name of ['carol', 'dave']) assert.equal(await hasVote(world, name), true)

    const later = world.head
    accepted(await world.commit('alice', { adds: ['erin'], vouches: ['erin'] }))
    assert.equal(await hasVote(world, 'erin'), true)
    assert.ok('rejected' in (await world.reject(member('alice'), later)))
    accepted(await world.commit('bob', { adds: ['erin'] }))
    assert.equal(await hasVote(world, 'erin'), false)
  })

  test('a reset of the roster vouches for the members that it lists, and for no one else', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol', 'dave')
    accepted(await world.commit('carol', { adds: ['mallory', 'erin'] }))
    const slot = world.head
    accepted(await world.commit('alice', { removes: ['dave'] }))
    assert.ok('rejected' in (await world.reject(member('alice'), 1)))
    const agents = ['alice', 'bob', 'carol', 'dave', 'mallory', 'erin']
    refused(await world.reset('alice', agents, ['eve']), 'invalid_request')
    refused(await world.reset('alice', agents, ['bob', 'bob']), 'invalid_request')
    assert.deepEqual(await world.reset('alice', agents, ['bob', 'dave', 'erin']), { done: true })
    for (const name of ['dave', 'erin']) assert.equal(await hasVote(world, name), true, name)
    for (const name of ['carol', 'mallory']) assert.equal(await hasVote(world, name), false, name)
    refused(await world.reject(guest('dave'), slot), 'not_found')
    assert.deepEqual(await world.roster(...agents), agents)
    // The vouches outlive the next reset only if it says so.
    assert.deepEqual(await world.reset('alice', agents, []), { done: true })
    assert.equal(await hasVote(world, 'dave'), false)
    const last = world.head
    accepted(await world.commit('bob'))
    assert.deepEqual(await world.reject(member('alice'), last), { rejected: true, votes: 1, needed: 1 })
  })
})

function unitsOf(result: object): unknown {
  return 'units' in result && 'index' in result ? result.units : result
}
