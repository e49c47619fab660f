/** Joins by token whose joiner is kept from its next step for a while, each as a story of its own. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { clone } from '@bufbuild/protobuf'
import { type ClientMessage, type ServerMessage, ServerMessageSchema } from '@static/protocol/relay'
import type { MiddleLine } from '@static/testkit/world/middle'
import { World } from '@static/testkit/world'
import { NAME } from './cast.ts'
import { History } from './history.ts'
import { HONEST, refuse, refusing } from './middles.ts'
import { Scene } from './scene.ts'

/** How often an agent makes a request that the relay defers. */
const TRIES = 10

/** Whether a request asks where a channel begins. */
function isResume({ body }: ClientMessage): boolean {
  return body.case === 'resume' && body.value.channelIds.length > 0
}

for (const end of ['it is over', 'the joiner is killed'] as const) {
  test(`a joiner that the relay has no time for when it enters uses its Welcome when ${end}`, async () => {
    await Scene.play(1, async (scene) => {
      const { owner, network, world } = scene
      const [joiner] = scene.others
      assert.ok(joiner)
      const token = await scene.call(owner, (one) => one.invite(NAME, { admit: 'members', maxUses: 9 }))
      let refused = 0
      let isBusy = true
      network.middle = refusing('unavailable', (line, message) => {
        const isIt = isBusy && line.agent === joiner.name && isResume(message)
        if (isIt) refused++
        return isIt
      })
      network.cut(joiner.machine)
      const join = (): Promise<unknown> => scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 60))
      const joining = join()
      // The joiner gives up the first try.
      await scene.until('it does not enter', () => refused > 10)
      if (end === 'it is over') {
        isBusy = false
        await scene.end(joining)
      } else {
        joining.catch(() => {})
        joiner.machine.kill('while it waits')
        isBusy = false
        await scene.start(joiner)
        await scene.end(join())
      }
      await world.pass(1000)
      assert.equal(joiner.recordOf(NAME)?.state, 'joined')
      assert.equal(owner.manager?.invites(NAME)[0]?.uses, 1)
    })
  })
}

test('a joiner that the relay does not let in tries 17 times in a session, and again in the next one', async () => {
  await Scene.play(1, async (scene) => {
    const { owner, network, world } = scene
    const [joiner] = scene.others
    assert.ok(joiner)
    const token = await scene.call(owner, (one) => one.invite(NAME, { admit: 'members' }))
    let refused = 0
    network.middle = refusing('not_allowed', (line, message) => {
      const isIt = line.agent === joiner.name && isResume(message)
      if (isIt) refused++
      return isIt
    })
    network.cut(joiner.machine)
    scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 60)).catch(() => {})
    await world.pass(7200_000)
    assert.equal(refused, 17)
    network.middle = undefined
    network.cut(joiner.machine)
    await scene.until('it does not enter', () => joiner.recordOf(NAME)?.state === 'joined')
    await scene.until('they differ', () => joiner.channel(NAME)?.verify() === owner.channel(NAME)?.verify())
  })
})

test('an agent that accepts an offer while the owner acts on its request, and is then offline, ends up a member', async () => {
  await Scene.play(1, async (scene) => {
    const { owner, network, world } = scene
    const [joiner] = scene.others
    assert.ok(joiner)
    const token = await scene.call(owner, (one) => one.invite(NAME))
    await scene.call(owner, ({ client }) => client.channel(NAME).addMember(joiner.agentId))
    await scene.until('no offer', () => joiner.offers.length === 1)
    let deferred = 0
    let isDeferring = true
    let lost = 0
    network.middle = {
      ...refusing('rate_limited', (_line, message) => {
        const isIt = message.body.case === 'sendCommit' && isDeferring
        if (isIt) deferred++
        return isIt
      }),
      // Its line breaks with the first Welcome on it.
      said: (line, message) => {
        const isIt = line.agent === joiner.name && message.body.case === 'deliverWelcome'
        return isIt && lost++ === 0 ? [] : [message]
      },
    }
    network.cut(owner.machine)
    network.cut(joiner.machine)
    const joining = scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 60))
    await scene.until('not deferred', () => deferred === 1)
    await scene.call(joiner, () => joiner.offers[0]?.accept() ?? assert.fail())
    await scene.end(joining)
    isDeferring = false
    await scene.until('no Welcome', () => lost === 1)
    await scene.until('not out', () => joiner.recordOf(NAME) === undefined)
    scene.cutOff(joiner)
    await world.pass(30_000)
    network.isDown = false
    await scene.until('they differ', () => joiner.channel(NAME)?.verify() === owner.channel(NAME)?.verify())
    await scene.until('a join goes on', () => joiner.disk.contents.attempts.length === 0)
    assert.equal(owner.channel(NAME)?.members().length, 2)
  })
})

