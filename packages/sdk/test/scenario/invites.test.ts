import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { StaticError } from '@static/protocol'
import { decodeToken, encodeToken } from '../../src/admitting/token.ts'
import { Inbox } from '../../src/channel/receiving/inbox.ts'
import type { StaticChannelManager } from '../../src/public/manager.ts'
import type { AgentStore } from '../../src/ports/index.ts'
import { code, event, NAME, text, waysFor, TestSystem } from '../support/test-system.ts'

const other = (): { account: string } => ({ account: randomUUID() })

async function received(manager: StaticChannelManager, name: string = NAME): Promise<string> {
  const payload = await manager.receive(name, 20)
  assert.ok(payload)
  return text(payload)
}

for (const way of waysFor('grpc')) {
  test(`a guest joins with one token and sends, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way)
    const owner = await world.manager('owner')
    const guest = await world.manager('guest', { account: null })
    await owner.create(NAME)
    const token = await owner.invite(NAME)
    const channel = await guest.joinWithToken(NAME, token, 20)
    assert.equal(channel.members().length, 2)
    await owner.send(NAME, 'welcome')
    assert.equal(await received(guest), 'welcome')
    await guest.send(NAME, 'thanks')
    assert.equal(await received(owner), 'thanks')
    assert.equal(await owner.receive(NAME, 0.05), null)
    assert.deepEqual(
      guest.channels().map(({ name }) => name),
      [NAME],
    )
  })

  test(`a member of another account joins while others commit, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way)
    const owner = await world.manager('owner')
    const member = await world.manager('member')
    const late = await world.manager('late', other())
    await owner.create(NAME)
    await member.joinWithToken(NAME, await owner.invite(NAME), 20)
    const rotating = Array.from({ length: 3 }, () => member.client.channel(NAME).rotate())
    const channel = await late.joinWithToken(NAME, await owner.invite(NAME), 20)
    await Promise.all(rotating)
    await channel.send('here')
    assert.equal(await received(owner), 'here')
    assert.equal(await received(member), 'here')
  })

  test(`every kind of unusable token has its own code, ${way}`, async (t) => {
    let now = Date.now()
    const clock = { now: () => now }
    const world = await TestSystem.start(t, way)
    const owner = await world.manager('owner', clock)
    const joiner = await world.manager('joiner', { ...other(), ...clock })
    const second = await world.manager('second', { ...other(), ...clock })
    await owner.create(NAME)

    const used = await owner.invite(NAME)
    await second.joinWithToken(NAME, used, 20)
    await assert.rejects(joiner.joinWithToken(NAME, used, 20), code('invite_used_up'))

    const revoked = await owner.invite(NAME)
    await owner.revokeInvite(revoked)
    await assert.rejects(joiner.joinWithToken(NAME, revoked, 20), code('invite_revoked'))
    await assert.rejects(joiner.revokeInvite(revoked), code('invite_invalid'))

    const good = await owner.invite(NAME)
    const whole = decodeToken(good)
    const altered = {
      'another secret': encodeToken({ ...whole, secret: new Uint8Array(32).fill(1) }),
      'a foreign relay': encodeToken({ ...whole, relay: 'relay.example' }),
      'another name': encodeToken({ ...whole, name: 'acme/support/other' as typeof whole.name }),
      'a character less': good.slice(0, -1),
      'a character changed': good.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A')),
      'another prefix': good.replace('st_inv_', 'st_tok_'),
      nothing: '',
    }
    for (const [what, token] of Object.entries(altered)) {
      await assert.rejects(joiner.joinWithToken(NAME, token, 20), code('invite_invalid'), what)
    }
    // The secret is right, the owner is not: the owner's own check refuses it.
    const foreign = encodeToken({ ...whole, owner: new Uint8Array(32).fill(2) })
    await assert.rejects(joiner.joinWithToken(NAME, foreign, 20), code('invite_invalid'))

    const short = await owner.invite(NAME, { ttl: 60 })
    now += 61_000
    await assert.rejects(joiner.joinWithToken(NAME, short, 20), code('invite_expired'))
    // The relay and the owner say so, too, to one whose clock is behind.
    const behind = await world.manager('behind', { ...other(), now: () => now - 120_000 })
    await assert.rejects(behind.joinWithToken(NAME, short, 20), code('invite_expired'))

    // None of this has spoilt the good one.
    await joiner.joinWithToken(NAME, await owner.invite(NAME), 20)
    assert.equal(owner.client.channel(NAME).members().length, 3)
  })

  test(`only the owner makes invites, with valid names and limits, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way)
    const owner = await world.manager('owner')
    const member = await world.manager('member')
    await owner.create(NAME)
    await member.joinWithToken(NAME, await owner.invite(NAME), 20)
    await assert.rejects(member.invite(NAME), code('not_allowed'))
    await assert.rejects(owner.invite('acme/support/none'), code('not_found'))
    await assert.rejects(owner.invite('no name'), code('channel_error'))
    for (const maxUses of [0, 2 ** 32]) {
      await assert.rejects(owner.invite(NAME, { maxUses }), code('invalid_request', /`maxUses` is/))
    }
    await assert.rejects(owner.invite(NAME, { ttl: 0 }), code('invalid_request'))
  })

  test(`an owner without an API key cannot answer: join_timeout says why, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way)
    let owner = await world.manager('owner')
    const joiner = await world.manager('joiner', other())
    await owner.create(NAME)
    const token = await owner.invite(NAME)
    await owner.close()
    owner = await world.manager('owner', { account: null })
    await assert.rejects(joiner.joinWithToken(NAME, token, 1), code('join_timeout', /API key/))
    // The same token carries on when the owner has its key again.
    await owner.close()
    owner = await world.manager('owner')
    await joiner.joinWithToken(NAME, token, 20)
    await joiner.send(NAME, 'in')
    assert.equal(await received(owner), 'in')
  })

  test(`the owner is offline and comes back in time, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way)
    let owner = await world.manager('owner')
    const joiner = await world.manager('joiner', other())
    await owner.create(NAME)
    const token = await owner.invite(NAME)
    await owner.close()
    const joining = joiner.joinWithToken(NAME, token, 30)
    owner = await world.manager('owner')
    assert.equal((await joining).members().length, 2)
    await owner.send(NAME, 'sorry')
    assert.equal(await received(joiner), 'sorry')
  })

  test(`a removed member cannot come back with its old token, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way)
    const owner = await world.manager('owner')
    const joiner = await world.manager('joiner', other())
    await owner.create(NAME)
    const token = await owner.invite(NAME, { maxUses: 5 })
    await joiner.joinWithToken(NAME, token, 20)
    const removed = event(joiner.client, 'channel_failed')
    await owner.client.channel(NAME).removeMember(joiner.client.agentId)
    assert.equal((await removed).error.code, 'removed')
    await assert.rejects(joiner.joinWithToken(NAME, token, 20), code('invite_revoked'))
    await joiner.joinWithToken(NAME, await owner.invite(NAME), 20)
    await joiner.send(NAME, 'again')
    assert.equal(await received(owner), 'again')
  })

  test(`an agent leaves and comes back with a new token, even with a broken group, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way)
    const owner = await world.manager('owner', { chance: () => 1 })
    let joiner = await world.manager('joiner', other())
    await owner.create(NAME)
    const channel = await joiner.joinWithToken(NAME, await owner.invite(NAME), 20)
    await channel.leave()
    await joiner.joinWithToken(NAME, await owner.invite(NAME), 20)
    await joiner.send(NAME, 'back')
    assert.equal(await received(owner), 'back')

    const { id } = joiner.client.channel(NAME)
    await joiner.close()
    const breaking = (store: AgentStore): AgentStore => {
      store.write([{ type: 'putEpoch', id, epoch: { group: new Uint8Array(100), rows: new Map() } }])
      return store
    }
    joiner = await world.manager('joiner', { ...other(), store: breaking })
    await assert.rejects(joiner.send(NAME, 'no'), code('mls_error'))
    await joiner.joinWithToken(NAME, await owner.invite(NAME), 20)
    await joiner.send(NAME, 'mended')
    assert.equal(await received(owner), 'mended')
    assert.equal(owner.client.channel(NAME).members().length, 2)
  })

  test(`a listener that died is reported, and a new manager continues, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way)
    let broken = false
    let owner = await world.manager('owner', {
      store: (store) => ({
        ...bound(store),
        write: (changes) => {
          if (broken) throw StaticError.of('store_corrupt', 'The disk is gone.')
          store.write(changes)
        },
      }),
    })
    const joiner = await world.manager('joiner', other())
    await owner.create(NAME)
    await owner.invite(NAME)
    const token = await owner.invite(NAME)
    broken = true
    await assert.rejects(joiner.joinWithToken(NAME, token, 1), code('join_timeout'))
    await assert.rejects(owner.receive(NAME, 5), code('listener_died'))
    await owner.close()
    owner = await world.manager('owner')
    await joiner.joinWithToken(NAME, token, 20)
    await joiner.send(NAME, 'hello')
    assert.equal(await received(owner), 'hello')
  })
}

