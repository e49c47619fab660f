/** Claims that are left over when an agent is added in another way, or cannot be, each as a story of its own. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ClientMessage } from '@static/protocol/relay'
import { World } from '@static/testkit/world'
import { code } from '../support/test-system.ts'
import { NAME } from './cast.ts'
import { History } from './history.ts'
import { HONEST, refuse } from './middles.ts'
import type { Person } from './person.ts'
import { Scene } from './scene.ts'

/** Why the relay refuses a request, and when it may be made again; undefined if it does not. */
type Refusal = (body: ClientMessage['body']) => readonly [code: string, retryAfterMs: number] | undefined

/** Lets the relay refuse requests of somebody. */
function letRefuse({ network }: Scene, { name, machine }: Person, refusal: Refusal): void {
  network.middle = {
    ...HONEST,
    asked: (line, message) => {
      const refused = line.agent === name ? refusal(message.body) : undefined
      if (!refused) return [message]
      return refuse(line, message, refused[0], refused[1])
    },
  }
  network.cut(machine)
}

function hasClaim({ disk }: Person): boolean {
  return disk.contents.channels.some(({ claims }) => claims.length > 0)
}

/** Somebody joins by an invite of the owner's. */
async function letIn(scene: Scene, person: Person): Promise<void> {
  const token = await scene.call(scene.owner, (owner) => owner.invite(NAME))
  await scene.call(person, (manager) => manager.joinWithToken(NAME, token, 60))
}

test('a joiner claimed by an invite that ends before it is added joins by another one, and stays', async () => {
  await Scene.play(1, async (scene) => {
    const { owner, world } = scene
    const [joiner] = scene.others
    assert.ok(joiner)
    const first = await scene.call(owner, (one) => one.invite(NAME, { admit: 'members' }))
    const second = await scene.call(owner, (one) => one.invite(NAME))
    const joining = scene.begin(joiner, (manager) => manager.joinWithToken(NAME, first, 60))
    await scene.until('no claim', () => owner.disk.contents.channels.some(({ claims }) => claims.length > 0))
    await scene.call(owner, (one) => one.revokeInvite(first))
    await assert.rejects(scene.end(joining), code('invite_revoked'))
    await scene.call(joiner, (manager) => manager.joinWithToken(NAME, second, 60))
    await world.pass(120_000)
    assert.equal(joiner.recordOf(NAME)?.state, 'joined')
    assert.equal(owner.channel(NAME)?.members().length, 2)
  })
})

test('the same in a history of its own: seed 1931', async () => {
  await World.live(1931, (world) => new History(world).run())
})

test('a claim that is on its way since before a restart is not the use of another invite', async () => {
  await Scene.play(2, async (scene) => {
    const { owner, world } = scene
    const [member, joiner] = scene.others
    assert.ok(member && joiner)
    await letIn(scene, member)
    const first = await scene.call(owner, (one) => one.invite(NAME, { admit: 'members' }))
    const second = await scene.call(owner, (one) => one.invite(NAME))
    await world.pass(5000)
    member.machine.kill('it must not admit')
    // The claim waits until the owner has tried to begin another epoch, and that until the owner gives up.
    let isBusy = true
    let commits = 0
    letRefuse(scene, owner, ({ case: kind }) => {
      if (kind === 'sendMessage' && isBusy) return ['unavailable', 1000]
      if (kind !== 'sendCommit' || commits++ >= 31) return undefined
      isBusy = false
      return ['unavailable', 2000]
    })
    scene.begin(joiner, (manager) => manager.joinWithToken(NAME, first, 60)).catch(() => {})
    await scene.until('no claim', () => hasClaim(owner))
    owner.machine.kill('before the claim is in the log')
    await scene.start(owner)
    scene.begin(owner, (one) => one.revokeInvite(first)).catch(() => {})
    scene.begin(joiner, (manager) => manager.joinWithToken(NAME, second, 60)).catch(() => {})
    await scene.until('it is out', () => joiner.recordOf(NAME)?.state === 'joined')
    await world.pass(120_000)
    assert.ok(commits > 30)
    assert.equal(owner.channel(NAME)?.members().length, 3)
  })
})

test('a claim that the relay refuses for good after a restart no longer counts', async () => {
  await Scene.play(2, async (scene) => {
    const { owner, world } = scene
    const [member, joiner] = scene.others
    assert.ok(member && joiner)
    await letIn(scene, member)
    const first = await scene.call(owner, (one) => one.invite(NAME, { admit: 'members', ttl: 60 }))
    await world.pass(5000)
    member.machine.kill('it must not admit')
    let refused: readonly [string, number] | undefined = ['unavailable', 1000]
    let rekeys = 0
    letRefuse(scene, owner, (body) => {
      if (body.case === 'sendCommit' && body.value.declaration?.adds.length === 0) rekeys++
      return body.case === 'sendMessage' ? refused : undefined
    })
    scene.begin(joiner, (manager) => manager.joinWithToken(NAME, first, 60)).catch(() => {})
    await scene.until('no claim', () => hasClaim(owner))
    owner.machine.kill('before the claim is in the log')
    refused = ['quota_exceeded', 0]
    await scene.start(owner)
    await world.pass(120_000)
    refused = undefined
    rekeys = 0
    const second = await scene.call(owner, (one) => one.invite(NAME))
    await scene.call(joiner, (manager) => manager.joinWithToken(NAME, second, 60))
    assert.equal(rekeys, 0)
  })
})

test('agents that are claimed in vain and ask by another invite cause one commit a minute', async () => {
  await Scene.play(6, async (scene) => {
    const { owner, world } = scene
    const shared = await scene.call(owner, (one) => one.invite(NAME, { admit: 'members' }))
    const own = await scene.call(owner, (one) => one.invite(NAME))
    let rekeys = 0
    letRefuse(scene, owner, (body) => {
      if (body.case !== 'sendCommit') return undefined
      if (body.value.declaration?.adds.length !== 0) return ['not_allowed', 0]
      rekeys++
      return undefined
    })
    await world.pass(2000)
    const began = world.now
    for (const person of scene.others) {
      for (const token of [shared, own])
        await scene.call(person, (manager) => manager.joinWithToken(NAME, token, 5)).catch(() => {})
    }
    assert.ok(rekeys > 0)
    const minutes = (world.now - began) / 60_000
    assert.ok(rekeys <= 1 + minutes, `${rekeys} in ${minutes} minutes`)
  })
})

test('a member lets in a joiner that asks by two invites, the first of them used up', async () => {
  await Scene.play(3, async (scene) => {
    const { owner, world } = scene
    const [member, other, joiner] = scene.others
    assert.ok(member && other && joiner)
    await letIn(scene, member)
    const first = await scene.call(owner, (one) => one.invite(NAME, { admit: 'members' }))
    const second = await scene.call(owner, (one) => one.invite(NAME, { admit: 'members' }))
    await world.pass(10_000)
    owner.machine.kill('for good')
    const join = (machine: typeof joiner, token: string): void => {
      scene.begin(machine, (manager) => manager.joinWithToken(NAME, token, 60)).catch(() => {})
    }
    join(other, first)
    await world.pass(200)
    for (const token of [first, second]) join(joiner, token)
    await scene.until('not both are in', () => [other, joiner].every((one) => one.recordOf(NAME)?.state === 'joined'))
  })
})
