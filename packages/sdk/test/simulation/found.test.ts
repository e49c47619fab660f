/** What the simulation and reviewers have found, each as a story of its own. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { JoinRequest } from '@static/protocol/relay'
import { parseAgentId } from '../../src/public/fingerprint.ts'
import { code } from '../support/test-system.ts'
import { World } from '@static/testkit/world'
import { Betrayal } from './betrayal.ts'
import { NAME } from './cast.ts'
import { History } from './history.ts'
import { HONEST, refuse } from './middles.ts'
import type { Person } from './person.ts'
import { Scene } from './scene.ts'

test('two calls that join by the same token at the same time both join', async () => {
  await Scene.play(1, async (scene) => {
    const [joiner] = scene.others
    assert.ok(joiner)
    const token = await scene.call(scene.owner, (owner) => owner.invite(NAME))
    const joins = [0, 1].map(() => scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 20)))
    const [one, other] = await scene.end(Promise.all(joins))
    assert.equal(one, other)
    await scene.until('a join goes on', () => joiner.disk.contents.attempts.length === 0)
  })
})

test('two calls that join by two tokens at the same time make one request, and take one use', async () => {
  await Scene.play(1, async (scene) => {
    const [joiner] = scene.others
    assert.ok(joiner)
    const first = await scene.call(scene.owner, (owner) => owner.invite(NAME))
    const second = await scene.call(scene.owner, (owner) => owner.invite(NAME))
    const joins = [first, second].map((token) =>
      scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 20)),
    )
    await scene.until('not both are on disk', () => joiner.disk.contents.attempts.length === 2)
    const nonces = joiner.disk.contents.attempts.map(({ nonce }) => Buffer.from(nonce).toString('hex'))
    assert.equal(new Set(nonces).size, 1)
    await scene.end(Promise.all(joins))
    const invites = scene.owner.manager?.invites(NAME) ?? []
    assert.deepEqual(invites.map(({ uses }) => uses).sort(), [0, 1])
  })
})

test('an offer is accepted after the owner has removed and added the agent again: the later one counts', async () => {
  await Scene.play(1, async (scene) => {
    const { owner } = scene
    const [agent] = scene.others
    assert.ok(agent)
    const add = (): Promise<unknown> => scene.call(owner, ({ client }) => client.channel(NAME).addMember(agent.agentId))
    await add()
    await scene.until('no offer', () => agent.offers.length === 1)
    const [old] = agent.offers
    scene.cutOff(agent)
    await scene.call(owner, ({ client }) => client.channel(NAME).removeMember(agent.agentId))
    await add()
    const accepting = scene.begin(agent, () => old?.accept() ?? assert.fail())
    scene.network.isDown = false
    await assert.rejects(scene.end(accepting), code('invalid_welcome'))
    await scene.until('no second offer', () => agent.offers.length === 2)
    await scene.call(agent, () => agent.offers[1]?.accept() ?? assert.fail())
    await scene.call(owner, ({ client }) => client.channel(NAME).send('welcome'))
    agent.look()
    await scene.until('nothing was read', () => agent.read.length === 1)
    assert.equal(agent.channel(NAME)?.verify(), owner.channel(NAME)?.verify())
  })
})

test('a join ends soon after its invite has expired, although the owner does not come', async () => {
  await Scene.play(1, async (scene) => {
    const [joiner] = scene.others
    assert.ok(joiner)
    const token = await scene.call(scene.owner, (owner) => owner.invite(NAME, { ttl: 10 }))
    scene.owner.machine.kill('for good')
    const began = scene.world.now
    await assert.rejects(
      scene.call(joiner, (manager) => manager.joinWithToken(NAME, token, 60)),
      code('invite_expired'),
    )
    assert.ok(scene.world.now - began < 20_000)
    await scene.until('the join goes on', () => joiner.disk.contents.attempts.length === 0)
  })
})

test('an owner that is killed after it made an invite for members lets in the holder of the token', async () => {
  await Scene.play(1, async (scene) => {
    const { owner } = scene
    const [joiner] = scene.others
    assert.ok(joiner)
    const inviting = scene.begin(owner, (manager) => manager.invite(NAME, { admit: 'members' }))
    const killed = inviting.then((token) => {
      owner.machine.kill('with the token in hand')
      return token
    })
    const token = await scene.end(killed)
    await scene.start(owner)
    await scene.call(joiner, (manager) => manager.joinWithToken(NAME, token, 60))
  })
})

test('an agent that joins by an invite for members while an offer of the same channel arrives is not forgotten', async () => {
  await Scene.play(1, async (scene) => {
    const [joiner] = scene.others
    assert.ok(joiner)
    const token = await scene.call(scene.owner, (owner) => owner.invite(NAME, { admit: 'members' }))
    const { agentId } = joiner
    // On its way when the request is made.
    scene.cutOff(joiner)
    await scene.call(scene.owner, ({ client }) => client.channel(NAME).addMember(agentId))
    const joining = scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 60))
    scene.network.isDown = false
    await scene.end(joining)
    await scene.until('they differ', () => joiner.channel(NAME)?.verify() === scene.owner.channel(NAME)?.verify())
  })
})

test('an agent that joins by an invite and accepts an offer has joined, and stays when the owner comes back', async () => {
  await Scene.play(1, async (scene) => {
    const { owner } = scene
    const [joiner] = scene.others
    assert.ok(joiner)
    const { agentId } = joiner
    const token = await scene.call(owner, (manager) => manager.invite(NAME))
    await scene.call(owner, ({ client }) => client.channel(NAME).addMember(agentId))
    await scene.until('no offer', () => joiner.offers.length === 1)
    owner.machine.kill('before it is asked')
    const joining = scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 60))
    await scene.until('no request', () => joiner.disk.contents.attempts.length === 1)
    const accepted = await scene.call(joiner, () => joiner.offers[0]?.accept() ?? assert.fail())
    assert.equal(await scene.end(joining), accepted)
    await scene.start(owner)
    await scene.world.pass(60_000)
    assert.equal(joiner.recordOf(NAME)?.state, 'joined')
    assert.equal(joiner.channel(NAME)?.verify(), owner.channel(NAME)?.verify())
    assert.deepEqual(
      owner.manager?.invites(NAME).map(({ uses }) => uses),
      [0],
    )
  })
})

test('an offer that arrives while the agent leaves is made once it has left', async () => {
  await Scene.play(1, async (scene) => {
    const { owner } = scene
    const [agent] = scene.others
    assert.ok(agent)
    const add = (): Promise<unknown> => scene.call(owner, ({ client }) => client.channel(NAME).addMember(agent.agentId))
    await add()
    await scene.until('no offer', () => agent.offers.length === 1)
    await scene.call(agent, () => agent.offers[0]?.accept() ?? assert.fail())
    scene.cutOff(agent)
    const leaving = scene.begin(agent, ({ client }) => client.channel(NAME).leave())
    await scene.call(owner, ({ client }) => client.channel(NAME).removeMember(agent.agentId))
    await add()
    scene.network.isDown = false
    await scene.end(leaving)
    await scene.until('no second offer', () => agent.offers.length === 2)
    await scene.call(agent, () => agent.offers[1]?.accept() ?? assert.fail())
    // The Leave of the first membership has not ended the second.
    const roster = scene.relay.disk.roster(owner.recordOf(NAME)?.id ?? '')
    assert.deepEqual(roster.toSorted(), [owner.agentId, agent.agentId].toSorted())
    await scene.until('they differ', () => agent.channel(NAME)?.verify() === owner.channel(NAME)?.verify())
  })
})

test('a joiner that nobody could greet is greeted after its invite has ended', async () => {
  await Scene.play(1, async (scene) => {
    const { owner } = scene
    const [joiner] = scene.others
    assert.ok(joiner)
    const token = await scene.call(owner, (manager) => manager.invite(NAME, { ttl: 10 }))
    void scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 60))
    await scene.until('no hello', () => owner.disk.contents.joiners.some(({ state }) => state === 'here'))
    owner.machine.kill('before the greeting')
    joiner.machine.kill('before the greeting')
    await scene.start(owner)
    await scene.world.pass(200_000)
    assert.deepEqual(owner.manager?.invites(NAME), [])
    await scene.start(joiner)
    await scene.until('it is not greeted', () => joiner.recordOf(NAME)?.state === 'joined')
    assert.equal(joiner.disk.contents.attempts.length, 0)
  })
})

test('a member removed in the surviving one of two logs, which has read as much of the other, notices', async () => {
  await Scene.play(1, async (scene) => {
    const { owner, relay, network } = scene
    const [member] = scene.others
    assert.ok(member)
    const token = await scene.call(owner, (manager) => manager.invite(NAME))
    await scene.call(member, (manager) => manager.joinWithToken(NAME, token, 60))
    await scene.until('they differ', () => member.history(NAME).position.index === owner.history(NAME).position.index)
    const second = scene.fork(owner)
    // One entry in each of them.
    await scene.call(member, ({ client }) => client.channel(NAME).send('here'))
    await scene.call(owner, ({ client }) => client.channel(NAME).removeMember(member.agentId))
    network.doorOf = () => 0
    relay.rollBack(second.disk)
    await scene.until('it does not notice', () => member.recordOf(NAME)?.broken === 'relay_rolled_back')
  })
})

test('an agent that leaves while others have noticed a fork is removed once they accept it: seed 31 with a traitor', async () => {
  await World.live(31, (world) => new Betrayal(world).run())
})

test('an agent that is removed and added again while it leaves gets an offer: seed 497 with a traitor', async () => {
  await World.live(497, (world) => new Betrayal(world).run())
})

test('an agent that joins by two tokens and leaves at once is not added again by its earlier request', async () => {
  await Scene.play(2, async (scene) => {
    const { owner, world } = scene
    const [member, joiner] = scene.others
    assert.ok(member && joiner)
    const invite = (admit: 'owner' | 'members'): Promise<string> =>
      scene.call(owner, (manager) => manager.invite(NAME, { admit, maxUses: 9 }))
    const tokens = [await invite('owner'), await invite('members')]
    await scene.call(member, (manager) => manager.joinWithToken(NAME, tokens[0] ?? '', 60))
    await scene.until('no list', () => member.disk.contents.channels.some(({ inviteList }) => inviteList !== undefined))
    for (let round = 0; round < 3; round++) {
      // The member gets the second request, too, and waits whether the owner is faster.
      await scene.end(
        Promise.all(tokens.map((token) => scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 60)))),
      )
      await scene.call(joiner, ({ client }) => client.channel(NAME).leave())
      await world.pass(20_000)
      const members = owner.channel(NAME)?.members() ?? []
      assert.deepEqual(
        members.map(({ agentId }) => agentId).toSorted(),
        [owner.agentId, member.agentId].toSorted(),
        `round ${round}`,
      )
    }
  })
})

test('nor by a member that came after it: seed 482', async () => {
  await World.live(482, (world) => new History(world).run())
})

test('a member that claims to have seen another log does not keep a joiner out: seed 345 with a traitor', async () => {
  await World.live(345, (world) => new Betrayal(world).run())
})

test('an agent that leaves is not added again by a request that the relay had deferred', async () => {
  await Scene.play(1, async (scene) => {
    const { owner, network, world } = scene
    const [joiner] = scene.others
    assert.ok(joiner)
    const tokens = [
      await scene.call(owner, (one) => one.invite(NAME)),
      await scene.call(owner, (one) => one.invite(NAME)),
    ]
    let asked = 0
    network.middle = {
      ...HONEST,
      asked: (line, message) => {
        if (message.body.case !== 'requestJoin' || ++asked > 1) return [message]
        return refuse(line, message, 'rate_limited', 30_000)
      },
    }
    // Again, through the middle.
    network.cut(joiner.machine)
    const joins = tokens.map((token) => scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 60)))
    await scene.end(Promise.all(joins))
    assert.equal(asked, 2)
    await scene.call(joiner, ({ client }) => client.channel(NAME).leave())
    await world.pass(60_000)
    assert.equal(asked, 2)
    assert.equal(owner.channel(NAME)?.members().length, 1)
  })
})

test('a request that every session defers is made again once, not once for each session', async () => {
  await Scene.play(1, async (scene) => {
    const { owner, network, world } = scene
    const [joiner] = scene.others
    assert.ok(joiner)
    const token = await scene.call(owner, (one) => one.invite(NAME))
    let asked = 0
    network.middle = {
      ...HONEST,
      asked: (line, message) => {
        if (message.body.case !== 'requestJoin') return [message]
        asked++
        return refuse(line, message, 'rate_limited', 60_000)
      },
    }
    scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 600)).catch(() => {})
    for (let session = 1; session <= 4; session++) {
      network.cut(joiner.machine)
      await scene.until('it does not ask', () => asked === session)
      // The answer has arrived.
      await world.pass(1000)
    }
    await world.pass(90_000)
    assert.equal(asked, 5)
  })
})

test('a hello that the relay leaves unanswered is not joined by another one in each session', async () => {
  await Scene.play(1, async (scene) => {
    const { owner, network } = scene
    const [joiner] = scene.others
    assert.ok(joiner)
    const token = await scene.call(owner, (one) => one.invite(NAME))
    const hellos = new Set<string>()
    let isSilent = true
    let sent = 0
    network.middle = {
      ...HONEST,
      asked: (line, message) => {
        if (line.agent !== joiner.name || message.body.case !== 'sendMessage') return [message]
        hellos.add(Buffer.from(message.body.value.messageId).toString('hex'))
        sent++
        return isSilent ? [] : [message]
      },
    }
    network.cut(joiner.machine)
    const joining = scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 600))
    for (let session = 1; session <= 4; session++) {
      const before = sent
      await scene.until('no hello', () => sent > before)
      network.cut(joiner.machine)
    }
    isSilent = false
    await scene.end(joining)
    assert.equal(hellos.size, 1)
  })
})

test('an agent that was added in another way while its request was deferred, and leaves, is not added again', async () => {
  await Scene.play(1, async (scene) => {
    const { owner, network, world } = scene
    const [joiner] = scene.others
    assert.ok(joiner)
    const token = await scene.call(owner, (one) => one.invite(NAME))
    let asked = 0
    network.middle = {
      ...HONEST,
      asked: (line, message) => {
        if (message.body.case !== 'requestJoin' || ++asked > 1) return [message]
        return refuse(line, message, 'rate_limited', 300_000)
      },
    }
    network.cut(joiner.machine)
    await assert.rejects(
      scene.call(joiner, (manager) => manager.joinWithToken(NAME, token, 10)),
      code('join_timeout'),
    )
    await scene.call(owner, ({ client }) => client.channel(NAME).addMember(joiner.agentId))
    await scene.until('no offer', () => joiner.offers.length === 1)
    await scene.call(joiner, () => joiner.offers[0]?.accept() ?? assert.fail())
    await scene.call(joiner, ({ client }) => client.channel(NAME).leave())
    await world.pass(400_000)
    assert.equal(asked, 1)
    assert.equal(owner.channel(NAME)?.members().length, 1)
  })
})

test("an agent that asked while the owner was away, came by a member's offer and left stays out", async () => {
  await Scene.play(2, async (scene) => {
    const { owner, world } = scene
    const [member, joiner] = scene.others
    assert.ok(member && joiner)
    const token = await scene.call(owner, (one) => one.invite(NAME, { maxUses: 5 }))
    await scene.call(member, (manager) => manager.joinWithToken(NAME, token, 60))
    owner.machine.kill('for a while')
    await assert.rejects(
      scene.call(joiner, (manager) => manager.joinWithToken(NAME, token, 10)),
      code('join_timeout'),
    )
    await scene.call(member, ({ client }) => client.channel(NAME).addMember(joiner.agentId))
    await scene.until('no offer', () => joiner.offers.length === 1)
    await scene.call(joiner, () => joiner.offers[0]?.accept() ?? assert.fail())
    await scene.call(joiner, ({ client }) => client.channel(NAME).leave())
    await scene.start(owner)
    await world.pass(60_000)
    assert.equal(joiner.recordOf(NAME), undefined)
    assert.equal(member.channel(NAME)?.members().length, 2)
  })
})

test('an offer that cannot be accepted does not affect the join by token', async () => {
  await Scene.play(1, async (scene) => {
    const { owner, network } = scene
    const [joiner] = scene.others
    assert.ok(joiner)
    const token = await scene.call(owner, (one) => one.invite(NAME))
    const add = (): Promise<unknown> =>
      scene.call(owner, ({ client }) => client.channel(NAME).addMember(joiner.agentId))
    await add()
    await scene.until('no offer', () => joiner.offers.length === 1)
    scene.cutOff(joiner)
    await scene.call(owner, ({ client }) => client.channel(NAME).removeMember(joiner.agentId))
    await add()
    owner.machine.kill('before it is asked')
    const joining = scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 60))
    await scene.until('no request', () => joiner.disk.contents.attempts.length === 1)
    const accepting = scene.begin(joiner, () => joiner.offers[0]?.accept() ?? assert.fail())
    network.isDown = false
    await assert.rejects(scene.end(accepting), code('invalid_welcome'))
    await scene.start(owner)
    await scene.end(joining)
    await scene.until('they differ', () => joiner.channel(NAME)?.verify() === owner.channel(NAME)?.verify())
  })
})

test('an agent that accepts an offer while the owner acts on its request ends up a member', async () => {
  await Scene.play(1, async (scene) => {
    const { owner, network } = scene
    const [joiner] = scene.others
    assert.ok(joiner)
    const token = await scene.call(owner, (one) => one.invite(NAME))
    await scene.call(owner, ({ client }) => client.channel(NAME).addMember(joiner.agentId))
    await scene.until('no offer', () => joiner.offers.length === 1)
    let deferred = 0
    let isDeferring = true
    network.middle = {
      ...HONEST,
      asked: (line, message) => {
        if (message.body.case !== 'sendCommit' || !isDeferring) return [message]
        deferred++
        return refuse(line, message, 'rate_limited', 1000)
      },
    }
    network.cut(owner.machine)
    const joining = scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 60))
    await scene.until('not deferred', () => deferred === 1)
    await scene.call(joiner, () => joiner.offers[0]?.accept() ?? assert.fail())
    await scene.end(joining)
    // Also after a restart.
    joiner.machine.kill('and started again')
    await scene.start(joiner)
    isDeferring = false
    await scene.until('not added again', () => owner.manager?.invites(NAME)[0]?.uses === 1)
    await scene.until('a join goes on', () => joiner.disk.contents.attempts.length === 0)
    await scene.until('they differ', () => joiner.channel(NAME)?.verify() === owner.channel(NAME)?.verify())
    assert.equal(owner.channel(NAME)?.members().length, 2)
  })
})

test('an agent that joined by an offer and is removed does not come back by its earlier request', async () => {
  await Scene.play(2, async (scene) => {
    const { owner, network, world } = scene
    const [member, joiner] = scene.others
    assert.ok(member && joiner)
    const token = await scene.call(owner, (one) => one.invite(NAME, { maxUses: 5 }))
    await scene.call(member, (manager) => manager.joinWithToken(NAME, token, 60))
    let asked = 0
    network.middle = {
      ...HONEST,
      asked: (_line, message) => {
        if (message.body.case === 'requestJoin') asked++
        return [message]
      },
    }
    network.cut(joiner.machine)
    owner.machine.kill('for a while')
    const joining = scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 60))
    await scene.until('not asked', () => asked === 1)
    await scene.call(member, ({ client }) => client.channel(NAME).addMember(joiner.agentId))
    await scene.until('no offer', () => joiner.offers.length === 1)
    await scene.call(joiner, () => joiner.offers[0]?.accept() ?? assert.fail())
    await scene.end(joining)
    await scene.start(owner)
    await world.pass(60_000)
    await scene.call(member, ({ client }) => client.channel(NAME).send('unread'))
    await scene.call(owner, ({ client }) => client.channel(NAME).removeMember(joiner.agentId))
    await scene.until('not told', () => joiner.recordOf(NAME)?.state === 'ended')
    // What it has not read yet stays.
    joiner.look()
    await scene.until('nothing was read', () => joiner.read.length === 1)
    joiner.machine.kill('at once')
    await scene.start(joiner)
    await world.pass(60_000)
    assert.equal(asked, 1)
    assert.equal(owner.channel(NAME)?.members().length, 2)
    assert.deepEqual(joiner.disk.contents.attempts, [])
  })
})

for (const cause of ['it is killed before the Welcome', 'the commit is refused for now'] as const) {
  test(`an agent that has left asks again, and ${cause}: it joins with the same request`, async () => {
    await Scene.play(1, async (scene) => {
      const { owner, network } = scene
      const [joiner] = scene.others
      assert.ok(joiner)
      const token = await scene.call(owner, (one) => one.invite(NAME, { maxUses: 9, ttl: 86_400 }))
      await scene.call(joiner, (manager) => manager.joinWithToken(NAME, token, 60))
      await scene.call(joiner, ({ client }) => client.channel(NAME).leave())
      await scene.until('still there', () => owner.channel(NAME)?.members().length === 1)
      const isKilled = cause === 'it is killed before the Welcome'
      let lost = 0
      network.middle = {
        ...HONEST,
        asked: (line, message) => {
          const isAdd = message.body.case === 'sendCommit' && message.body.value.welcomes.length > 0
          if (isKilled || !isAdd || lost++ > 0) return [message]
          return refuse(line, message, 'quota_exceeded')
        },
        said: (_line, message) => (isKilled && message.body.case === 'deliverWelcome' && lost++ === 0 ? [] : [message]),
      }
      network.cut(isKilled ? joiner.machine : owner.machine)
      const joining = scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 120))
      if (isKilled) {
        joining.catch(() => {})
        await scene.until('not added', () => lost === 1)
        joiner.machine.kill('before the Welcome')
        await scene.until('not removed', () => owner.channel(NAME)?.members().length === 1)
        await scene.start(joiner)
        await scene.call(joiner, (manager) => manager.joinWithToken(NAME, token, 120))
      } else await scene.end(joining)
      assert.ok(lost > 0)
      assert.equal(owner.channel(NAME)?.members().length, 2)
    })
  })
}

test('an agent that asked by two tokens and was removed as silent asks by both with one request again, and stays', async () => {
  await Scene.play(1, async (scene) => {
    const { owner, network, world } = scene
    const [joiner] = scene.others
    assert.ok(joiner)
    const tokens = [
      await scene.call(owner, (one) => one.invite(NAME, { maxUses: 9 })),
      await scene.call(owner, (one) => one.invite(NAME, { maxUses: 9 })),
    ]
    let isDeaf = true
    network.middle = {
      ...HONEST,
      asked: (_line, message) => (message.body.case === 'sendMessage' && isDeaf ? [] : [message]),
    }
    network.cut(joiner.machine)
    const joins = tokens.map((token) => scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 280)))
    await scene.until('not joining', () => joiner.recordOf(NAME)?.state === 'joining')
    // Its hello gets lost, and it is offline until the owner has given it up.
    network.isDown = true
    network.cut(joiner.machine)
    await scene.until('not removed', () => owner.channel(NAME)?.members().length === 1)
    isDeaf = false
    network.isDown = false
    await scene.end(Promise.all(joins))
    // The owner tries again what it has not decided.
    await world.pass(60_000)
    assert.equal(joiner.recordOf(NAME)?.state, 'joined')
    assert.equal(joiner.recordOf(NAME)?.broken, undefined)
    assert.equal(owner.channel(NAME)?.members().length, 2)
    const uses = owner.manager?.invites(NAME).map((invite) => invite.uses) ?? []
    assert.deepEqual(uses.toSorted(), [0, 1])
  })
})

for (const isRestarted of [false, true]) {
  const when = isRestarted ? ', also after a restart' : ''
  test(`the owner does not act on a request to members of one that came by another token and left${when}`, async () => {
    await Scene.play(1, async (scene) => {
      const { owner, network, world } = scene
      const [joiner] = scene.others
      assert.ok(joiner)
      let kept: JoinRequest | undefined
      let forMembers = ''
      let replays = 0
      network.middle = {
        ...HONEST,
        said: (line, message) => {
          if (line.agent !== 'owner' || message.body.case !== 'pollJoinRequests') return [message]
          const { value } = message.body
          const isMeant = ({ inviteId }: JoinRequest): boolean => Buffer.from(inviteId).toString('hex') === forMembers
          kept ??= value.requests.find(isMeant)
          value.requests = value.requests.filter((each) => !isMeant(each))
          if (kept && replays > 0) {
            value.requests.push(kept)
            replays--
          }
          return [message]
        },
      }
      network.cut(owner.machine)
      const tokens = [
        await scene.call(owner, (one) => one.invite(NAME)),
        await scene.call(owner, (one) => one.invite(NAME, { admit: 'members' })),
      ]
      forMembers = owner.manager?.invites(NAME).find(({ admit }) => admit === 'members')?.id ?? assert.fail()
      const joins = tokens.map((token) => scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 60)))
      await scene.end(Promise.all(joins))
      await scene.until('it was not given', () => kept !== undefined)
      await scene.call(joiner, ({ client }) => client.channel(NAME).leave())
      await scene.until('it has not left', () => owner.channel(NAME)?.members().length === 1)
      if (isRestarted) {
        owner.machine.kill('and started again')
        await scene.start(owner)
      }
      replays = 1
      await world.pass(120_000)
      assert.equal(replays, 0)
      assert.equal(owner.channel(NAME)?.members().length, 1)
    })
  })
}

test('an agent that is added by hand between the claim and the commit of its join takes one use of the invite', async () => {
  await Scene.play(1, async (scene) => {
    const { owner } = scene
    const [joiner] = scene.others
    assert.ok(joiner)
    const token = await scene.call(owner, (manager) => manager.invite(NAME, { admit: 'members', maxUses: 2 }))
    const keyPackage = await scene.call(joiner, ({ client }) => client.generateKeyPackage())
    const joining = scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 60))
    await scene.until('no claim', () => owner.disk.contents.channels.some(({ claims }) => claims.length > 0))
    const adding = scene.begin(owner, ({ client }) => client.channel(NAME).addMember(keyPackage))
    await assert.rejects(scene.end(adding), code('invalid_request'))
    await scene.end(joining)
    const uses = owner.manager?.invites(NAME).map((invite) => invite.uses)
    assert.deepEqual(uses, [1])
  })
})

test('the same after the owner has died between them', async () => {
  await Scene.play(1, async (scene) => {
    const { owner } = scene
    const [joiner] = scene.others
    assert.ok(joiner)
    const token = await scene.call(owner, (manager) => manager.invite(NAME, { admit: 'members', maxUses: 2 }))
    const keyPackage = await scene.call(joiner, ({ client }) => client.generateKeyPackage())
    const joining = scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 60))
    await scene.until('no claim', () => owner.disk.contents.channels.some(({ claims }) => claims.length > 0))
    owner.machine.kill('between a claim and its commit')
    await scene.start(owner)
    await scene.call(owner, ({ client }) => client.channel(NAME).addMember(keyPackage))
    await scene.end(joining)
    const uses = owner.manager?.invites(NAME).map((invite) => invite.uses)
    assert.deepEqual(uses, [1])
  })
})

test('one join takes one use, whatever the owner does at the same time: seed 2039', async () => {
  await World.live(2039, (world) => new History(world).run())
})

test('an agent that was removed before its hello, and is added by hand, stays', async () => {
  await Scene.play(1, async (scene) => {
    const { owner, world } = scene
    const [joiner] = scene.others
    assert.ok(joiner)
    const token = await scene.call(owner, (manager) => manager.invite(NAME))
    const joining = scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 60))
    await scene.until('not added', () => owner.disk.contents.joiners.some(({ state }) => state === 'added'))
    await scene.call(owner, ({ client }) => client.channel(NAME).removeMember(joiner.agentId))
    await assert.rejects(scene.end(joining), code('invite_revoked'))
    await scene.call(owner, ({ client }) => client.channel(NAME).addMember(joiner.agentId))
    await scene.until('no offer', () => joiner.offers.length === 1)
    // Longer than the owner waits for the hello of a joiner.
    await world.pass(120_000)
    assert.equal(owner.channel(NAME)?.members().length, 2)
  })
})

test('the same in a history of its own: seed 327', async () => {
  await World.live(327, (world) => new History(world).run())
})

test('a join ends although its invite is revoked while the relay stores its request: seed 1440', async () => {
  await World.live(1440, (world) => new History(world).run())
})

/** Somebody joins, and speaks, so that the channel may be handed to it. */
async function enter(scene: Scene, person: Person, token: string): Promise<void> {
  await scene.call(person, (manager) => manager.joinWithToken(NAME, token, 60))
  await scene.call(person, ({ client }) => client.channel(NAME).send('here'))
}

