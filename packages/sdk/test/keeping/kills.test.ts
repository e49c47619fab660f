/**
 * An agent with a history is killed before and after its calls to the world: each message that it settled or sent is in
 * its history exactly once, and none that is still to be delivered.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CrashingPorts, type CrashPoint } from '@static/testkit/crash/agent-ports'
import { randomNumbers, SEED } from '@static/testkit/random'
import type { Channel } from '../../src/public/channel.ts'
import type { HistoryMessage } from '../../src/public/received/history-message.ts'
import type { StaticClient } from '../../src/public/client.ts'
import { take, text, TestSystem } from '../support/test-system.ts'

/** How many points are tried; all with STATIC_CRASH=all. */
const SAMPLE = process.env['STATIC_CRASH'] === 'all' ? Infinity : 10
const HISTORY = { days: 30 }
const RATES = { commitsPerSecond: 1000, guestCommitsPerSecond: 1000, channelCommitsPerSecond: 1000 }
const random = randomNumbers(SEED)

/** The whole history of a channel, the oldest first. */
async function historyOf(channel: Channel): Promise<readonly HistoryMessage[]> {
  const found: HistoryMessage[] = []
  for (let page = await channel.history({ limit: 7 }); page.length > 0;) {
    found.push(...page)
    page = await channel.history({ limit: 7, before: page.at(-1)!.index })
  }
  return found.toReversed()
}

interface Round {
  readonly calls: readonly string[]
}

/** Bob receives single messages and packs, settles some, sends and asks, and is killed meanwhile. */
async function round(world: TestSystem, ann: StaticClient, number: number, point?: CrashPoint): Promise<Round> {
  const name = `acme/kept/round-${number}`
  const identity = `bob-${number}`
  const first = await world.agent(identity, { history: HISTORY })
  const [hers] = await world.channel(ann, [first], name)
  await first.close()
  const stop = new AbortController()
  const serving = hers!.serve((request) => Promise.resolve(`${request.text()}!`), { signal: stop.signal })
  await Promise.all(['p0', 'p1', 'p2'].map((word) => hers!.send(word)))
  const ports = new CrashingPorts()
  const bob = await world.agent(identity, { ...ports.options, history: HISTORY })
  ports.mark(point)
  const isConfirmed = new Set<string>()
  const work = async (): Promise<void> => {
    const his = bob.channel(name)
    await take(his, 2)
    const sent = ['b0', 'b1'].map(async (word) => void isConfirmed.add((await his.send(word)) && word))
    await Promise.all([...sent, hers!.send('a0')])
    await take(his, 2)
    await his.askOne('q', { to: ann.agentId, timeout: 60 })
    await hers!.send('a1')
    // Not settled.
    for await (const _message of his.messages()) break
    await bob.close()
  }
  await Promise.race([work().catch(() => {}), ports.died])
  await bob.close().catch(() => {})

  const again = await world.agent(identity, { history: HISTORY })
  const his = again.channel(name)
  // What is in the history was settled, so it is not delivered again.
  const before = (await historyOf(his))
    .filter(({ own, kind }) => !own && kind === 'payload')
    .map(({ messageId }) => messageId)
  await hers!.send('last')
  const rest: string[] = []
  for await (const envelope of his.envelopes()) {
    assert.ok(!before.includes(envelope.messageId), `${envelope.text()} is in the history and was delivered again`)
    rest.push(envelope.text())
    envelope.settle()
    if (envelope.text() === 'last') break
  }
  await his.send('end')
  const found = await historyOf(his)
  const ids = found.map(({ messageId }) => messageId)
  assert.equal(new Set(ids).size, ids.length, `doubled in ${found.map(({ payload }) => text(payload)).join(' ')}`)
  assert.deepEqual(
    found.map(({ index }) => index),
    found.map(({ index }) => index).toSorted((a, b) => a - b),
  )
  const received = found.filter(({ own, kind }) => !own && kind === 'payload').map(({ payload }) => text(payload))
  const delivered = ['p0', 'p1', 'p2', 'a0', 'a1', 'last'].filter((word) => received.includes(word))
  assert.deepEqual(received, delivered)
  // Everything that was sent to him was settled by now, before or after.
  for (const word of ['p0', 'p1', 'p2', ...rest]) assert.ok(received.includes(word), `${word} is missing`)
  const own = found.filter((message) => message.own && message.kind === 'payload').map(({ payload }) => text(payload))
  for (const word of [...isConfirmed, 'end']) assert.ok(own.includes(word), `${word} was sent and is missing`)
  stop.abort()
  await serving
  await again.close()
  return { calls: ports.calls }
}

test(`killed at any step, the history has each message once, seed ${SEED}`, { timeout: 1_800_000 }, async (t) => {
  const world = await TestSystem.start(t, 'grpc', { settings: { rates: RATES } })
  const ann = await world.agent('ann')
  let number = 0
  const { calls } = await round(world, ann, number++)
  const all = calls.flatMap((_, at) => [
    { call: at + 1, moment: 'before' } as const,
    { call: at + 1, moment: 'after' } as const,
  ])
  const points = all
    .map((point) => ({ point, rank: random() }))
    .sort((a, b) => a.rank - b.rank)
    .slice(0, SAMPLE)
  t.diagnostic(`${calls.length} calls: ${calls.join(' ')}`)
  for (const { point } of points) {
    try {
      await round(world, ann, number++, point)
    } catch (cause) {
      throw new Error(`killed ${point.moment} call ${point.call}, seed ${SEED}`, { cause })
    }
  }
})
