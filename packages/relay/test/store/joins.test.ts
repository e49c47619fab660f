/** Stories about what several nodes share besides the channels: join requests, used nonces, heads and notices. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { JoinRequest, StoreResult } from '../../src/ports.ts'
import {
  type ChannelFixture,
  account,
  agentId,
  forEachEngine,
  hex16,
  id16,
  member,
  refused,
  text,
  welcomeFor,
} from './channel-fixture.ts'

const LIMITS = { maxPerInvite: 2, maxPerOwner: 3, maxBytes: 10_000 }

forEachEngine((open) => {
  const joinOf = (f: ChannelFixture, joiner: string, invite = 'invite'): JoinRequest => ({
    invite: hex16(invite),
    channel: f.channel,
    owner: agentId('alice'),
    agent: agentId(joiner),
    box: text(`box of ${joiner}`),
    until: f.now + 600_000,
  })
  const ask = (f: ChannelFixture, joiner: string, invite?: string): Promise<StoreResult<'requestJoin'>> =>
    f.run('requestJoin', { join: joinOf(f, joiner, invite), ...LIMITS, now: f.now })
  const take = async (f: ChannelFixture): Promise<string[]> => {
    const asked = {
      actor: member('alice'),
      channel: f.channel,
      after: 0,
      maxRequests: 10,
      maxBytes: 10_000,
      mayWait: false,
      now: f.now,
    }
    const { joins } = await f.run('takeJoins', asked)
    for (const join of joins) assert.equal(join.owner, agentId('alice'))
    return joins.map(({ box }) => Buffer.from(box).toString())
  }

  test('join requests wait for their owner, in order of arrival', async (t) => {
    const f = await open(t)
    await f.create('alice')
    await f.invite('invite')
    f.told()
    await ask(f, 'bob')
    assert.deepEqual(f.told(), [{ type: 'joinRequested', channel: f.channel, owner: agentId('alice') }])
    assert.deepEqual(await take(f), ['box of bob'])
    await ask(f, 'carol')
    assert.deepEqual(await take(f), ['box of bob', 'box of carol'])
    // Asked again: it replaces the first, and is the newest.
    await ask(f, 'bob')
    assert.deepEqual(await take(f), ['box of carol', 'box of bob'])
    f.now += 600_000
    assert.deepEqual(await take(f), [])
  })

  test('join requests are limited per invite and per owner', async (t) => {
    const f = await open(t)
    await f.create('alice')
    for (const label of ['invite', 'another']) await f.invite(label)
    await ask(f, 'bob')
    await ask(f, 'carol')
    refused(await ask(f, 'dave'), 'rate_limited')
    await ask(f, 'dave', 'another')
    await ask(f, 'erin', 'another')
    assert.deepEqual(await take(f), ['box of carol', 'box of dave', 'box of erin'])
    const bounds = { actor: member('alice'), channel: f.channel, after: 0, mayWait: false, now: f.now }
    const few = await f.run('takeJoins', { ...bounds, maxRequests: 2, maxBytes: 10_000 })
    assert.equal(few.joins.length, 2)
    const small = await f.run('takeJoins', { ...bounds, maxRequests: 10, maxBytes: 1 })
    assert.equal(small.joins.length, 1)
  })

  test('requests and answers that come together count like those that come one after the other', async (t) => {
    const f = await open(t)
    await f.create('alice')
    const invites = ['first', 'second', 'third', 'fourth', 'fifth']
    for (const label of invites) await f.invite(label)
    await Promise.all(invites.map((invite) => ask(f, `joiner of ${invite}`, invite)))
    const newest = invites.slice(2).map((invite) => `box of joiner of ${invite}`)
    assert.deepEqual(await take(f), newest, 'the oldest are dropped')
    const [third, ...others] = newest
    const key = { invite: hex16('third'), agent: agentId('joiner of third') }
    const answer = { owner: agentId('alice'), ...key, code: 'group_full', now: f.now }
    // Replaced, answered, and asked again, with one more than fit.
    const results = await Promise.all([
      ask(f, 'joiner of third', 'third'),
      f.run('answerJoin', answer),
      f.run('answerJoin', answer),
      ask(f, 'joiner of third', 'third'),
      ask(f, 'another', 'third'),
      ask(f, 'one more', 'third'),
    ])
    assert.deepEqual(
      results.map((result) => ('refused' in result ? result.refused : 'done')),
      ['done', 'done', 'not_found', 'done', 'done', 'rate_limited'],
    )
    assert.deepEqual(await take(f), [others[1], third, 'box of another'])
    const [few] = await Promise.all([
      f.run('takeJoins', {
        actor: member('alice'),
        channel: f.channel,
        after: 0,
        maxRequests: 1,
        maxBytes: 10_000,
        mayWait: false,
        now: f.now,
      }),
      f.run('answerJoin', { ...answer, invite: hex16('fifth'), agent: agentId('joiner of fifth') }),
      take(f).then((boxes) => assert.deepEqual(boxes, [third, 'box of another'])),
    ])
    assert.equal(few.joins.length, 1)
  })

  test('a join request ends with an answer, a Welcome, a revocation or its channel', async (t) => {
    const f = await open(t)
    await f.create('alice')
    for (const label of ['invite', 'another', 'third']) await f.invite(label)
    await ask(f, 'bob')
    await ask(f, 'carol')
    await ask(f, 'dave', 'another')
    f.told()
    const answer = { invite: hex16('invite'), agent: agentId('bob'), code: 'group_full', now: f.now }
    const stranger = await f.run('answerJoin', { owner: agentId('mallory'), ...answer })
    assert.ok('refused' in stranger)
    assert.equal(stranger.refused, 'not_found')
    assert.deepEqual(await f.run('answerJoin', { owner: agentId('alice'), ...answer }), { done: true })
    const answered = { type: 'joinAnswered', agent: agentId('bob'), inviteId: hex16('invite'), code: 'group_full' }
    assert.deepEqual(f.told(), [answered])
    assert.ok('refused' in (await f.run('answerJoin', { owner: agentId('alice'), ...answer })))
    await ask(f, 'bob')
    f.told()
    assert.deepEqual(await f.run('answerJoin', { owner: agentId('bob'), ...answer }), { done: true }, 'by itself')
    assert.deepEqual(f.told(), [])
    assert.deepEqual(await take(f), ['box of carol', 'box of dave'])

    await f.commit('alice', { adds: ['carol'], welcomes: [welcomeFor('carol', { inviteId: id16('invite') })] })
    assert.deepEqual(await take(f), ['box of dave'])
    f.told()
    await f.run('revokeInvite', { agent: agentId('alice'), id: hex16('another'), now: f.now })
    const revoked = { type: 'joinAnswered', agent: agentId('dave'), inviteId: hex16('another'), code: 'invite_revoked' }
    assert.deepEqual(f.told(), [revoked])

    await ask(f, 'erin', 'third')
    f.told()
    await f.run('delete', { account: account('alice'), channel: f.channel, name: undefined })
    const [first, second] = f.told()
    assert.deepEqual(first, { ...revoked, agent: agentId('erin'), inviteId: hex16('third'), code: 'invite_invalid' })
    assert.equal(second?.type, 'deleted')
    assert.deepEqual(await take(f), [])
  })

  test('a request by an invite that has ended since it was looked up is refused, unless its Welcome is pending', async (t) => {
    const f = await open(t)
    await f.create('alice')
    for (const label of ['revoked', 'used up', 'short']) await f.invite(label, { maxUses: 1, expiresAt: f.now + 1000 })
    await f.run('revokeInvite', { agent: agentId('alice'), id: hex16('revoked'), now: f.now })
    refused(await ask(f, 'bob', 'revoked'), 'invite_revoked')
    refused(await ask(f, 'bob', 'never made'), 'invite_invalid')
    await f.commit('alice', { adds: ['bob'], welcomes: [welcomeFor('bob', { inviteId: id16('used up') })] })
    refused(await ask(f, 'carol', 'used up'), 'invite_used_up')
    f.now += 1000
    refused(await ask(f, 'carol', 'short'), 'invite_expired')
    assert.deepEqual(await ask(f, 'bob', 'used up'), { done: true })
    assert.deepEqual(await take(f), [])
  })

  test('an agent that leaves is not added later by an earlier request', async (t) => {
    const f = await open(t)
    await f.create('alice')
    await f.commit('alice', { adds: ['bob'], welcomes: [welcomeFor('bob')] })
    for (const label of ['invite', 'another']) await f.invite(label)
    await ask(f, 'bob')
    await ask(f, 'bob', 'another')
    await ask(f, 'carol')
    await f.leave('bob')
    assert.deepEqual(await take(f), ['box of carol'])
    await ask(f, 'bob')
    assert.deepEqual(await take(f), ['box of carol', 'box of bob'])
  })

  test('a nonce can be used once, until it has expired', async (t) => {
    const f = await open(t)
    const use = { nonce: id16('nonce'), until: f.now + 1000 }
    const both = await Promise.all([f.run('useNonce', use), f.run('useNonce', use)])
    assert.deepEqual(both, [{ fresh: true }, { fresh: false }])
    await f.run('sweep', { now: f.now })
    assert.deepEqual(await f.run('useNonce', use), { fresh: false })
    await f.run('sweep', { now: f.now + 1000 })
    assert.deepEqual(await f.run('useNonce', use), { fresh: true })
  })

  test('heads say where logs end, for channels that exist', async (t) => {
    const f = await open(t)
    await f.create('alice')
    const asked = { channels: [hex16('none'), f.channel] }
    assert.deepEqual(await f.run('heads', asked), { heads: [{ channel: f.channel, index: 0, slot: 0 }] })
    await f.commit('alice', { adds: ['bob'], welcomes: [welcomeFor('bob')] })
    await f.say('alice')
    assert.deepEqual(await f.run('heads', asked), { heads: [{ channel: f.channel, index: 2, slot: 1 }] })
  })

  test('a store for several nodes keeps the events that are not in a log', async (t) => {
    const f = await open(t)
    await f.create('alice')
    await f.invite('invite')
    const start = await f.run('notices', { after: undefined, limit: 10 })
    assert.deepEqual(start.events, [])
    await f.commit('alice', { adds: ['bob', 'carol'], welcomes: [welcomeFor('bob'), welcomeFor('carol')] })
    await ask(f, 'dave')
    const expected = f.told().filter(({ type }) => type !== 'appended')
    assert.equal(expected.length, 3)
    const found = []
    let { position } = start
    for (let more = true; more;) {
      const page = await f.run('notices', { after: position, limit: 2 })
      found.push(...page.events)
      ;({ more, position } = page)
    }
    assert.deepEqual(found, f.store.deployment.busKey ? expected : [])
  })
})
