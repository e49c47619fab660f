/** Members that come back although their old leaf is still in the group. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { addMembers } from '../../src/admitting/adding.ts'
import { engine } from '../mls/support.ts'
import { type Player, Stage } from '../support/stage.ts'

const WRONG_KEY = new Uint8Array(32).fill(7)

/** Adds an agent by a fresh KeyPackage, as the application of a member asks. */
async function addAgain(adder: Player, player: Player): Promise<Uint8Array[]> {
  const { keyPackage } = await engine.generateKeyPackage(player.identity, player.key, Date.now())
  const added = addMembers({ context: adder, requests: undefined as never }, adder.channel, [keyPackage], {
    acceptNewKey: false,
  })
  let isOver = false
  added.finally(() => (isOver = true)).catch(() => {})
  while (!isOver) {
    await adder.stage.settle()
    await new Promise(setImmediate)
  }
  return await added
}

async function scene(): Promise<{ stage: Stage; ann: Player; bob: Player; cid: Player }> {
  const stage = await Stage.start(['ann', 'bob', 'cid'])
  return { stage, ann: stage.player('ann'), bob: stage.player('bob'), cid: stage.player('cid') }
}

test('a notice with a key that the leaf does not have removes no one, but the owner can add the agent again', async () => {
  const { stage, ann, bob, cid } = await scene()
  stage.leave(bob, [WRONG_KEY])
  await stage.settleOnly(ann, cid)
  await stage.advance(10_000)
  // On the relay's word alone nobody is removed.
  assert.deepEqual([ann.channel.group?.members.has(bob.agentId), stage.log.length], [true, 1])
  assert.equal(ann.told('roster_lie').length, 1)
  await assert.rejects(addAgain(cid, bob), { code: 'invalid_request' })
  const before = ann.channel.group?.members.get(bob.agentId)?.encryptionKey
  const welcomes = await addAgain(ann, bob)
  assert.equal(welcomes.length, 1)
  assert.equal(ann.view, cid.view)
  assert.deepEqual(cid.told('members_changed').at(-1)?.removed, [bob.agentId])
  assert.notDeepEqual(cid.channel.group?.members.get(bob.agentId)?.encryptionKey, before)
})

test('an agent that has not left cannot be added again, not even by the owner', async () => {
  const { ann, bob } = await scene()
  await assert.rejects(addAgain(ann, bob), { code: 'invalid_request' })
})
