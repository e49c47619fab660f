/**
 * The crash table: an agent is killed before and after its nth call to the database or the network, for every n, in
 * every operation; it is started again, its program goes on, and nothing is lost, doubled or stuck. `npm test` takes a
 * sample of the points from a fixed seed; `npm run proof -- crash` takes them all.
 */
import { test } from 'node:test'
import { randomNumbers, SEED } from '@static/testkit/random'
import type { CrashPoint } from '@static/testkit/crash/agent-ports'
import type { StaticClient } from '../../src/public/client.ts'
import { TestSystem } from '../support/test-system.ts'
import { OPERATIONS, type Operation } from './operations.ts'
import { Scene } from './scene.ts'

/** How many points of an operation are tried; without it all. */
const SAMPLE = process.env['STATIC_CRASH'] === 'all' ? undefined : 1
/** One operation, or one point of it (`12 before`), to look at a failure. */
const ONLY = process.env['STATIC_CRASH_ONLY']
const SETTINGS = {
  session: { pingMs: 5000, pongMs: 5000 },
  rates: { commitsPerSecond: 1000, guestCommitsPerSecond: 1000, channelCommitsPerSecond: 1000 },
}
const random = randomNumbers(SEED)

/** Some of them, in their order. */
function sampled<Item>(items: readonly Item[], count = items.length): Item[] {
  const chosen = items.map((item, at) => ({ item, at, rank: random() }))
  const kept = chosen.sort((a, b) => a.rank - b.rank).slice(0, count)
  return kept.sort((a, b) => a.at - b.at).map(({ item }) => item)
}

function pointsOf(calls: number): CrashPoint[] {
  const numbers = Array.from({ length: calls }, (_, at) => at + 1)
  return numbers.flatMap((call) => [{ call, moment: 'before' } as const, { call, moment: 'after' } as const])
}

/** Two rounds at a time, each with a peer of its own. */
async function tryAll(world: TestSystem, peers: readonly StaticClient[], operation: Operation, points: CrashPoint[]) {
  const left = [...points]
  let killed = 0
  const lane = async (peer: StaticClient): Promise<void> => {
    for (let point = left.shift(); point; point = left.shift()) {
      const { call, moment } = point
      try {
        const report = await operation.round(new Scene(world, peer, operation.role), point)
        if (!report.calls) killed++
      } catch (error) {
        throw new Error(`${operation.name}, killed ${moment} call ${call}, seed ${SEED}`, { cause: error })
      }
    }
  }
  await Promise.all(peers.map(lane))
  return killed
}

test(`an agent is killed at any step, seed ${SEED}`, { timeout: 1_800_000 }, async (t) => {
  const world = await TestSystem.start(t, 'grpc', { settings: SETTINGS })
  // Who has left is removed at once.
  const peers = [await world.agent('peer-1', { chance: () => 0 }), await world.agent('peer-2', { chance: () => 0 })]
  for (const operation of OPERATIONS) {
    if (ONLY && !ONLY.startsWith(operation.name)) continue
    await t.test(operation.name, async (t) => {
      const { calls = [] } = await operation.round(new Scene(world, peers[0]!, operation.role), undefined)
      const one = ONLY && / (\d+) (before|after)$/.exec(ONLY)
      const points = one
        ? [{ call: Number(one[1]), moment: one[2] as CrashPoint['moment'] }]
        : sampled(pointsOf(calls.length), SAMPLE)
      const started = performance.now()
      const killed = await tryAll(world, peers, operation, points)
      const seconds = ((performance.now() - started) / 1000).toFixed(1)
      t.diagnostic(`${calls.length} calls: ${calls.join(' ')}`)
      t.diagnostic(`${points.length} points in ${seconds} s, killed ${killed} times`)
    })
  }
})
