/** Stories about invites with which any member with an account may admit joiners. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Actor, StoreRequest, StoreResult } from '../../src/ports.ts'
import {
  DAY,
  HOUR,
  type ChannelFixture,
  accepted,
  account,
  agentId,
  forEachEngine,
  guest,
  hex16,
  id16,
  member,
  refused,
  text,
  welcomeFor,
} from './channel-fixture.ts'

const LIMITS = { maxPerInvite: 2, maxPerOwner: 3, maxBytes: 10_000 }
type Limits = Partial<typeof LIMITS>
type Taker = StoreRequest<'takeJoins'>['actor']

const register = (
  f: ChannelFixture,
  label: string,
  fields: Parameters<ChannelFixture['invite']>[1] = {},
): Promise<object> => f.invite(label, { members: true, ...fields })

const ask = (
  f: ChannelFixture,
  joiner: string,
  invite = 'invite',
  { box = text(`box of ${joiner}`), ...limits }: Limits & { box?: Uint8Array } = {},
): Promise<StoreResult<'requestJoin'>> => {
  const fields = { invite: hex16(invite), channel: f.channel, owner: undefined, agent: agentId(joiner), box }
  return f.run('requestJoin', { join: { ...fields, until: f.now + 30 * DAY }, ...LIMITS, ...limits, now: f.now })
}

/** What a member gets, and the number to go on from. */
const take = async (
  f: ChannelFixture,
  actor: Taker,
  { after = 0, maxRequests = 10, mayWait = false }: { after?: number; maxRequests?: number; mayWait?: boolean } = {},
): Promise<{ boxes: string[]; lastNumber: number; pending: readonly number[] }> => {
  const bounds = { maxRequests, maxBytes: 100_000, mayWait }
  const { joins, ...rest } = await f.run('takeJoins', { actor, channel: f.channel, after, ...bounds, now: f.now })
  return { boxes: joins.map(({ box }) => Buffer.from(box).toString()), ...rest }
}

const admit = (
  f: ChannelFixture,
  sender: string,
  joiners: readonly string[],
  { invite = 'invite', actor = member(sender) }: { invite?: string; actor?: Actor } = {},
): Promise<StoreResult<'commit'>> => {
  const welcomes = joiners.map((joiner) => welcomeFor(joiner, { inviteId: id16(invite) }))
  return f.commit(sender, { adds: joiners, welcomes, actor })
}

const usesOf = async (f: ChannelFixture, label = 'invite'): Promise<number | undefined> =>
  (await f.run('invite', { id: hex16(label) })).invite?.uses