test('20 joiners at once with 10 uses: exactly 10 get in', async (t) => {
  const world = await TestSystem.start(t, 'grpc', {
    settings: { rates: { commitsPerSecond: 1000, guestCommitsPerSecond: 1000, channelCommitsPerSecond: 1000 } },
  })
  const owner = await world.manager('owner')
  await owner.create(NAME)
  const token = await owner.invite(NAME, { maxUses: 10 })
  const joiners = await Promise.all(Array.from({ length: 20 }, (_, at) => world.manager(`joiner-${at}`, other())))
  const results = await Promise.allSettled(joiners.map((joiner) => joiner.joinWithToken(NAME, token, 45)))
  const refused = results.filter((result) => result.status === 'rejected')
  assert.equal(refused.length, 10)
  for (const { reason } of refused) assert.equal((reason as StaticError).code, 'invite_used_up')
  assert.equal(owner.client.channel(NAME).members().length, 11)
})

test('a joiner that never says hello is removed, and its use and its name are free again', async (t) => {
  let ahead = 0
  const returned = Promise.withResolvers<void>()
  const world = await TestSystem.start(t, 'quic')
  const owner = await world.manager('owner', {
    now: () => Date.now() + ahead,
    store: (store) => ({
      ...bound(store),
      write: (changes) => {
        store.write(changes)
        if (changes.some((change) => change.type === 'putInvite' && change.record.returned === 1)) returned.resolve()
      },
    }),
  })
  const silent = await world.manager('silent', {
    ...other(),
    // It takes its Welcome, and ends before it says a word.
    store: (store) => ({
      ...bound(store),
      write: (changes) => {
        if (changes.some((change) => change.type === 'putChannel' && change.record.state === 'joining')) {
          throw StaticError.of('store_corrupt')
        }
        store.write(changes)
      },
    }),
  })
  await owner.create(NAME)
  const token = await owner.invite(NAME)
  const added = event(owner.client, 'members_changed', ({ added: agents }) => agents.length === 1)
  await assert.rejects(silent.joinWithToken(NAME, token, 20))
  await added
  const removed = event(owner.client, 'members_changed', ({ removed: agents }) => agents.length === 1)
  // More than the minute that it has.
  ahead += 75_000
  await removed
  await returned.promise
  // The relay hears of the use that is returned before it hears of another invite.
  await owner.invite(NAME)
  const joiner = await world.manager('joiner', { ...other(), storeOptions: { identity: Buffer.from('silent') } })
  await joiner.joinWithToken(NAME, token, 20)
  assert.equal(owner.client.channel(NAME).members().length, 2)
})

