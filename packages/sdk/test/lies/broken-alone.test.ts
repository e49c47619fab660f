/** A channel whose state cannot be stored breaks alone: the agent and its other channels go on, and it can be left. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StaticClient } from '../../src/public/client.ts'
import type { Group } from '../../src/mls/index.ts'
import type { AgentParts } from '../../src/agent/agent.ts'
import { goOn, LyingSystem, RELAY } from '../support/lying-system.ts'
import { code, event, NAME, take } from '../support/test-system.ts'

const OTHER = 'acme/support/other'

/** An engine that cannot put the groups of some channels into bytes: as a stack that is too small. */
function poisoned({ engine }: AgentParts, channels: ReadonlySet<string>): AgentParts['engine'] {
  return {
    ...engine,
    encodeGroup: (group: Group) => {
      const id = Buffer.from(engine.facts(group).groupId).toString('hex')
      if (channels.has(id)) throw new RangeError('Maximum call stack size exceeded')
      return engine.encodeGroup(group)
    },
  }
}

for (const role of ['owner', 'member'] as const) {
  test(`a commit after which the ${role} cannot store the channel: its other channel continues`, async (t) => {
    const world = LyingSystem.start(t)
    const ids = new Set<string>()
    const parts = await world.parts('alice')
    const alice = await StaticClient.start({ ...parts, engine: poisoned(parts, ids) }, RELAY)
    t.after(() => alice.close())
    const [bob, carol] = await world.agents('bob', 'carol')
    const order = role === 'owner' ? [alice, bob, carol] : [bob, alice, carol]
    const { channels: first } = await world.channel(order)
    const { channels: second } = await world.channel(order, OTHER)
    const own = order.indexOf(alice)
    const sick = first[own]!
    const others = first.filter((channel) => channel !== sick)
    await goOn(...first)
    const failing = event(alice, 'channel_failed')
    ids.add(sick.id)
    // Both channels in one turn.
    await Promise.all([others[0]!.rotate(), second[order.indexOf(carol)]!.send('beside it')])
    const { channel, error } = await failing
    assert.deepEqual([channel, error.code], [NAME, 'mls_error'])
    assert.deepEqual(await take(second[own]!, 1), ['beside it'])
    await assert.rejects(sick.send('never'), code('mls_error'))
    await take(second[order.indexOf(bob)]!, 1)
    await goOn(...second)
    await goOn(...others)
    const { record } = world.stores
      .get('alice')!
      .load()
      .channels.find(({ record }) => record.id === sick.id)!
    assert.equal(record.broken, 'mls_error')
    if (role === 'owner') await sick.delete()
    else await sick.leave()
    const stored = world.stores.get('alice')!.load().channels
    assert.deepEqual(
      stored.map((channel) => channel.record.name),
      [OTHER],
    )
    await goOn(...second)
  })
}

test('a message that the disk cannot hold breaks only its channel, even after a restart', async (t) => {
  const world = LyingSystem.start(t)
  const ids = new Set<string>()
  const parts = await world.parts('bob', { disk: true })
  const { engine } = parts
  const bob = await StaticClient.start(
    {
      ...parts,
      engine: {
        ...engine,
        // As if nothing bounded it: the number is not exact.
        facts: (group) => {
          const facts = engine.facts(group)
          return ids.has(Buffer.from(facts.groupId).toString('hex')) ? { ...facts, epoch: 2n ** 60n } : facts
        },
      },
    },
    RELAY,
  )
  const alice = await world.agent('alice')
  const { channels: sick } = await world.channel([alice, bob])
  const { channels: sound } = await world.channel([alice, bob], OTHER)
  await goOn(...sick)
  ids.add(sick[0]!.id)
  // The facts of an epoch are read once.
  await sick[0]!.rotate()
  const failing = event(bob, 'channel_failed')
  await Promise.all([sick[0]!.send('too late'), sound[0]!.send('beside it')])
  const { channel, error } = await failing
  assert.deepEqual([channel, error.code], [NAME, 'mls_error'])
  assert.deepEqual(await take(sound[1]!, 1), ['beside it'])
  await goOn(...sound)
  await bob.close()
  const again = await world.agent('bob', { disk: true })
  await assert.rejects(again.channel(NAME).send('never'), code('mls_error'))
  await goOn(sound[0]!, again.channel(OTHER))
  await again.channel(NAME).leave()
})
