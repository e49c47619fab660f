/** The owner removes a member that has filled its inbox: nothing is lost, and the call does not wait for a reader. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StaticError } from '@static/protocol'
import { removeMember } from '../../src/agent/owning.ts'
import { type Player, Stage } from '../support/stage.ts'

/** The inbox of a player is full with one payload, and has room without any. Others change nothing in what follows. */
function makeSmall({ channel: { inbox } }: Player): void {
  Object.defineProperties(inbox, { isFull: { get: () => !inbox.isEmpty }, hasRoom: { get: () => inbox.isEmpty } })
}

async function say(stage: Stage, from: Player, text: string): Promise<void> {
  const sent = from.send(text)
  await stage.settle()
  await sent
}

/** The code of the error, once nothing more happens. */
async function removed(stage: Stage, owner: Player, member: Player): Promise<string> {
  let outcome = 'waits'
  removeMember({ invites: undefined }, owner.channel, member.agentId).then(
    () => (outcome = 'ok'),
    (error: unknown) => (outcome = StaticError.from(error).code),
  )
  await stage.settleWithPrograms()
  return outcome
}

for (const commits of [false, true]) {
  const title = `the owner removes a member that has filled its inbox${commits ? ' and changed the group since' : ''}, and loses no message`
  test(title, async () => {
    const stage = await Stage.start(['ann', 'bob', 'mal'])
    const [ann, bob, mal] = [stage.player('ann'), stage.player('bob'), stage.player('mal')]
    makeSmall(ann)
    for (const text of ['one', 'two', 'three']) await say(stage, mal, text)
    assert.equal(ann.told('inbox_full').length, 1)
    await say(stage, bob, 'help')
    if (commits) {
      const rekeying = mal.channel.upkeep.rekey()
      await stage.settle()
      await rekeying
    }
    await say(stage, bob, 'please')
    assert.equal(await removed(stage, ann, mal), 'ok')
    assert.deepEqual([ann.channel.group?.members.size, bob.view], [2, ann.view])
    // It is as full as before: nothing else is taken.
    const { index } = ann.channel.history.position
    await say(stage, bob, 'thanks')
    assert.equal(ann.channel.history.position.index, index)
    assert.equal(ann.told('inbox_full').length, 2)
    const read: string[] = []
    for (let taken = await ann.take(); taken.length > 0; taken = await ann.take()) {
      read.push(...taken)
      await stage.settle()
    }
    assert.deepEqual(read, ['one', 'two', 'three', 'help', 'please', 'thanks'])
  })
}

test('a removal for which there is no room either fails at once, and is found done once there is', async () => {
  const stage = await Stage.start(['ann', 'bob', 'mal'])
  const [ann, mal] = [stage.player('ann'), stage.player('mal')]
  makeSmall(ann)
  for (const text of ['one', 'two', 'three']) await say(stage, mal, text)
  let isFullForRemoval = false
  Object.defineProperty(ann.channel.inbox, 'isFullForRemoval', { get: () => isFullForRemoval })
  const first = removed(stage, ann, mal)
  isFullForRemoval = true
  assert.equal(await first, 'queue_full')
  assert.equal(await removed(stage, ann, mal), 'queue_full')
  isFullForRemoval = false
  // The relay has accepted the first one.
  assert.equal(await removed(stage, ann, mal), 'not_found')
  assert.equal(ann.channel.group?.members.has(mal.agentId), false)
  assert.deepEqual(await ann.take(), ['one', 'two', 'three'])
})