test('a hello that the relay refuses, because the channel is full, is said again', async () => {
  await Scene.play(1, async (scene) => {
    const { owner, network } = scene
    const [joiner] = scene.others
    assert.ok(joiner)
    const token = await scene.call(owner, (one) => one.invite(NAME, { admit: 'members' }))
    let said = 0
    network.middle = refusing('queue_full', (line, message) => {
      const isIt = line.agent === joiner.name && message.body.case === 'sendMessage'
      return isIt && said++ < 3
    })
    network.cut(joiner.machine)
    await scene.call(joiner, (manager) => manager.joinWithToken(NAME, token, 60))
    assert.equal(said, 4)
  })
})

test('a joiner with two tokens that a member keeps out is let in once the owner is online', async () => {
  await Scene.play(2, async (scene) => {
    const { owner, network, world } = scene
    const [member, joiner] = scene.others
    assert.ok(member && joiner)
    const shared = await scene.call(owner, (one) => one.invite(NAME, { admit: 'members', maxUses: 9 }))
    const own = await scene.call(owner, (one) => one.invite(NAME))
    await scene.call(member, (manager) => manager.joinWithToken(NAME, shared, 60))
    owner.machine.kill('for a while')
    let spoilt = 0
    network.middle = {
      ...HONEST,
      asked: (line, message) => {
        if (line.agent !== member.name || message.body.case !== 'sendCommit') return [message]
        for (const welcome of message.body.value.welcomes) {
          welcome.inviteId = new Uint8Array()
          welcome.tag = new Uint8Array()
          spoilt++
        }
        return [message]
      },
    }
    network.cut(member.machine)
    const join = (token: string): Promise<unknown> =>
      scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 60))
    // The owner's token is the first of the two that share a request.
    join(own).catch(() => {})
    await scene.until('not asked', () => joiner.disk.contents.attempts.length === 1)
    const joining = join(shared).catch(() => {})
    await scene.until('not added', () => spoilt === 1)
    await scene.end(joining)
    network.middle = undefined
    await scene.start(owner)
    await world.pass(60_000)
    await scene.end(join(shared))
    await scene.until('they differ', () => joiner.channel(NAME)?.verify() === owner.channel(NAME)?.verify())
  })
})

test('an agent that is removed and added by one commit, and killed before it has entered, gets its Welcome again', async () => {
  await Scene.play(1, async (scene) => {
    const { owner, network, world } = scene
    const [joiner] = scene.others
    assert.ok(joiner)
    const token = await scene.call(owner, (one) => one.invite(NAME))
    await scene.call(owner, ({ client }) => client.channel(NAME).addMember(joiner.agentId))
    await scene.until('no offer', () => joiner.offers.length === 1)
    let deferred = 0
    let isDeferring = true
    let told = 0
    let held = 0
    let isHolding = true
    network.middle = {
      ...HONEST,
      asked: (line, message) => {
        if (message.body.case === 'sendCommit' && isDeferring) {
          deferred++
          return refuse(line, message, 'rate_limited', 1000)
        }
        if (line.agent === joiner.name && message.body.case === 'resume' && told > 0 && isHolding) {
          held++
          return []
        }
        return [message]
      },
      said: (line, message) => {
        if (line.agent === joiner.name && message.body.case === 'deliverWelcome') told++
        return [message]
      },
    }
    network.cut(owner.machine)
    network.cut(joiner.machine)
    const joining = scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 60))
    await scene.until('not deferred', () => deferred === 1)
    await scene.call(joiner, () => joiner.offers[0]?.accept() ?? assert.fail())
    await scene.end(joining)
    isDeferring = false
    await scene.until('no Welcome', () => told === 1)
    await scene.until('not held', () => held === 1)
    await world.pass(300)
    joiner.machine.kill('while it enters')
    isHolding = false
    await scene.start(joiner)
    await scene.until('they differ', () => joiner.channel(NAME)?.verify() === owner.channel(NAME)?.verify())
  })
})

test('an agent that was added by a token that has expired since joins by its other token', async () => {
  await Scene.play(1, async (scene) => {
    const { owner, world } = scene
    const [joiner] = scene.others
    assert.ok(joiner)
    const short = await scene.call(owner, (one) => one.invite(NAME, { ttl: 10 }))
    const long = await scene.call(owner, (one) => one.invite(NAME, { admit: 'members' }))
    for (const token of [short, long])
      scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 60)).catch(() => {})
    await scene.until('it was not added', () => owner.disk.contents.joiners.some(({ state }) => state === 'added'))
    assert.equal(joiner.disk.contents.attempts.length, 2)
    joiner.machine.kill('before its Welcome comes')
    await world.pass(15_000)
    await scene.start(joiner)
    await scene.until('it is out', () => joiner.recordOf(NAME)?.state === 'joined')
    assert.equal(joiner.disk.contents.attempts.length, 0)
  })
})

