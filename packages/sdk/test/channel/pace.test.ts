/** A channel that fills up at the relay: its senders slow down, and hear who lags. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fromHex, type StaticError } from '@static/protocol'
import { type Player, Stage } from '../support/stage.ts'

/** Too large for a pack: each goes alone. */
const LARGE = 17_000

const laggard = ({ agentId }: Player, waiting: bigint): { agentId: Uint8Array; waiting: bigint } => ({
  agentId: new Uint8Array(fromHex(agentId)),
  waiting,
})

test("in a channel that fills up, the sender keeps to the relay's pace, reports who lags, and later returns to full speed", async () => {
  const stage = await Stage.start(['alice', 'bob'])
  const [alice, bob] = [stage.player('alice'), stage.player('bob')]
  stage.pressing = () => ({ waitMs: 100, lagging: [laggard(bob, 7n)] })
  const before = stage.log.length
  const first = alice.send('0')
  await stage.settle()
  await first
  const burst = Promise.all(Array.from({ length: 9 }, (_, n) => alice.send(`${n + 1}`.padEnd(LARGE))))
  await stage.settle()
  // One at once, then one for each wait.
  const sent: number[] = []
  for (let at = 0; at < 4; at++) {
    sent.push(stage.log.length - before)
    await stage.advance(100, 100)
  }
  assert.deepEqual(sent, [2, 3, 4, 5])
  assert.deepEqual(alice.told('lagging'), [
    { type: 'lagging', channel: alice.channel.name, members: [{ agent: bob.agentId, waiting: 7 }] },
  ])
  // There is room again: the next answer says so, and the rest goes at once.
  stage.pressing = () => ({})
  await stage.advance(100, 100)
  await burst
  assert.equal(stage.log.length - before, 10)
  const taken = (await bob.take()).map((words) => words.trim())
  assert.deepEqual(taken, ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
})

test('no relay can stop a sender: it waits at most a second, and reports only members, once a minute', async () => {
  const stage = await Stage.start(['alice', 'bob'])
  const [alice, bob] = [stage.player('alice'), stage.player('bob')]
  const stranger = { agentId: new Uint8Array(32), waiting: 1n }
  stage.pressing = () => ({ waitMs: 4_000_000_000, lagging: [stranger] })
  const before = stage.log.length
  const burst = Promise.all(['one', 'two', 'three'].map((words) => alice.send(words.padEnd(LARGE))))
  await stage.settle()
  await stage.advance(2000, 1000)
  assert.equal(stage.log.length - before, 3)
  await burst
  assert.deepEqual(alice.told('lagging'), [])
  stage.pressing = () => ({ waitMs: 1, lagging: [stranger, laggard(bob, 5n)] })
  for (const _ of Array.from({ length: 90 })) {
    const said = alice.send('again')
    await stage.advance(1000, 1000)
    await said
  }
  assert.deepEqual(
    alice.told('lagging').map(({ members }) => members),
    [[{ agent: bob.agentId, waiting: 5 }], [{ agent: bob.agentId, waiting: 5 }]],
  )
})

test('queue_full names who lags, in its text, its details and an event', async () => {
  const stage = await Stage.start(['alice', 'bob'])
  const [alice, bob] = [stage.player('alice'), stage.player('bob')]
  stage.refuse = (_player, { case: kind }) =>
    kind === 'sendMessage'
      ? { code: 'queue_full', message: 'The channel is full.', lagging: [laggard(bob, 300n)] }
      : undefined
  const error = alice.send('no room').then(
    () => assert.fail('accepted'),
    (refusal: StaticError) => refusal,
  )
  await stage.settle()
  const { code, message, details } = await error
  assert.equal(code, 'queue_full')
  assert.equal(message, `The channel is full. Furthest behind: ${bob.agentId.slice(0, 8)}… (300).`)
  assert.deepEqual(details.lagging, [{ agent: bob.agentId, waiting: 300 }])
  assert.deepEqual(
    alice.told('lagging').map(({ members }) => members),
    [[{ agent: bob.agentId, waiting: 300 }]],
  )
})
