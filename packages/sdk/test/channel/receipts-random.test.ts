/** Eight members that come, go, crash and read when they like: `reached` says what they have signed, and nothing else. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeReceipt } from '@static/protocol'
import type { SentMessage } from '../../src/channel/sending/outbox.ts'
import { randomNumbers } from '@static/testkit/random'
import { type Player, Stage } from '../support/stage.ts'

const NAMES = ['ann', 'bob', 'cy', 'dan', 'eve', 'fay', 'gus', 'hal']
const STEPS = 70

interface Wait {
  readonly message: SentMessage
  done: boolean
}

/** Plays a schedule and returns how many messages were sent. */
async function play(seed: number): Promise<number> {
  const random = randomNumbers(seed)
  const stage = await Stage.start(NAMES, { seed, receipts: 'settled' })
  /** How far each has signed that all is settled, in any receipt that the relay ever got. */
  const signed = new Map<string, number>()
  const note = (): void => {
    for (const [agent, bytes] of stage.receipts) {
      const claim = decodeReceipt(bytes) ?? assert.fail('malformed')
      assert.ok(claim.settled >= (signed.get(agent) ?? 0), 'nothing goes back')
      assert.ok(claim.index <= stage.position.index)
      signed.set(agent, claim.settled)
    }
  }
  const waits: Wait[] = []
  const wait = (player: Player, wanted: Wait): void => {
    player.channel.receipts.reached({ sent: wanted.message, level: 'settled', by: undefined }, {}).then(
      ({ reached, unreached }) => {
        assert.deepEqual([reached.size, unreached.size], [NAMES.length - 1, 0])
        wanted.done = true
      },
      () => {},
    )
  }
  const check = async (): Promise<void> => {
    note()
    await new Promise((resolve) => setImmediate(resolve))
    const others = NAMES.slice(1).map((name) => stage.player(name).agentId)
    for (const { message, done } of waits) {
      if (done) assert.ok(others.every((agent) => (signed.get(agent) ?? 0) >= message.index))
    }
  }
  for (let step = 0; step < STEPS; step++) {
    const player = stage.players[Math.floor(random() * NAMES.length)] ?? assert.fail()
    const dice = random()
    if (dice < 0.3) {
      const ann = stage.player('ann')
      const sending = ann.send(String(step))
      if (!ann.online) ann.resume()
      await stage.settle()
      const wanted = { message: await sending, done: false }
      waits.push(wanted)
      wait(stage.player('ann'), wanted)
    } else if (dice < 0.6) await player.take()
    else if (dice < 0.7) player.lose(Math.floor(random() * 3))
    else if (dice < 0.8 && !player.online) player.resume()
    else if (dice < 0.92) {
      const again = player.restart(Math.floor(random() * 3))
      if (again.name === 'ann') for (const wanted of waits) if (!wanted.done) wait(again, wanted)
    } else await stage.advance(250, 250)
    if (random() < 0.7) await stage.settle()
    await check()
  }
  for (const player of stage.players) if (!player.online) player.resume()
  await stage.settle()
  for (const player of stage.players) await player.take()
  await stage.advance(1000, 250)
  await check()
  assert.deepEqual(
    waits.filter(({ done }) => !done).map(({ message }) => message.index),
    [],
  )
  return waits.length
}

for (const seed of [1, 2, 3]) {
  test(`a wait resolves if and only if each member has signed, seed ${seed}`, async (t) => {
    const messages = await play(seed)
    assert.ok(messages > 10)
    t.diagnostic(`${messages} messages`)
  })
}