test('the same in a history of its own: seed 1626', async () => {
  await World.live(1626, (world) => new History(world).run())
})

test('requests from before an accepted offer end when the next offer is declined', async () => {
  await Scene.play(1, async (scene) => {
    const { owner } = scene
    const [joiner] = scene.others
    assert.ok(joiner)
    const { agentId } = joiner
    const token = await scene.call(owner, (one) => one.invite(NAME))
    await scene.call(owner, ({ client }) => client.channel(NAME).addMember(agentId))
    await scene.until('no offer', () => joiner.offers.length === 1)
    owner.machine.kill('before it is asked')
    const joining = scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 60))
    await scene.until('no request', () => joiner.disk.contents.attempts.length === 1)
    await scene.call(joiner, () => joiner.offers[0]?.accept() ?? assert.fail())
    await scene.end(joining)
    await scene.start(owner)
    await scene.call(owner, ({ client }) => client.channel(NAME).removeMember(agentId))
    await scene.call(owner, ({ client }) => client.channel(NAME).addMember(agentId))
    await scene.until('no second offer', () => joiner.offers.length === 2)
    await scene.world.pass(60_000)
    await scene.call(joiner, () => joiner.offers[1]?.decline() ?? assert.fail())
    await scene.until('the join goes on', () => joiner.disk.contents.attempts.length === 0)
  })
})

test('a joiner that has entered repeats its hello although a spoilt copy of its Welcome comes', async () => {
  await Scene.play(1, async (scene) => {
    const { owner, network } = scene
    const [joiner] = scene.others
    assert.ok(joiner)
    const token = await scene.call(owner, (one) => one.invite(NAME, { admit: 'members' }))
    let spoilt: ServerMessage | undefined
    const isHello = ({ agent }: MiddleLine, { body }: ClientMessage): boolean =>
      agent === joiner.name && body.case === 'sendMessage' && spoilt !== undefined
    const busy = refusing('queue_full', isHello)
    let isFirst = true
    network.middle = {
      ...busy,
      asked: (line, message) => {
        const passed = busy.asked(line, message)
        if (isHello(line, message) && spoilt) {
          line.say(spoilt)
          spoilt = undefined
        }
        return passed
      },
      said: (line, message) => {
        const { body } = message
        if (line.agent !== joiner.name || body.case !== 'deliverWelcome' || !isFirst) return [message]
        isFirst = false
        const copy = clone(ServerMessageSchema, message)
        const welcome = copy.body.case === 'deliverWelcome' ? copy.body.value.welcome : undefined
        assert.ok(welcome)
        // Other bytes, or it is taken for the one that was used.
        welcome.welcome = Uint8Array.from(welcome.welcome, (byte, at) =>
          at === welcome.welcome.length - 1 ? byte ^ 1 : byte,
        )
        spoilt = copy
        return [message]
      },
    }
    network.cut(joiner.machine)
    scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 60)).catch(() => {})
    await scene.until('it is not greeted', () => joiner.recordOf(NAME)?.state === 'joined')
    assert.equal(isFirst, false)
    assert.equal(spoilt, undefined)
  })
})

test('an agent removed as silent can use its token again, although the relay defers the returned use for long', async () => {
  await Scene.play(1, async (scene) => {
    const { owner, network, world } = scene
    const [joiner] = scene.others
    assert.ok(joiner)
    const token = await scene.call(owner, (one) => one.invite(NAME, { ttl: 3600 }))
    let isMute = true
    let deferred = 0
    const busy = refusing('unavailable', (_line, { body }) => body.case === 'registerInvite' && deferred++ < TRIES)
    network.middle = {
      ...busy,
      asked: (line, message) => {
        const isLost = isMute && line.agent === joiner.name && message.body.case === 'sendMessage'
        return isLost ? [] : busy.asked(line, message)
      },
    }
    network.cut(joiner.machine)
    network.cut(owner.machine)
    scene.begin(joiner, (manager) => manager.joinWithToken(NAME, token, 30)).catch(() => undefined)
    await scene.until('not removed, or not told', () => deferred === TRIES)
    joiner.machine.kill('while it waits')
    isMute = false
    await world.pass(10_000)
    await scene.start(joiner)
    await scene.call(joiner, (manager) => manager.joinWithToken(NAME, token, 60))
    assert.equal(deferred, TRIES + 1, 'the owner has repeated it once')
    assert.equal(owner.channel(NAME)?.members().length, 2)
  })
})
