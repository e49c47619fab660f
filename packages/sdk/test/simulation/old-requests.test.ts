/** Requests to join that are older than what became of them: the relay has them still, or shows them on purpose. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { type JoinRequest, JoinRequestSchema } from '@static/protocol/relay'
import { NAME } from './cast.ts'
import { HONEST, refuse } from './middles.ts'
import { Scene } from './scene.ts'

for (const isRotated of [false, true]) {
  test(`an agent that asks by two tokens and is let in by a member stays when the owner comes${isRotated ? ', even if it has replaced its keys' : ''}`, async () => {
    await Scene.play(2, async (scene) => {
      const { owner, world } = scene
      const [member, joiner] = scene.others
      assert.ok(member && joiner)
      const tokens = {
        members: await scene.call(owner, (one) => one.invite(NAME, { admit: 'members', maxUses: 9 })),
        owner: await scene.call(owner, (one) => one.invite(NAME, { maxUses: 9 })),
      }
      await scene.call(member, (manager) => manager.joinWithToken(NAME, tokens.members, 60))
      owner.machine.kill('for a while')
      const joins = (['members', 'owner'] as const).map((kind) =>
        scene.begin(joiner, (manager) => manager.joinWithToken(NAME, tokens[kind], 60)),
      )
      await scene.end(Promise.all(joins))
      await scene.call(joiner, ({ client }) => client.channel(NAME).send('I am here'))
      if (isRotated) await scene.call(joiner, ({ client }) => client.channel(NAME).rotate())
      let polls = 0
      scene.network.middle = {
        ...HONEST,
        asked: (line, message) => {
          if (line.agent !== 'owner' || message.body.case !== 'pollJoinRequests' || ++polls > 1) return [message]
          // So the owner has read the log when it hears of the request.
          return refuse(line, message, 'rate_limited', 3000)
        },
      }
      await scene.start(owner)
      await world.pass(120_000)
      assert.equal(joiner.recordOf(NAME)?.state, 'joined')
      assert.equal(owner.channel(NAME)?.members().length, 3)
    })
  })
}

for (const deferredAt of [1, 2]) {
  test(`an agent that asked by two tokens and was removed as silent stays, although request ${deferredAt} is deferred`, async () => {
    await Scene.play(1, async (scene) => {
      const { owner, network, world } = scene
      const [joiner] = scene.others
      assert.ok(joiner)
      const tokens = [
        await scene.call(owner, (one) => one.invite(NAME, { maxUses: 9 })),
        await scene.call(owner, (one) => one.invite(NAME, { maxUses: 9 })),
      ]
      let isDeaf = true
      let asked = 0
      network.middle = {
        ...HONEST,
        asked: (line, message) => {
          if (message.body.case === 'requestJoin' && !isDeaf && ++asked === deferredAt) {
            return refuse(line, message, 'rate_limited', 40_000)
          }
          return message.body.case === 'sendMessage' && isDeaf ? [] : [message]
        },
      }
      network.cut(joiner.machine)
      const joins = tokens.map((token) => scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 280)))
      await scene.until('not joining', () => joiner.recordOf(NAME)?.state === 'joining')
      network.isDown = true
      network.cut(joiner.machine)
      await scene.until('not removed', () => owner.channel(NAME)?.members().length === 1)
      isDeaf = false
      network.isDown = false
      await scene.end(Promise.all(joins))
      let isOut = false
      for (let second = 0; second < 120; second++) {
        await world.pass(1000)
        isOut ||= joiner.recordOf(NAME)?.state !== 'joined'
      }
      assert.equal(isOut, false, 'it was put out after it had joined')
      assert.equal(joiner.recordOf(NAME)?.state, 'joined')
      assert.equal(owner.channel(NAME)?.members().length, 2)
    })
  })
}

for (const admit of ['owner', 'members'] as const) {
  test(`a relay cannot put a member out with an earlier request of its own (${admit})`, async () => {
    await Scene.play(1, async (scene) => {
      const { owner, network, world } = scene
      const [joiner] = scene.others
      assert.ok(joiner)
      let kept: JoinRequest | undefined
      let replays = 0
      network.middle = {
        ...HONEST,
        asked: (line, message) => {
          if (message.body.case !== 'requestJoin' || kept) return [message]
          const { inviteId, box } = message.body.value
          kept = create(JoinRequestSchema, { inviteId, box, agentId: Buffer.from(joiner.agentId, 'hex'), number: 1n })
          return refuse(line, message, 'invite_invalid')
        },
        said: (line, message) => {
          if (line.agent !== 'owner' || message.body.case !== 'pollJoinRequests' || !kept || replays === 0)
            return [message]
          const { value } = message.body
          value.requests.push({ ...kept, number: value.last + 1n })
          replays--
          return [message]
        },
      }
      network.cut(owner.machine)
      network.cut(joiner.machine)
      const token = await scene.call(owner, (one) => one.invite(NAME, { admit, maxUses: 9 }))
      await assert.rejects(scene.call(joiner, (manager) => manager.joinWithToken(NAME, token, 60)))
      await scene.call(joiner, (manager) => manager.joinWithToken(NAME, token, 60))
      await scene.call(joiner, ({ client }) => client.channel(NAME).send('I am here'))
      replays = 1
      await world.pass(120_000)
      assert.equal(replays, 0)
      assert.equal(joiner.recordOf(NAME)?.state, 'joined')
      assert.equal(owner.channel(NAME)?.members().length, 2)
    })
  })
}

test('a joiner whose two requests a relay has shown in the wrong order joins once the relay is honest', async () => {
  await Scene.play(1, async (scene) => {
    const { owner, network, world } = scene
    const [joiner] = scene.others
    assert.ok(joiner)
    let kept: JoinRequest | undefined
    let replays = 0
    let lost = 0
    network.middle = {
      ...HONEST,
      asked: (line, message) => {
        if (message.body.case !== 'requestJoin' || kept) return [message]
        const { inviteId, box } = message.body.value
        kept = create(JoinRequestSchema, { inviteId, box, agentId: Buffer.from(joiner.agentId, 'hex'), number: 1n })
        return refuse(line, message, 'invite_invalid')
      },
      said: (line, message) => {
        if (line.agent === joiner.name && message.body.case === 'deliverWelcome') {
          lost++
          return []
        }
        if (line.agent !== 'owner' || message.body.case !== 'pollJoinRequests' || !kept || replays === 0)
          return [message]
        const { value } = message.body
        value.requests.push({ ...kept, number: value.last + 1n })
        replays--
        return [message]
      },
    }
    network.cut(owner.machine)
    network.cut(joiner.machine)
    const token = await scene.call(owner, (one) => one.invite(NAME, { maxUses: 9, ttl: 86_400 }))
    await assert.rejects(scene.call(joiner, (manager) => manager.joinWithToken(NAME, token, 60)))
    scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 30)).catch(() => undefined)
    await scene.until('not added', () => lost === 1)
    replays = 1
    await scene.until('not shown', () => replays === 0)
    await world.pass(5000)
    // From now on the relay is honest.
    network.middle = undefined
    network.cut(joiner.machine)
    network.cut(owner.machine)
    for (let hour = 0; hour < 6 && !joiner.channel(NAME); hour++) {
      await scene.call(joiner, (manager) => manager.joinWithToken(NAME, token, 120)).catch(() => undefined)
      if (hour === 2) {
        joiner.machine.kill('and started again')
        await scene.start(joiner)
      }
    }
    const other = await scene.call(owner, (one) => one.invite(NAME, { maxUses: 9, ttl: 86_400 }))
    if (!joiner.channel(NAME))
      await scene
        .call(joiner, (manager) => manager.joinWithToken(NAME, other, 120))
        .catch((error) => world.tell(`another token: ${error.code}`))
    assert.ok(joiner.channel(NAME), 'it is still out, also with another token')
  })
})