function bound(store: AgentStore): AgentStore {
  return {
    load: () => store.load(),
    inbox: (...args) => store.inbox(...args),
    poison: (id) => store.poison(id),
    requests: (id, after, limit) => store.requests(id, after, limit),
    answers: (id) => store.answers(id),
    fileDigests: (id, index) => store.fileDigests(id, index),
    uploadParts: (id, fileId) => store.uploadParts(id, fileId),
    kept: (id, before, limit) => store.kept(id, before, limit),
    keptSizes: (id, before, limit) => store.keptSizes(id, before, limit),
    write: (changes) => store.write(changes),
    onFailure: (listener) => store.onFailure(listener),
    checkpoint: () => store.checkpoint(),
    close: () => store.close(),
  }
}

test('an agent that was removed while its inbox was full joins again with a token, and a member gets its channel', async (t) => {
  const system = await TestSystem.start(t, 'grpc')
  const alice = await system.manager('alice')
  const owner = await alice.create(NAME)
  const bob = await system.manager('bob')
  const first = await bob.joinWithToken(NAME, await alice.invite(NAME))
  const spare = await alice.invite(NAME)
  // Full with one payload.
  t.mock.getter(Inbox.prototype, 'isFull', function isFull(this: Inbox) {
    return !this.isEmpty
  })
  t.mock.getter(Inbox.prototype, 'hasRoom', function hasRoom(this: Inbox) {
    return this.isEmpty
  })
  const full = event(bob.client, 'inbox_full')
  await owner.send('unread')
  await full
  assert.equal(await bob.joinWithToken(NAME, spare), first)
  await owner.removeMember(bob.client.agentId)
  const again = await bob.joinWithToken(NAME, await alice.invite(NAME))
  assert.notEqual(again, first)
  assert.equal(owner.members().length, 2)
})
