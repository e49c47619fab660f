/**
 * The cost of a request compared with bare messages, in one run: the time of `ask` until its only answer has ended
 * beside a message there and one back, and messages a second with 50 requests at a time beside 50 messages at a time,
 * each of which the other side answers with a message. For comparison, messages that go one way only. 1 KiB payloads.
 * Rounds take turns, so that the machine is the same for all.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { percentile, roundTrips, stream } from './agent/group.ts'
import { startSystem } from './agent/system.ts'
import { median } from './api/processor.ts'

const ROUNDS = Number(process.env['STATIC_BENCH_ROUNDS'] ?? 5)
const REQUESTS = 200
const AT_ONCE = 50
const MANY = 2000
const MOST_RATIO = 1.15
const LEAST_SHARE = 0.9

using workspace = await makeWorkspace()
await using system = await startSystem(workspace)
await using pair = await system.group('quic', 'bench/ask/pair', 1)
const { sender } = pair
const [server] = pair.receivers
if (!server) throw new Error('There is no server.')

interface Round {
  /** p50 in milliseconds. */
  readonly sends: number
  readonly ask: number
  /** Messages a second. */
  readonly oneWay: number
  readonly bare: number
  readonly asked: number
}

/** Messages a second of half as many exchanges. */
async function perSecond(exchange: () => Promise<unknown>): Promise<number> {
  const start = performance.now()
  await exchange()
  return Math.round((MANY * 1000) / (performance.now() - start))
}

const rounds: Round[] = []
for (let round = 0; round < ROUNDS; round++) {
  const sends = percentile(await roundTrips(pair, REQUESTS), 0.5)
  const { perSecond: oneWay } = await stream(pair, MANY)
  await server.ask({ type: 'echoAtOnce' }, 'done')
  const many = { count: MANY / 2, window: AT_ONCE }
  const bare = await perSecond(() => sender.ask({ type: 'exchange', ...many }, 'done'))
  await server.ask({ type: 'stopEcho' }, 'done')
  await server.ask({ type: 'serve' }, 'done')
  const { times } = await sender.ask({ type: 'requests', count: REQUESTS, window: 1 }, 'times')
  const asked = await perSecond(() => sender.ask({ type: 'requests', ...many }, 'times'))
  await server.ask({ type: 'stopEcho' }, 'done')
  rounds.push({ sends, ask: percentile(times, 0.5), oneWay, bare, asked })
  console.log(JSON.stringify(rounds.at(-1)))
}
const ratio = median(rounds.map(({ sends, ask }) => ask / sends))
const share = median(rounds.map(({ bare, asked }) => asked / bare))
const ofOneWay = median(rounds.map(({ oneWay, asked }) => asked / oneWay))
console.log(`ask p50: ${ratio.toFixed(2)} of two sends (target ≤ ${MOST_RATIO})`)
console.log(
  `${AT_ONCE} requests at once: ${share.toFixed(2)} of the messages a second of bare sends there and back (target ≥ ${LEAST_SHARE}), ${ofOneWay.toFixed(2)} of those one way`,
)
if (ratio > MOST_RATIO || share < LEAST_SHARE) process.exitCode = 1
writeFileSync(
  join(import.meta.dirname, 'results/ask.json'),
  `${JSON.stringify({ ratio, share, ofOneWay, rounds }, null, 2)}\n`,
)
