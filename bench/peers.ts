/**
 * Static beside a peer in one run: SLIM of AGNTCY. Three rounds, in each the peer, ours over QUIC and ours over gRPC
 * take turns: round trips and messages a second between two, then deliveries a second to ten. 1 KiB payloads, 64 under
 * way at once. Throughput is taken twice in each group, because ours is slow until its code is compiled and the peer
 * slows down with the messages that a group has carried: either stage alone would favour one of the two.
 * The peer has MLS, TLS and acknowledgements on, and TCP_NODELAY forced. There is no target.
 */
import { writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { type Group, percentile, roundTrips, stream } from './agent/group.ts'
import { startSystem } from './agent/system.ts'
import { type FanOutFigures, type Figures, medians, type PairFigures, ratios, table } from './peers/figures.ts'
import { startSlimPeer } from './peers/slim/peer.ts'

const ROUNDS = 3
const ROUND_TRIPS = 300
/** The early stage comes after the warm-up; as many messages as in a stage pass before the late one. */
const PAIR = { members: 1, warmUp: 500, stage: 2000 } as const
const FAN_OUT = { members: 10, warmUp: 100, stage: 300 } as const

const DIFFERENCES = [
  'Ours has each message on disk, with fsync, at three nodes: sender, relay and receiver. The peer keeps nothing on disk.',
  'To the peer, `sent` means that every receiver has acknowledged; to ours, that the relay has it on disk.',
  'Ours pads lengths and sends cover traffic (profile `standard`); the peer does neither.',
  'Ten members of the peer share one process, which is faster for it; ten of ours are ten processes.',
]

using workspace = await makeWorkspace()
await using slim = await startSlimPeer(workspace)
await using system = await startSystem(workspace)

const contenders = {
  slim: (name: string, members: number): Promise<Group> => slim.group(name, members),
  quic: (name: string, members: number): Promise<Group> => system.group('quic', `bench/quic/${name}`, members),
  grpc: (name: string, members: number): Promise<Group> => system.group('grpc', `bench/grpc/${name}`, members),
}
type Contender = keyof typeof contenders
const CONTENDERS = Object.keys(contenders) as Contender[]

async function trips(contender: Contender, round: number): Promise<readonly number[]> {
  await using pair = await contenders[contender](`trips-${round}`, 1)
  await stream(pair, PAIR.warmUp)
  return await roundTrips(pair, ROUND_TRIPS)
}

/** Messages a second in the early and in the late stage of a group. */
async function perSecond(
  contender: Contender,
  name: string,
  { members, warmUp, stage }: typeof PAIR | typeof FAN_OUT,
): Promise<{ readonly early: number; readonly late: number }> {
  await using group = await contenders[contender](name, members)
  await stream(group, warmUp)
  const early = await stream(group, stage)
  await stream(group, stage)
  const late = await stream(group, stage)
  return { early: early.perSecond, late: late.perSecond }
}

async function pairFigures(contender: Contender, round: number): Promise<PairFigures> {
  const times = await trips(contender, round)
  const { early, late } = await perSecond(contender, `pair-${round}`, PAIR)
  return {
    roundTripP50Ms: percentile(times, 0.5),
    roundTripP95Ms: percentile(times, 0.95),
    messagesEarly: early,
    messagesLate: late,
  }
}

async function fanOutFigures(contender: Contender, round: number): Promise<FanOutFigures> {
  const { early, late } = await perSecond(contender, `crowd-${round}`, FAN_OUT)
  return { deliveriesEarly: early * FAN_OUT.members, deliveriesLate: late * FAN_OUT.members }
}

const loadAtStart = loadavg()[0]
console.log(`SLIM ${slim.version} beside Static`)
const rounds: Record<Contender, Figures[]> = { slim: [], quic: [], grpc: [] }
for (let round = 1; round <= ROUNDS; round++) {
  const pairs = new Map<Contender, PairFigures>()
  for (const contender of CONTENDERS) pairs.set(contender, await pairFigures(contender, round))
  for (const contender of CONTENDERS) {
    const figures = { ...pairs.get(contender), ...(await fanOutFigures(contender, round)) } as Figures
    rounds[contender].push(figures)
    console.log(`round ${round}`, contender, JSON.stringify(figures))
  }
}

const middle = { slim: medians(rounds.slim), quic: medians(rounds.quic), grpc: medians(rounds.grpc) }
const ratio = { quic: ratios(middle.quic, middle.slim), grpc: ratios(middle.grpc, middle.slim) }
const columns = { SLIM: middle.slim, 'Static, QUIC': middle.quic, 'Static, gRPC': middle.grpc }
console.log(`\n${table({ ...columns, 'QUIC / SLIM': ratio.quic, 'gRPC / SLIM': ratio.grpc })}\n`)
for (const difference of DIFFERENCES) console.log(`- ${difference}`)
const load = { atStart: loadAtStart, atEnd: loadavg()[0] }
console.log(`Load of the machine: ${load.atStart} at the start, ${load.atEnd} at the end.`)
const results = { peer: `SLIM ${slim.version}`, load, medians: middle, ratios: ratio, differences: DIFFERENCES, rounds }
writeFileSync(join(import.meta.dirname, 'results/peers.json'), `${JSON.stringify(results, null, 2)}\n`)
