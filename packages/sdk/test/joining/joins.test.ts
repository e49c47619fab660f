/** Joins that do not go straight: by two tokens, with the owner away, while the joiner is closed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Cutter } from '../support/cutter.ts'
import { code, event, NAME, text, TestSystem } from '../support/test-system.ts'

const GUEST = { account: null }
const SECONDS = 20

test('a joiner that asks with two tokens is added once, and stays', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  let owner = await world.manager('owner')
  const joiner = await world.manager('joiner', GUEST)
  const last = await world.manager('last', GUEST)
  await owner.create(NAME)
  const tokens = [await owner.invite(NAME), await owner.invite(NAME)]
  await owner.close()
  // Both requests wait at the relay when the owner comes.
  for (const token of tokens) await assert.rejects(joiner.joinWithToken(NAME, token, 0.2), code('join_timeout'))
  const joining = tokens.map((token) => joiner.joinWithToken(NAME, token, SECONDS))
  owner = await world.manager('owner')
  const [one, other] = await Promise.all(joining)
  assert.equal(one, other)
  await joiner.send(NAME, 'in')
  assert.equal(text((await owner.receive(NAME, SECONDS)) ?? assert.fail()), 'in')
  // One of the two is not used, and lets somebody in: by then the owner has looked at all requests.
  const results = await Promise.allSettled(tokens.map((token) => last.joinWithToken(NAME, token, SECONDS)))
  assert.ok(results.some(({ status }) => status === 'fulfilled'))
  await last.send(NAME, 'in, too')
  assert.equal(text((await joiner.receive(NAME, SECONDS)) ?? assert.fail()), 'in, too')
  assert.equal(owner.client.channel(NAME).members().length, 3)
})

test('a pending join fails at once when the manager is closed', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const owner = await world.manager('owner')
  const joiner = await world.manager('joiner', GUEST)
  await owner.create(NAME)
  const token = await owner.invite(NAME)
  await owner.close()
  // At its beginning, and when it waits.
  const begun = assert.rejects(joiner.joinWithToken(NAME, token, SECONDS), code('closed'))
  await joiner.close()
  await begun
  const again = await world.manager('joiner', GUEST)
  await assert.rejects(again.joinWithToken(NAME, token, 0.2), code('join_timeout'))
  const waiting = assert.rejects(again.joinWithToken(NAME, token, SECONDS), code('closed'))
  await again.close()
  await waiting
})

test('an agent that was removed while it was away joins again with a new token', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const owner = await world.manager('owner')
  let joiner = await world.manager('joiner', GUEST)
  const channel = await owner.create(NAME)
  await joiner.joinWithToken(NAME, await owner.invite(NAME), SECONDS)
  await joiner.close()
  await channel.removeMember(joiner.client.agentId)
  const token = await owner.invite(NAME)
  joiner = await world.manager('joiner', GUEST)
  const joined = await joiner.joinWithToken(NAME, token, SECONDS)
  assert.equal(joined.members().length, 2)
  await joined.send('in again')
  assert.equal(text((await owner.receive(NAME, SECONDS)) ?? assert.fail()), 'in again')
  assert.equal(owner.invites(NAME).find(({ state }) => state !== 'revoked')?.uses, 1)
})

test('a member that joins again asks the relay whether it still is a member, for the time it was given', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const owner = await world.manager('owner')
  const cutter = new Cutter()
  const joiner = await world.manager('joiner', { ...GUEST, transport: cutter.wrap })
  await owner.create(NAME)
  const joined = await joiner.joinWithToken(NAME, await owner.invite(NAME), SECONDS)
  const token = await owner.invite(NAME)
  void cutter.mute()
  await assert.rejects(joiner.joinWithToken(NAME, token, 0.2), code('join_timeout', /relay did not answer/))
  cutter.cut()
  assert.equal(await joiner.joinWithToken(NAME, token, SECONDS), joined)
  assert.deepEqual(
    owner.invites(NAME).map(({ uses }) => uses),
    [1, 0],
  )
})

test('a joiner removed while it waits for its greeting gets an error, and its invite is revoked', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const owner = await world.manager('owner')
  const joiner = await world.manager('joiner', GUEST)
  const channel = await owner.create(NAME)
  const token = await owner.invite(NAME, { maxUses: 2 })
  const added = event(owner.client, 'members_changed', ({ added: agents }) => agents.length === 1)
  const joining = joiner.joinWithToken(NAME, token, SECONDS)
  joining.catch(() => {})
  await added
  await channel.removeMember(joiner.client.agentId)
  // It may have been greeted before.
  await joining.catch((error: unknown) => code('invite_revoked')(error))
  await assert.rejects(joiner.joinWithToken(NAME, token, SECONDS), code('invite_revoked'))
  assert.equal(channel.members().length, 1)
})