async function standsBy(scene: Scene, owner: Person, standby: Person): Promise<void> {
  await scene.call(owner, ({ client }) => client.channel(NAME).setStandby(standby.agentId))
  await scene.until('not named', () => standby.channel(NAME)?.standby?.agentId === standby.agentId)
}

test('a member that leaves and joins again, and takes the channel over meanwhile, stays in it', async () => {
  await Scene.play(1, async (scene) => {
    const { owner, network } = scene
    const [standby] = scene.others
    assert.ok(standby)
    const token = await scene.call(owner, (manager) => manager.invite(NAME))
    await enter(scene, standby, token)
    await standsBy(scene, owner, standby)
    let mismatches = 0
    network.middle = {
      ...HONEST,
      asked: (line, message) => {
        if (message.body.case !== 'leave' || mismatches++ > 0) return [message]
        return refuse(line, message, 'epoch_mismatch', 0, { head: message.body.value.notice?.slot ?? 0n })
      },
    }
    network.cut(standby.machine)
    await scene.call(standby, ({ client }) => client.channel(NAME).catchUp())
    const leaving = scene.begin(standby, ({ client }) => client.channel(NAME).leave())
    const taking = scene.begin(standby, ({ client }) => client.channel(NAME).takeOver())
    const joining = scene.begin(standby, (manager) => manager.joinWithToken(NAME, token, 60))
    joining.catch(() => {})
    await assert.rejects(scene.end(leaving), code('not_allowed'))
    await scene.end(taking)
    const joined = await scene.end(joining)
    assert.equal(parseAgentId(joined.owner), standby.agentId)
  })
})

