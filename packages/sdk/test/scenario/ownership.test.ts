/** A channel outlives the machine of its owner: a standby, a transfer, a take-over. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { parseChannelName } from '@static/protocol'
import type { Channel } from '../../src/public/channel.ts'
import type { StaticChannelManager } from '../../src/public/manager.ts'
import { type AgentOptions, code, event, NAME, take, TestSystem } from '../support/test-system.ts'

interface Scene {
  readonly world: TestSystem
  readonly managers: readonly [StaticChannelManager, StaticChannelManager, StaticChannelManager]
  /** Of Alice, who owns it, Bob and Carol. */
  readonly channels: readonly [Channel, Channel, Channel]
  /** By which Carol has joined. */
  readonly token: string
}

/** A channel of three, in which all have said something with their accounts. */
async function scene(t: TestContext, { bob: options }: { readonly bob?: AgentOptions } = {}): Promise<Scene> {
  const world = await TestSystem.start(t, 'grpc', {
    settings: {
      rates: { commitsPerSecond: 1000, guestCommitsPerSecond: 1000, channelCommitsPerSecond: 1000 },
      counts: { channelsPerAccount: 2 },
    },
  })
  const alice = await world.manager('alice')
  const bob = await world.manager('bob', { account: 'bob', ...options })
  const carol = await world.manager('carol', { account: 'carol' })
  const owner = await alice.create(NAME)
  const second = await bob.joinWithToken(NAME, await alice.invite(NAME))
  const token = await alice.invite(NAME)
  const third = await carol.joinWithToken(NAME, token)
  return { world, managers: [alice, bob, carol], channels: [owner, second, third], token }
}

async function eventsOf({ client }: StaticChannelManager): Promise<readonly string[]> {
  const types: string[] = []
  for await (const { type } of client.events()) types.push(type)
  return types
}

const idOf = ({ client }: StaticChannelManager): string => client.agentId

test('the owner names a standby, which takes over after the owner is gone, and continues as the owner', async (t) => {
  const { managers, channels, world, token } = await scene(t)
  const [alice, bob, carol] = managers
  const [owner, second, third] = channels
  await owner.setStandby(idOf(bob))
  await third.catchUp()
  for (const channel of [owner, third]) assert.deepEqual(channel.standby, { agentId: idOf(bob), offered: false })
  await alice.close()

  await assert.rejects(third.takeOver(), code('not_allowed'))
  const seen = event(carol.client, 'ownership_changed', ({ by }) => by === idOf(bob))
  await second.takeOver()
  await second.takeOver()
  const changed = await seen
  assert.deepEqual([changed.owner, changed.standby, changed.by], [idOf(bob), undefined, idOf(bob)])
  assert.equal(second.owner, third.owner)
  assert.equal(second.standby, undefined)

  // It does all that an owner does.
  const dave = await world.manager('dave', { account: 'dave' })
  const fourth = await dave.joinWithToken(NAME, await bob.invite(NAME))
  await second.send('from the new owner')
  assert.deepEqual(await take(fourth, 1), ['from the new owner'])
  assert.equal(fourth.owner, second.owner)
  await second.removeMember(idOf(alice))
  await second.vouch(idOf(carol))
  await second.resetRoster()
  await second.setStandby(idOf(dave))
  await fourth.catchUp()
  await carol.close()
  await fourth.takeOver()
  // A program that joins by its token at each start finds its channel, whoever owns it by now and has made the token.
  for (const known of [await dave.invite(NAME), token]) {
    const back = await world.manager('carol', { account: 'carol' })
    const events = eventsOf(back)
    assert.equal((await back.joinWithToken(NAME, known)).owner, dave.client.fingerprint())
    await back.close()
    // The relay has named an owner of whom it had not read yet.
    assert.equal((await events).includes('roster_lie'), false)
  }
  await fourth.delete()
})

test('a transfer is an offer: until it is accepted, the owner stays the owner and may withdraw it', async (t) => {
  const { managers, channels } = await scene(t)
  const [alice, bob] = managers
  const [owner, second, third] = channels
  const offered = event(bob.client, 'ownership_changed')
  await owner.transfer(idOf(bob))
  const offer = await offered
  assert.deepEqual([offer.standby, offer.offered, offer.owner], [idOf(bob), true, idOf(alice)])
  assert.deepEqual(second.standby, { agentId: idOf(bob), offered: true })
  await owner.setStandby(undefined)
  await second.catchUp()
  await assert.rejects(second.takeOver(), code('not_allowed'))
  await owner.transfer(idOf(bob))
  await second.catchUp()
  await second.takeOver()
  await owner.catchUp()
  assert.equal(owner.owner, second.owner)
  // The former owner is a member like any other: it reads, sends, and may leave.
  await owner.send('still here')
  assert.deepEqual(await take(third, 1), ['still here'])
  for (const refused of [
    owner.removeMember(idOf(bob)),
    owner.setStandby(idOf(bob)),
    owner.transfer(idOf(bob)),
    owner.vouch(idOf(bob)),
    owner.resetRoster(),
    alice.invite(NAME),
  ]) {
    await assert.rejects(refused, code('not_allowed'))
  }
  const vouched = (): string[] => second.members().flatMap((one) => (one.vouched === true ? [one.agentId] : []))
  assert.deepEqual(vouched().toSorted(), [idOf(alice), idOf(bob)].toSorted())
  // The relay has accepted it as the standby, so somebody has vouched for it: the next reset says so as well.
  await second.setStandby(idOf(managers[2]))
  assert.deepEqual(vouched().toSorted(), managers.map(idOf).toSorted())
  await second.resetRoster()
  await third.takeOver()
  await owner.leave()
})

