/** Frames of a version that this agent does not know. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Apart } from '../support/apart.ts'
import { Stage } from '../support/stage.ts'

test('frames of version 2 are skipped and reported once, and those of version 1 before, between and after are read', async () => {
  const stage = await Stage.start(['ann', 'bob', 'new'], { apart: ['new'] })
  const [ann, bob, newer] = [stage.player('ann'), stage.player('bob'), new Apart(stage, 'new')]
  const say = (words: string, version: number): void => {
    const frame = newer.frame(words)
    frame[0] = version
    newer.say(frame)
  }
  say('one', 1)
  say('two', 2)
  say('three', 1)
  say('four', 3)
  say('five', 2)
  say('six', 1)
  await stage.settle()
  for (const player of [ann, bob]) {
    assert.deepEqual(await player.take(), ['one', 'three', 'six'])
    const { name } = player.channel
    assert.deepEqual(player.told('unknown_version'), [
      { type: 'unknown_version', channel: name, sender: newer.agentId, version: 2 },
    ])
    assert.deepEqual([player.told('decryption_failure'), player.told('fork_detected')], [[], []])
    assert.equal(player.channel.history.sender(newer.agentId)?.counter, 6)
  }
  // What they have seen counts, too.
  assert.ok(ann.channel.history.confirmed >= 5)
  const sent = ann.send('still here')
  await stage.settle()
  await sent
  assert.deepEqual(await bob.take(), ['still here'])
})

test('a newer frame that skips a counter, or follows a different frame, is a fork like any other', async () => {
  for (const change of [{ counter: 3 }, { previous: new Uint8Array(32).fill(1) }]) {
    const stage = await Stage.start(['ann', 'new'], { apart: ['new'] })
    const [ann, newer] = [stage.player('ann'), new Apart(stage, 'new')]
    newer.say(newer.frame('one'))
    const frame = newer.frame('two', change)
    frame[0] = 2
    newer.say(frame)
    await stage.settle()
    assert.equal(ann.told('fork_detected').length, 1)
  }
})