test('a member by an offer joins by a token of the owner that then takes the channel over', async () => {
  await Scene.play(2, async (scene) => {
    const { owner, network } = scene
    const [joiner, other] = scene.others
    assert.ok(joiner && other)
    const token = await scene.call(owner, (manager) => manager.invite(NAME))
    await enter(scene, other, await scene.call(owner, (manager) => manager.invite(NAME)))
    await standsBy(scene, owner, other)
    await scene.call(other, ({ client }) => client.channel(NAME).takeOver())
    await scene.call(owner, ({ client }) => client.channel(NAME).send('still here'))
    await scene.call(other, ({ client }) => client.channel(NAME).addMember(joiner.agentId))
    // The relay no longer knows the token. That it says so is lost.
    network.middle = { ...HONEST, asked: (_, message) => (message.body.case === 'requestJoin' ? [] : [message]) }
    network.cut(joiner.machine)
    await scene.until('no offer', () => joiner.offers.length === 1)
    await standsBy(scene, other, owner)
    await scene.call(owner, ({ client }) => client.channel(NAME).takeOver())
    const accepting = scene.begin(joiner, () => joiner.offers[0]?.accept() ?? assert.fail())
    const joining = scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 60))
    const [accepted, joined] = await scene.end(Promise.all([accepting, joining]))
    assert.equal(joined, accepted)
    await scene.until('not followed', () => parseAgentId(joined.owner) === owner.agentId)
  })
})
