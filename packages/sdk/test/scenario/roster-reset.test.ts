/** The owner sets the relay's roster right when a member has bent it by commits that everybody left out. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { Agent as RawAgent, makeKey } from '@static/testkit/agent'
import { Mallory } from '../support/mallory.ts'
import { code, event, NAME, take, TestSystem, waysFor } from '../support/test-system.ts'

for (const way of waysFor('grpc')) {
  test(`phantoms are off the roster after the owner resets it, and the channel continues, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way, {
      settings: { rates: { commitsPerSecond: 1000, guestCommitsPerSecond: 1000, channelCommitsPerSecond: 1000 } },
    })
    const mallory = await Mallory.connect(world)
    const [alice, bob] = [await world.agent('alice'), await world.agent('bob')]
    const owner = await alice.createChannel(NAME)
    const own = await mallory.mls.keyPackage()
    const [forBob, forMallory] = await owner.addMembers([await bob.generateKeyPackage(), own.keyPackage])
    const joined = await bob.joinChannel(NAME, forBob!)
    await mallory.join(Buffer.from(owner.id, 'hex'), forMallory!, own)

    await joined.rotate()
    const { channels: standings } = await mallory.raw.request('resume', { channelIds: [mallory.channelId] })
    const { head: slot = 0n } = standings[0] ?? {}

    // Everybody leaves it out, but the relay's roster has a member more.
    const skipped = event(alice, 'commit_skipped')
    const [phantom, channelId] = [makeKey(), mallory.channelId]
    const place = { channelId, slot, messageId: randomBytes(16), commit: randomBytes(200) }
    const declaration = mallory.raw.declaration(place, { adds: [phantom.id] })
    const welcomes = [{ agentId: phantom.id, welcome: randomBytes(100) }]
    await mallory.raw.request('sendCommit', { ...place, declaration, welcomes })
    await skipped

    await assert.rejects(joined.resetRoster(), code('not_allowed'))
    await owner.resetRoster()
    const ghost = await RawAgent.connect(world.relay.wire(), { key: phantom })
    const { channels } = await ghost.request('resume', { channelIds: [channelId] })
    assert.equal(channels[0]?.error?.code, 'not_found')
    assert.deepEqual(
      owner
        .members()
        .map(({ agentId }) => agentId)
        .sort(),
      [alice.agentId, bob.agentId, Buffer.from(mallory.mls.agentId).toString('hex')].sort(),
    )
    await joined.send('still here')
    assert.deepEqual(await take(owner, 1), ['still here'])
    await owner.send('so am I')
    assert.deepEqual(await take(joined, 1), ['so am I'])
    await owner.removeMember(bob.agentId)
  })
}
