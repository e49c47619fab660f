/** A relay that lies about who owns a channel, who may take it over, and whether somebody has. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { fromHex, toHex } from '@static/protocol'
import { DeclarationSchema, SendCommitResponseSchema } from '@static/protocol/relay'
import { isCommit, isMessage, once } from '../support/lies.ts'
import type { Entry, Lie } from '../support/lying-room.ts'
import { answering } from '../support/lying-relay.ts'
import { goOn, makeCanary } from '../support/lying-system.ts'
import { code, event, take } from '../support/test-system.ts'
import { forked, scene, type Scene } from './scene.ts'

/** A channel of alice, who owns it, bob, who is her standby, and carol. */
async function withStandby(t: TestContext): Promise<Scene> {
  const place = await scene(t)
  const { channels, ids } = place
  await channels[0].setStandby(ids[1])
  await goOn(...channels)
  return place
}

/** Whom each takes for the owner and the standby. */
function ownershipOf({ clients, channels, ids }: Scene): unknown[] {
  const nameOf = (id: string | undefined): string => ['alice', 'bob', 'carol'][ids.indexOf(id ?? '')] ?? 'nobody'
  const owners = clients.map((client) => client.fingerprint())
  return channels.map(({ owner, standby }) => [nameOf(ids[owners.indexOf(owner)]), nameOf(standby?.agentId)])
}

/** Another declaration under the same signature. */
function declaring(change: (ids: Scene['ids']) => { owner: string; standby: string }, ids: Scene['ids']): Lie {
  return once(isCommit, (entry) => {
    assert.ok(entry.case === 'deliverCommit')
    const { owner, standby } = change(ids)
    const named = { owner: fromHex(owner), standby: fromHex(standby) }
    const declaration = create(DeclarationSchema, { ...entry.value.declaration!, ...named })
    return [{ ...entry, value: { ...entry.value, declaration } }]
  })
}

for (const [what, change] of [
  ['another standby', ([alice, , carol]) => ({ owner: alice, standby: carol })],
  ['another owner', ([, bob]) => ({ owner: bob, standby: '' })],
  ['nobody', () => ({ owner: '', standby: '' })],
] as readonly (readonly [string, (ids: Scene['ids']) => { owner: string; standby: string }])[]) {
  test(`the relay declares ${what} in the owner's name: the channel stops, and the others continue`, async (t) => {
    const place = await scene(t)
    const { room, clients, channels, ids } = place
    const telling = event(clients[2], 'channel_failed')
    room.view(ids[2]).lie = declaring(change, ids)
    await channels[0].setStandby(ids[1])
    assert.equal((await telling).error.code, 'mls_error')
    await assert.rejects(channels[2].takeOver(), code('mls_error'))
    await channels[1].takeOver()
    await goOn(channels[0], channels[1])
    assert.deepEqual(ownershipOf(place).slice(0, 2), [
      ['bob', 'nobody'],
      ['bob', 'nobody'],
    ])
  })
}

test('a take-over is withheld: the first message of the new epoch stops the member, which has believed no one else', async (t) => {
  const place = await withStandby(t)
  const { world, room, clients, channels, ids } = place
  const canary = makeCanary()
  const telling = event(clients[2], 'channel_failed')
  room.view(ids[2]).lie = once(isCommit, () => [])
  await channels[1].takeOver()
  await world.relay.read(room, ...ids)
  assert.deepEqual(ownershipOf(place)[2], ['alice', 'bob'])
  assert.notEqual(channels[2].verify(), channels[0].verify())
  await channels[1].send(canary)
  assert.equal((await telling).error.code, 'mls_error')
  assert.deepEqual(await take(channels[0], 1), [canary])
  await goOn(channels[0], channels[1])
  assert.equal(world.relay.sawPlaintext(canary), false)
})

