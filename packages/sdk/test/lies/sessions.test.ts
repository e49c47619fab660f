/** A relay that ends sessions and leaves requests unanswered: each session asks what the first one did, and no more. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LyingSystem } from '../support/lying-system.ts'

const SESSIONS = 4

test('a Leave that is never answered is sent once in each session', async (t) => {
  const world = LyingSystem.start(t)
  const { relay } = world
  const [alice, bob] = await world.agents('alice', 'bob')
  const [, left] = (await world.channel([alice, bob], 'acme/support/left')).channels
  const [, other] = (await world.channel([alice, bob], 'acme/support/other')).channels
  relay.answer = (_agent, asked, honest) => (asked.case === 'leave' ? undefined : honest())
  // Twice, as an impatient application does.
  for (let times = 0; times < 2; times++) left!.leave().catch(() => {})
  const each: number[] = []
  let before = 0
  for (let session = 0; session < SESSIONS; session++) {
    if (session > 0) relay.cut(bob.agentId)
    await relay.until(() => relay.requests(bob.agentId, 'leave').length > before)
    // The relay has everything from before it.
    await other!.send(`session ${session}`)
    const sent = relay.requests(bob.agentId, 'leave').length
    each.push(sent - before)
    before = sent
  }
  assert.deepEqual(each, [1, 1, 1, 1])
})