forEachEngine((open) => {
  test('a request waits for every member with an account, which gets it once', async (t) => {
    const f = await open(t)
    await f.found('alice', 'bob', 'carol')
    await register(f, 'invite')
    f.told()
    assert.deepEqual(await ask(f, 'dave'), { done: true })
    assert.deepEqual(f.told(), [{ type: 'joinRequested', channel: f.channel, owner: undefined }])
    for (const name of ['alice', 'bob', 'carol']) {
      assert.deepEqual((await take(f, member(name))).boxes, ['box of dave'], name)
    }
    const { lastNumber: after } = await take(f, member('bob'))
    assert.deepEqual(await take(f, member('bob'), { after }), { boxes: [], lastNumber: after, pending: [after] })
    // A new one alone, so that each joiner costs every member one box; a repeated one is new.
    await ask(f, 'erin')
    const next = await take(f, member('bob'), { after })
    assert.deepEqual(next.boxes, ['box of erin'])
    await ask(f, 'dave')
    const last = await take(f, member('bob'), { after: next.lastNumber })
    assert.deepEqual(last.boxes, ['box of dave'])
    assert.deepEqual(last.pending, [next.lastNumber], 'the first request of dave is replaced')
    // Those that do not fit come with the next call.
    const first = await take(f, member('carol'), { maxRequests: 1 })
    assert.deepEqual(first.boxes, ['box of erin'])
    assert.deepEqual((await take(f, member('carol'), { after: first.lastNumber })).boxes, ['box of dave'])
  })

  test('a poll that keeps waiting is not told what else is pending', async (t) => {
    const f = await open(t)
    await f.found('alice', 'bob')
    await register(f, 'invite')
    await ask(f, 'dave')
    const { lastNumber: after } = await take(f, member('bob'))
    assert.deepEqual(await take(f, member('bob'), { after, mayWait: true }), {
      boxes: [],
      lastNumber: after,
      pending: [],
    })
    await ask(f, 'erin')
    const next = await take(f, member('bob'), { after, mayWait: true })
    assert.deepEqual(next.boxes, ['box of erin'])
    assert.deepEqual(next.pending, [after])
  })

  test('strangers, removed members and accounts of another mode get no requests', async (t) => {
    const f = await open(t)
    await f.found('alice', 'bob')
    await register(f, 'invite')
    await ask(f, 'dave')
    accepted(await f.commit('alice', { removes: ['bob'] }))
    const other = { agent: agentId('alice'), account: account('alice', 'test') }
    for (const actor of [member('bob'), member('eve'), other]) {
      assert.deepEqual((await take(f, actor)).boxes, [])
    }
    assert.deepEqual((await take(f, member('alice'))).boxes, ['box of dave'])
  })

  test('the owner gets requests for itself and for members, members get only the latter', async (t) => {
    const f = await open(t)
    await f.found('alice', 'bob')
    await register(f, 'invite')
    await register(f, 'own', { members: false })
    const join = { invite: hex16('own'), channel: f.channel, owner: agentId('alice'), agent: agentId('erin') }
    const request = { join: { ...join, box: text('box of erin'), until: f.now + HOUR }, ...LIMITS, now: f.now }
    await f.run('requestJoin', request)
    await ask(f, 'dave')
    assert.deepEqual((await take(f, member('alice'))).boxes, ['box of erin', 'box of dave'])
    assert.deepEqual((await take(f, member('bob'))).boxes, ['box of dave'])
    refused(await ask(f, 'frank', 'own'), 'invite_invalid')
    // An invite stays what it is.
    refused(await register(f, 'own'), 'invite_invalid')
    refused(await register(f, 'invite', { members: false }), 'invite_invalid')
  })

  test('a Welcome answers a request only if it is for an invite', async (t) => {
    const f = await open(t)
    await f.found('alice')
    await register(f, 'invite')
    const isWelcomed = async (name: string): Promise<boolean | undefined> => {
      const found = await f.run('invite', { id: hex16('invite'), joiner: { agent: agentId(name), now: f.now } })
      return found.welcomed
    }
    accepted(await f.commit('alice', { adds: ['bob'], welcomes: [welcomeFor('bob')] }))
    assert.equal(await isWelcomed('bob'), false)
    accepted(
      await f.commit('alice', { adds: ['carol'], welcomes: [welcomeFor('carol', { inviteId: id16('invite') })] }),
    )
    assert.equal(await isWelcomed('carol'), true)
  })

  test('a joiner whose repeated request comes after the commit that added it, with the last use, is not refused', async (t) => {
    const f = await open(t)
    await f.found('alice', 'bob')
    await register(f, 'invite', { maxUses: 1 })
    assert.deepEqual(await ask(f, 'carol'), { done: true })
    accepted(await admit(f, 'bob', ['carol']))
    assert.deepEqual(await ask(f, 'carol'), { done: true })
    refused(await ask(f, 'dave'), 'invite_used_up')
    assert.deepEqual((await take(f, member('bob'))).boxes, [], 'and it does not wait for a second one')
  })

  test('the newest request is refused when an invite or the channel has too many', async (t) => {
    const f = await open(t)
    await f.found('alice')
    await register(f, 'invite')
    await register(f, 'another')
    await ask(f, 'bob')
    await ask(f, 'carol')
    refused(await ask(f, 'dave'), 'rate_limited')
    assert.deepEqual(await ask(f, 'carol'), { done: true }, 'a repeated one replaces the first')
    assert.deepEqual((await take(f, member('alice'))).boxes, ['box of bob', 'box of carol'])
    // Each counts 500 bytes more. An invite that has all it can get leaves as much to the others.
    const large = { box: new Uint8Array(1500), maxPerInvite: 99, maxBytes: 15_000 }
    for (const name of ['dave', 'erin', 'frank']) assert.deepEqual(await ask(f, name, 'invite', large), { done: true })
    refused(await ask(f, 'grace', 'invite', large), 'rate_limited')
    assert.deepEqual(await ask(f, 'grace', 'another', large), { done: true })
    assert.deepEqual(await ask(f, 'dave', 'invite', { ...large, box: text('small') }), { done: true })
    // None is pushed out, and those of owners have their own limit.
    assert.equal((await take(f, member('alice'), { maxRequests: 99 })).boxes.length, 6)
  })

  test('requests for a used-up invite wait for a returned use, and make room for others', async (t) => {
    const f = await open(t)
    await f.found('alice', 'bob')
    await register(f, 'invite', { maxUses: 1 })
    await register(f, 'another')
    const large = { box: new Uint8Array(2000), maxPerInvite: 99 }
    for (const name of ['dave', 'erin']) assert.deepEqual(await ask(f, name, 'invite', large), { done: true })
    accepted(await admit(f, 'bob', ['carol']))
    assert.deepEqual(await ask(f, 'frank', 'another', large), { done: true })
    assert.equal((await take(f, member('bob'))).boxes.length, 3)
    f.told()
    refused(await ask(f, 'grace', 'another', { ...large, box: new Uint8Array(4600) }), 'rate_limited')
    assert.deepEqual(f.told(), [], 'nothing is dropped in vain')
    assert.deepEqual(await ask(f, 'grace', 'another', large), { done: true })
    const ended = { type: 'joinAnswered', inviteId: hex16('invite'), code: 'invite_used_up' }
    assert.deepEqual(f.told().slice(0, 2), [
      { ...ended, agent: agentId('dave') },
      { ...ended, agent: agentId('erin') },
    ])
    assert.equal((await take(f, member('bob'))).boxes.length, 2)
  })

  test('requests that come together share the room like those that come one after the other', async (t) => {
    const f = await open(t)
    await f.found('alice', 'bob')
    await register(f, 'invite', { maxUses: 1 })
    await register(f, 'another')
    await register(f, 'third')
    const large = { box: new Uint8Array(2000), maxPerInvite: 99 }
    const outcomes = async (asked: readonly Promise<object>[]): Promise<string[]> =>
      (await Promise.all(asked)).map((result) => ('refused' in result ? String(result.refused) : 'done'))
    // What an invite holds counts twice: 2,500 bytes for each, of 10,000.
    const first = ['dave', 'erin', 'frank'].map((name) => ask(f, name, 'invite', large))
    assert.deepEqual(await outcomes(first), ['done', 'done', 'rate_limited'])
    const answer = { owner: agentId('alice'), invite: hex16('invite'), code: 'group_full', now: f.now }
    assert.deepEqual(
      await outcomes([
        f.run('answerJoin', { ...answer, agent: agentId('erin') }),
        ask(f, 'frank', 'invite', large),
        ask(f, 'dave', 'invite', large),
        ask(f, 'grace', 'another', large),
        ask(f, 'heidi', 'third', { ...large, box: new Uint8Array(2001) }),
        ask(f, 'heidi', 'third', large),
        ask(f, 'ivan', 'third', { ...large, box: text('small') }),
      ]),
      ['done', 'done', 'done', 'done', 'rate_limited', 'done', 'rate_limited'],
    )
    // The invite is used up: its requests, and only they, make room at once.
    accepted(await admit(f, 'bob', ['carol']))
    const last = ['ivan', 'judy', 'mike'].map((name) => ask(f, name, 'third', { ...large, box: text('small') }))
    assert.deepEqual(await outcomes(last), ['done', 'done', 'rate_limited'])
    const small = ['small', 'small']
    const boxes = (await take(f, member('bob'))).boxes.map((box) => (box === 'small' ? box : 'large'))
    assert.deepEqual(boxes, ['large', 'large', ...small])
  })

  test('a request ends with the owner’s answer, a Welcome, a revocation, its invite or its channel', async (t) => {
    const f = await open(t)
    await f.found('alice', 'bob')
    for (const label of ['invite', 'another', 'third']) await register(f, label)
    await register(f, 'short', { expiresAt: f.now + HOUR })
    await ask(f, 'dave')
    await ask(f, 'erin')
    await ask(f, 'frank', 'another')
    const answer = { invite: hex16('invite'), agent: agentId('dave'), code: 'group_full', now: f.now }
    // A member cannot turn a joiner away.
    refused(await f.run('answerJoin', { owner: agentId('bob'), ...answer }), 'not_found')
    f.told()
    assert.deepEqual(await f.run('answerJoin', { owner: agentId('alice'), ...answer }), { done: true })
    const answered = { type: 'joinAnswered', agent: agentId('dave'), inviteId: hex16('invite'), code: 'group_full' }
    assert.deepEqual(f.told(), [answered])
    assert.deepEqual((await take(f, member('bob'))).boxes, ['box of erin', 'box of frank'])
    accepted(await admit(f, 'bob', ['erin']))
    assert.deepEqual((await take(f, member('bob'))).boxes, ['box of frank'])
    f.told()
    await f.run('revokeInvite', { agent: agentId('alice'), id: hex16('another'), now: f.now })
    const revoked = { ...answered, agent: agentId('frank'), inviteId: hex16('another'), code: 'invite_revoked' }
    assert.deepEqual(f.told(), [revoked])
    // Asked before the revocation, stored after it.
    refused(await ask(f, 'grace', 'another'), 'invite_revoked')
    f.now += HOUR
    refused(await ask(f, 'grace', 'short'), 'invite_expired')
    await ask(f, 'heidi', 'third')
    await f.run('sweep', { now: f.now + 29 * DAY })
    f.now += 29 * DAY
    assert.deepEqual((await take(f, member('bob'))).boxes, ['box of heidi'])
    f.told()
    await f.run('delete', { account: account('alice'), channel: f.channel, name: undefined })
    assert.deepEqual(f.told()[0], {
      ...revoked,
      agent: agentId('heidi'),
      inviteId: hex16('third'),
      code: 'invite_invalid',
    })
    refused(await ask(f, 'heidi', 'third'), 'invite_invalid')
  })

  test('a Welcome in another channel does not end a request', async (t) => {
    const f = await open(t)
    await f.found('alice')
    await register(f, 'invite')
    await ask(f, 'dave')
    const other = hex16('other')
    await f.create('eve', { channel: other, name: 'acme/support/other' })
    const welcomes = [welcomeFor('dave', { inviteId: id16('invite') })]
    accepted(await f.run('commit', f.commitRequest('eve', { channel: other, slot: 0, adds: ['dave'], welcomes })))
    assert.deepEqual((await take(f, member('alice'))).boxes, ['box of dave'])
    assert.equal(await usesOf(f), 0)
  })

  test('a commit counts a use for each Welcome, or is refused', async (t) => {
    const f = await open(t)
    await f.found('alice', 'bob', 'carol')
    await register(f, 'invite', { maxUses: 3 })
    await register(f, 'revoked')
    await register(f, 'short', { expiresAt: f.now + HOUR })
    await f.run('revokeInvite', { agent: agentId('alice'), id: hex16('revoked'), now: f.now })
    const request = f.commitRequest('bob', { adds: ['j1'], welcomes: [welcomeFor('j1', { inviteId: id16('invite') })] })
    accepted(await f.run('commit', request))
    accepted(await f.run('commit', request))
    f.head += 1
    assert.equal(await usesOf(f), 1, 'a repeated commit counts nothing')
    refused(await admit(f, 'carol', ['j2', 'j3', 'j4']), 'invite_used_up')
    refused(await admit(f, 'carol', ['j2'], { invite: 'revoked' }), 'invite_revoked')
    // Two members admit at once: the slot decides, and one use is counted.
    const both = await Promise.all(['bob', 'carol'].map((name) => admit(f, name, ['j2'])))
    accepted(both.find((result) => 'index' in result) ?? {})
    refused(both.find((result) => !('index' in result)) ?? {}, 'epoch_mismatch')
    assert.equal(await usesOf(f), 2)
    accepted(await admit(f, 'alice', ['j3']))
    refused(await admit(f, 'alice', ['j4']), 'invite_used_up')
    // The owner returns a use by raising the limit.
    await register(f, 'invite', { maxUses: 4 })
    accepted(await admit(f, 'bob', ['j4']))
    f.now += HOUR
    refused(await admit(f, 'bob', ['j5'], { invite: 'short' }), 'invite_expired')
    assert.deepEqual([await usesOf(f), await usesOf(f, 'short'), await usesOf(f, 'revoked')], [4, 0, 0])
    assert.deepEqual(await f.roster('j1', 'j2', 'j3', 'j4', 'j5'), ['j1', 'j2', 'j3', 'j4'])
  })

  test('guests cannot admit, and a Welcome that names the invite must come with its commit', async (t) => {
    const f = await open(t)
    await f.found('alice', 'bob', 'gina')
    await register(f, 'invite')
    refused(await admit(f, 'gina', ['dave'], { actor: guest('gina') }), 'api_key_required')
    assert.equal(await usesOf(f), 0)
    accepted(await f.commit('bob', { adds: ['dave'], welcomes: [] }))
    const late = welcomeFor('dave', { inviteId: id16('invite') })
    const sent = { actor: member('bob'), channel: f.channel, slot: f.head - 1, welcome: late, paid: 0, now: f.now }
    refused(await f.run('welcome', sent), 'not_allowed')
  })

  test('a rejected commit returns the uses it counted, once', async (t) => {
    const f = await open(t)
    await f.found('alice', 'bob')
    await register(f, 'invite', { maxUses: 2 })
    await register(f, 'own', { members: false })
    accepted(await admit(f, 'bob', ['dave', 'erin']))
    refused(await admit(f, 'alice', ['frank']), 'invite_used_up')
    for (let times = 0; times < 2; times++) await f.reject(member('alice'), f.head - 1)
    assert.equal(await usesOf(f), 0)
    accepted(await admit(f, 'alice', ['frank']))
    assert.equal(await usesOf(f), 1)
    // The owner's own commit, too; but it counts the uses of its own invites itself.
    await f.reject(member('alice'), f.head - 1)
    assert.equal(await usesOf(f), 0)
    accepted(await admit(f, 'alice', ['grace'], { invite: 'own' }))
    await f.reject(member('alice'), f.head - 1)
    assert.equal(await usesOf(f, 'own'), 1)
  })
})
