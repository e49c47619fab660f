/**
 * Static beside a peer in one run: SLIM of AGNTCY, by its Node bindings and natively, there without and with the keys
 * of its sessions stored. In each of three rounds all have a new group, alive at once, and take turns in short bursts:
 * round trips and messages a second between two, then deliveries a second to ten. 1 KiB payloads, 64 under way at once.
 * Throughput is taken twice in each group, because ours is slow until its code is compiled and the peer's Node bindings
 * slow down with the messages that a group has carried: either stage alone would favour one of them. The peer has MLS,
 * TLS and acknowledgements on, and TCP_NODELAY forced. There is no target.
 */
import { writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { say } from '../scripts/step.ts'
import { type Group, percentile, stream } from './agent/group.ts'
import { startSystem } from './agent/system.ts'
import { type Figures, medians, ratios, table } from './peers/figures.ts'
import { installNative } from './peers/native/install.ts'
import { startNativePeer } from './peers/native/peer.ts'
import { installSlim } from './peers/slim/install.ts'
import { startSlimPeer } from './peers/slim/peer.ts'

const ROUNDS = 3
/** Each measurement consists of this many bursts; the contenders take turns. */
const BURSTS = 4
const TRIPS = { members: 1, warmUp: 500, stage: 300 } as const
/** The early stage comes after the warm-up; as many messages as in a stage pass before the late one. */
const PAIR = { members: 1, warmUp: 500, stage: 2000 } as const
const FAN_OUT = { members: 10, warmUp: 100, stage: 300 } as const

const DIFFERENCES = [
  'Ours has each message on disk, with fsync, at three nodes: sender, relay and receiver. The peer never stores messages; "keys stored" stores the keys of its sessions.',
  'To the peer, `sent` means that every receiver has acknowledged; to ours, that the relay has it on disk.',
  'Ours pads lengths and sends cover traffic (profile `standard`); the peer does neither.',
  'Ten members of the peer share one process, which is faster for it; ten of ours are ten processes.',
  'The native peer is driven by loops in C, ours by JavaScript.',
]

type Start = (name: string, members: number) => Promise<Group>

await using started = new AsyncDisposableStack()
const workspace = started.use(await makeWorkspace())
const env = await installSlim()
const slim = started.use(await startSlimPeer(workspace, env))
const native = await installNative()
const starts = new Map<string, Start>([
  [`SLIM ${short(slim.version)}, Node bindings`, (...words) => slim.group(...words)],
])
if (native) {
  const shim = env.LD_PRELOAD
  const plain = started.use(await startNativePeer(workspace, native, { shim }))
  const stored = started.use(await startNativePeer(workspace, native, { shim, store: workspace.directory('slim') }))
  starts.set(`SLIM ${short(plain.version)}, native, no persistence`, (...words) => plain.group(...words))
  starts.set(`SLIM ${short(stored.version)}, native, keys stored`, (...words) => stored.group(...words))
} else say('SLIM 3.3 could not be installed from PyPI: its native form is skipped.')
const peers = [...starts.keys()]
const system = started.use(await startSystem(workspace))
starts.set('Static, QUIC', (name, members) => system.group('quic', `bench/quic/${name}`, members))
starts.set('Static, gRPC', (name, members) => system.group('grpc', `bench/grpc/${name}`, members))
const contenders = [...starts.keys()]

const load = { atStart: loadavg()[0], atEnd: 0 }
const rounds = new Map<string, Figures[]>(contenders.map((name) => [name, []]))
for (let round = 1; round <= ROUNDS; round++) {
  const trips = await roundTrips(`trips-${round}`)
  const pairs = await perSecond(`pair-${round}`, PAIR)
  const crowds = await perSecond(`crowd-${round}`, FAN_OUT)
  for (const name of contenders) {
    const times = trips.get(name) ?? []
    const [pair, crowd] = [pairs.get(name), crowds.get(name)]
    if (!pair || !crowd) throw new Error(`No figures of ${name}.`)
    const figures: Figures = {
      roundTripP50Ms: percentile(times, 0.5),
      roundTripP95Ms: percentile(times, 0.95),
      messagesEarly: pair.early,
      messagesLate: pair.late,
      deliveriesEarly: crowd.early * FAN_OUT.members,
      deliveriesLate: crowd.late * FAN_OUT.members,
    }
    rounds.get(name)?.push(figures)
    console.log(`round ${round}, ${name}: ${JSON.stringify(figures)}`)
  }
}

const middle = new Map([...rounds].map(([name, figures]) => [name, medians(figures)]))
const ratio = new Map<string, Figures>()
for (const ours of contenders.filter((name) => !peers.includes(name))) {
  for (const peer of peers) {
    const [own, theirs] = [middle.get(ours), middle.get(peer)]
    if (own && theirs) ratio.set(`${ours} / ${peer}`, ratios(own, theirs))
  }
}
for (const columns of [middle, ratio]) console.log(`\n${table(Object.fromEntries(columns))}`)
console.log()
for (const difference of DIFFERENCES) console.log(`- ${difference}`)
load.atEnd = loadavg()[0] ?? 0
console.log(`Load of the machine: ${load.atStart} at the start, ${load.atEnd} at the end.`)
const results = {
  load,
  medians: Object.fromEntries(middle),
  ratios: Object.fromEntries(ratio),
  differences: DIFFERENCES,
  rounds: Object.fromEntries(rounds),
}
writeFileSync(join(import.meta.dirname, 'results/peers.json'), `${JSON.stringify(results, null, 2)}\n`)

/** Without the patch. */
function short(version: string): string {
  return version.split('.').slice(0, 2).join('.')
}

/** Round trips of all contenders, in milliseconds. */
async function roundTrips(name: string): Promise<ReadonlyMap<string, readonly number[]>> {
  await using groups = await startAll(name, TRIPS.members)
  await inTurn(groups.all, (group) => stream(group, TRIPS.warmUp))
  await inTurn(groups.all, async ({ receivers: [echo] }) => await echo?.ask({ type: 'echo' }, 'done'))
  const found = new Map<string, number[]>(contenders.map((contender) => [contender, []]))
  for (let burst = 0; burst < BURSTS; burst++) {
    await inTurn(groups.all, async ({ sender }, contender) => {
      const { times } = await sender.ask({ type: 'roundTrips', count: TRIPS.stage / BURSTS }, 'times')
      found.get(contender)?.push(...times)
    })
  }
  await inTurn(groups.all, async ({ receivers: [echo] }) => await echo?.ask({ type: 'stopEcho' }, 'done'))
  return found
}

/** Messages a second of all contenders, in the early and in the late stage of a group. */
async function perSecond(
  name: string,
  { members, warmUp, stage }: typeof PAIR | typeof FAN_OUT,
): Promise<ReadonlyMap<string, { readonly early: number; readonly late: number }>> {
  await using groups = await startAll(name, members)
  const measure = async (): Promise<ReadonlyMap<string, number>> => {
    const seconds = new Map<string, number>(contenders.map((contender) => [contender, 0]))
    for (let burst = 0; burst < BURSTS; burst++) {
      await inTurn(groups.all, async (group, contender) => {
        const count = stage / BURSTS
        const run = await stream(group, count)
        seconds.set(contender, (seconds.get(contender) ?? 0) + count / run.perSecond)
      })
    }
    return new Map([...seconds].map(([contender, taken]) => [contender, Math.round(stage / taken)]))
  }
  await inTurn(groups.all, (group) => stream(group, warmUp))
  const early = await measure()
  await inTurn(groups.all, (group) => stream(group, stage))
  const late = await measure()
  return new Map(contenders.map((name) => [name, { early: early.get(name) ?? 0, late: late.get(name) ?? 0 }]))
}

/** A group of each contender. */
async function startAll(
  name: string,
  members: number,
): Promise<AsyncDisposable & { readonly all: ReadonlyMap<string, Group> }> {
  await using stack = new AsyncDisposableStack()
  const all = new Map<string, Group>()
  for (const [contender, start] of starts) all.set(contender, stack.use(await start(name, members)))
  const moved = stack.move()
  return { all, [Symbol.asyncDispose]: () => moved.disposeAsync() }
}

async function inTurn(
  groups: ReadonlyMap<string, Group>,
  work: (group: Group, contender: string) => Promise<unknown>,
): Promise<void> {
  for (const [contender, group] of groups) await work(group, contender)
}
