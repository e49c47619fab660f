/**
 * Stolen databases. Proven elsewhere: 31 dead secrets in the WAL, test/store/at-rest.test.ts ("what was replaced or
 * dropped is not in the decrypted pages either", "after long traffic …, old keys and ratchet rows are gone").
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeRow, type Group, type RatchetRow } from '../../src/mls/index.ts'
import { engine } from '../mls/support.ts'
import { dropping, isMessage } from '../support/lies.ts'
import { LyingSystem, makeCanary } from '../support/lying-system.ts'
import { event, take } from '../support/test-system.ts'
import { lastMessage } from './scene.ts'

/** What a thief has of the only channel in a database. */
function steal(world: LyingSystem, name: string): { group: Group; rows: Map<number, RatchetRow> } {
  const { channels, identity } = world.stores.get(name)!.load()
  const { group, rows } = channels[0]!.epoch!
  const key = { publicKey: identity.publicKey, seed: identity.secretKey }
  return {
    group: engine.decodeGroup(group, key),
    rows: new Map([...rows].map(([leaf, row]) => [leaf, decodeRow(row)])),
  }
}

test('30 a database stolen after a skipped generation decrypts neither that message nor those already read', async (t) => {
  const world = LyingSystem.start(t)
  const alice = await world.agent('alice')
  const bob = await world.agent('bob', { disk: true })
  const { room, channels } = await world.channel([alice, bob])
  const canaries = [makeCanary(), makeCanary(), makeCanary()]
  const before = steal(world, 'bob')
  room.view(bob.agentId).lie = dropping(isMessage)
  const telling = event(bob, 'fork_detected')
  const sent: Uint8Array[] = []
  for (const canary of canaries.slice(0, 2)) {
    await channels[0]!.send(canary)
    sent.push(Uint8Array.from(lastMessage(room).ciphertext))
  }
  assert.deepEqual(await take(channels[1]!, 1), [canaries[1]])
  assert.equal((await telling).member, alice.agentId)
  await world.relay.read(room, bob.agentId)
  // What is settled leaves the disk with what is written next.
  await bob.generateKeyPackage()
  const { group, rows } = steal(world, 'bob')
  for (const ciphertext of sent) {
    // A control: what the database held before would have opened it.
    assert.ok(engine.open(before.group, before.rows, ciphertext, { steps: 1024 }))
    assert.throws(() => engine.open(group, rows, ciphertext, { steps: 1024 }), { code: 'decryption_failure' })
  }
  assert.deepEqual(world.stores.get('bob')!.inbox(channels[1]!.id, 0, 10), [])
  // What comes next it opens: no more than bob himself.
  channels[1]!.acceptFork()
  await channels[0]!.send(canaries[2]!)
  assert.deepEqual(await take(channels[1]!, 1), [canaries[2]])
  assert.ok(engine.open(group, rows, lastMessage(room).ciphertext, { steps: 1024 }))
  for (const canary of canaries) assert.equal(world.relay.sawPlaintext(canary), false)
})