test('a take-over is repeated: skipped, and the fork is detected', async (t) => {
  const place = await withStandby(t)
  const { room, clients, channels, ids } = place
  room.view(ids[2]).lie = once(isCommit, (entry) => [entry, entry])
  const skipping = event(clients[2], 'commit_skipped')
  const telling = event(clients[2], 'fork_detected')
  await channels[1].takeOver()
  assert.equal((await skipping).reason, 'other_epoch')
  await channels[0].send('yours')
  assert.deepEqual(await take(channels[2], 1), ['yours'])
  await channels[1].send('mine, by one entry less')
  await forked(telling, channels[2], ids[1])
  assert.deepEqual(ownershipOf(place)[2], ['bob', 'nobody'])
})

test('a take-over comes again after the channel has gone back: it is skipped', async (t) => {
  const place = await withStandby(t)
  const { room, clients, channels, ids } = place
  await channels[1].takeOver()
  const taken = room.log.findLast((entry) => entry.case === 'deliverCommit') ?? assert.fail()
  await channels[1].transfer(ids[0])
  await channels[0].catchUp()
  await channels[0].takeOver()
  await goOn(...channels)
  const skipping = event(clients[2], 'commit_skipped')
  room.view(ids[2]).lie = once(isMessage, (entry) => [taken, entry])
  await channels[0].send('nothing has happened')
  assert.equal((await skipping).reason, 'other_epoch')
  assert.deepEqual(ownershipOf(place)[2], ['alice', 'nobody'])
})

test('the relay says that it has taken a take-over, and stores nothing: nobody owns the channel before it is in the log', async (t) => {
  const place = await withStandby(t)
  const { world, channels, ids } = place
  let lies = 0
  world.relay.answer = (agent, asked, honest) => {
    if (agent !== ids[1] || asked.case !== 'sendCommit' || lies++ > 0) return honest()
    return answering({ case: 'sendCommit', value: create(SendCommitResponseSchema, { index: 99n, head: 99n }) })
  }
  const taking = channels[1].takeOver()
  await world.relay.until(() => lies === 1)
  await channels[0].send('still mine')
  assert.deepEqual(await take(channels[2], 1), ['still mine'])
  assert.deepEqual(ownershipOf(place), [
    ['alice', 'bob'],
    ['alice', 'bob'],
    ['alice', 'bob'],
  ])
  // It sends it again in the next session.
  world.relay.cut(ids[1])
  await taking
  assert.deepEqual(await take(channels[1], 1), ['still mine'])
  await goOn(...channels)
  assert.deepEqual(ownershipOf(place), [
    ['bob', 'nobody'],
    ['bob', 'nobody'],
    ['bob', 'nobody'],
  ])
})

test('the relay names the former owner after a take-over: reported and ignored', async (t) => {
  const place = await withStandby(t)
  const { world, room, clients, channels, ids } = place
  await channels[1].takeOver()
  await goOn(...channels)
  const telling = event(clients[2], 'roster_lie')
  ;[room.owner] = ids
  world.relay.cut(ids[2])
  assert.match((await telling).detail, /a different name or owner/)
  await goOn(...channels)
  assert.deepEqual(ownershipOf(place)[2], ['bob', 'nobody'])
})

test('some are shown a take-over, and others that the owner has withdrawn it: neither side reads the other', async (t) => {
  const place = await withStandby(t)
  const { world, room, channels, ids } = place
  const hiding = (sender: string | undefined) => (entry: Entry) =>
    entry.case === 'deliverCommit' && toHex(entry.value.sender) === sender ? [] : [entry]
  room.view(ids[0]).lie = hiding(ids[1])
  for (const id of ids.slice(1)) room.view(id).lie = hiding(ids[0])
  await Promise.all([channels[0].setStandby(undefined), channels[1].takeOver()])
  await world.relay.read(room, ...ids)
  assert.deepEqual(ownershipOf(place), [
    ['alice', 'nobody'],
    ['bob', 'nobody'],
    ['bob', 'nobody'],
  ])
  assert.equal(channels[1].verify(), channels[2].verify())
  assert.notEqual(channels[0].verify(), channels[1].verify())
  const canary = makeCanary()
  await channels[1].send(canary)
  assert.deepEqual(await take(channels[2], 1), [canary])
  assert.equal(world.relay.sawPlaintext(canary), false)
})