test('bad input: an agent that is not a member, has no account, is the owner itself, or is not allowed', async (t) => {
  const { managers, channels, world } = await scene(t)
  const [alice, bob] = managers
  const [owner, second] = channels
  await assert.rejects(owner.setStandby('bob'), code('invalid_request'))
  await assert.rejects(owner.setStandby('0'.repeat(64)), code('not_found'))
  await assert.rejects(owner.transfer(idOf(alice)), code('invalid_request'))
  await assert.rejects(owner.transfer(undefined as never), code('invalid_request'))
  await assert.rejects(second.setStandby(idOf(bob)), code('not_allowed'))
  await assert.rejects(second.takeOver(), code('not_allowed'))
  const guest = await world.manager('guest', { account: null })
  await guest.joinWithToken(NAME, await alice.invite(NAME))
  await assert.rejects(owner.setStandby(idOf(guest)), code('not_allowed'))
  const stranger = await world.manager('stranger', { account: 'stranger' })
  await stranger.joinWithToken(NAME, await alice.invite(NAME, { maxUses: 2 }))
  await assert.rejects(owner.setStandby(idOf(stranger)), code('not_allowed'))
  await owner.vouch(idOf(stranger))
  await owner.setStandby(idOf(stranger))
})

test('an account with a channel of that name, with all its channels, or without room takes nothing over, and nothing changes', async (t) => {
  let room = 100_000_000
  const options = { account: 'bob', claims: () => ({ account_bytes: room }) }
  const { world, managers, channels } = await scene(t, { bob: options })
  const [, bob] = managers
  const [owner, second, third] = channels
  await owner.setStandby(idOf(bob))
  const refused = async (why: string, words: RegExp): Promise<void> => {
    await assert.rejects(second.takeOver(), code(why, words))
    await owner.send(`${why} is no reason to stop`)
    assert.deepEqual(await take(second, 1), [`${why} is no reason to stop`])
    await third.catchUp()
    for (const { owner: fingerprint, standby } of channels) {
      assert.deepEqual([fingerprint, standby?.agentId], [managers[0].client.fingerprint(), idOf(bob)])
    }
    assert.equal(new Set(channels.map((channel) => channel.verify())).size, 1)
  }
  // Another agent of the account has the name.
  const other = await world.manager('other', options)
  const namesake = await other.create(NAME)
  await refused('channel_exists', /already has a channel acme\/support\/routing/)
  await namesake.delete()
  const more = await Promise.all([1, 2].map((number) => other.create(`acme/support/other-${number}`)))
  await refused('not_allowed', /its limit of 2 channels/)
  await more[0]?.delete()
  // The relay hears of another plan in the next session of the account.
  room = 1
  await other.close()
  const again = await world.manager('other', options)
  await refused('queue_full', /the disk of your account has no room/)
  room = 100_000_000
  await bob.close()
  const back = await world.manager('bob', options)
  const taken = back.client.channel(NAME)
  await taken.takeOver()
  await third.catchUp()
  assert.equal(third.owner, back.client.fingerprint())
  // The name has moved from one account to the other.
  await assert.rejects(again.create(NAME), code('channel_exists'))
  const fresh = await world.agent('fresh')
  assert.equal((await fresh.createChannel(NAME)).owner, fresh.fingerprint())
})

test('an owner that has rejected the commit which added its standby names it again, once it is back on the roster', async (t) => {
  const { world, managers, channels } = await scene(t)
  const [alice, , carol] = managers
  const [owner, , third] = channels
  // Carol came last.
  const added = alice.client.membershipOf(parseChannelName(NAME)).history.position.slot - 1
  await owner.setStandby(idOf(carol))
  await third.catchUp()
  // It would hear that it is not a member any more.
  await carol.close()
  await owner.rejectCommit(added)
  await owner.resetRoster()
  const back = await world.manager('carol', { account: 'carol' })
  const again = back.client.channel(NAME)
  // The group's standby is not the relay's.
  await assert.rejects(again.takeOver(), code('not_allowed'))
  await owner.setStandby(idOf(carol))
  await again.catchUp()
  await again.takeOver()
  await owner.catchUp()
  assert.equal(owner.owner, carol.client.fingerprint())
})

test('the invites of the former owner end, and its tokens open nothing', async (t) => {
  const { world, managers, channels } = await scene(t)
  const [alice, bob] = managers
  const [owner, second] = channels
  const tokens = [await alice.invite(NAME), await alice.invite(NAME, { admit: 'members' })]
  await owner.setStandby(idOf(bob))
  await second.catchUp()
  await second.takeOver()
  await owner.catchUp()
  assert.deepEqual(
    alice
      .invites(NAME)
      .map(({ state }) => state)
      .filter((state) => state === 'open'),
    [],
  )
  const eve = await world.manager('eve', { account: 'eve' })
  for (const token of tokens) {
    await assert.rejects(eve.joinWithToken(NAME, token, 3), (error: { code: string }) => {
      return ['invite_invalid', 'invite_revoked'].includes(error.code)
    })
  }
  await eve.joinWithToken(NAME, await bob.invite(NAME, { admit: 'members' }))
})
