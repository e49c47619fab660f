/**
 * What PostgreSQL costs the relay: appends of 1 KiB through the store, each node in a process of its own, in turns, so
 * that all see the same machine: one node over SQLite, over PostgreSQL, and over PostgreSQL with a synchronous standby;
 * three nodes over PostgreSQL, each with channels of its own, and all in one channel. The measures are appends per
 * second with 64 under way at each node, the time of a lone append, CPU per append (node and servers), a lone append
 * among many channels, and how long a message takes there and back between agents at two nodes. `STATIC_BENCH_ONLY`
 * names parts (`stores`, `channels`, `roundTrips`); the results of the others stay as they were.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startCluster } from '@static/testkit/postgres/cluster'
import { ensureNats } from '../scripts/nats.ts'
import { median } from './api/processor.ts'
import { type StoreNode, serverCpuMs, startNode } from './cluster/process.ts'
import { measureRoundTrips } from './cluster/round-trip.ts'

const ROUNDS = Number(process.env['STATIC_BENCH_ROUNDS'] ?? 5)
const MANY_CHANNELS = Number(process.env['STATIC_BENCH_CHANNELS'] ?? 100_000)
const ONLY = process.env['STATIC_BENCH_ONLY']
const APPENDS = 3000
const WINDOW = 64
const LONE = 200
const NODES = 3
const ROUND_TRIPS = 60
const RESULTS = join(import.meta.dirname, 'results/cluster.json')
const TARGETS = { appends: 0.6, lone: 2.2, sharedChannel: 0.8, roundTrip: 2.5, manyChannels: 1.3 } as const

/** One value for each round. */
interface Figures {
  readonly perSecond: number[]
  readonly loneMs: number[]
  readonly nodeCpu: number[]
  readonly serverCpu: number[]
}

/** Figures of one setting, measured in turns. */
interface Setting {
  readonly nodes: readonly StoreNode[]
  /** The channels of each node. */
  readonly channels: readonly (readonly string[])[]
  /** The member that sends at each node, in a channel that all share. */
  readonly senders?: readonly string[]
  /** The first processes of its servers. */
  readonly servers: readonly number[]
}

const idOf = (text: string): string => Buffer.from(text).toString('hex').padEnd(32, '0').slice(0, 32)
const idsOf = (count: number, prefix: string): string[] =>
  Array.from({ length: count }, (_, at) => idOf(`${prefix} ${at}`))
const rounded = (value: number): number => Number(value.toFixed(2))
const isWanted = (part: string): boolean => ONLY === undefined || ONLY.split(',').includes(part)

async function measure({ nodes, channels, senders, servers }: Setting, figures: Figures): Promise<void> {
  const load = (at: number, count: number, window: number): ReturnType<StoreNode['append']> => {
    const sender = senders?.[at]
    const own = { channels: channels[at] ?? [], count, window, ...(sender === undefined ? {} : { sender }) }
    return (nodes[at] as StoreNode).append(own)
  }
  const before = serverCpuMs(servers)
  const runs = await Promise.all(nodes.map((_, at) => load(at, APPENDS, WINDOW)))
  const appended = APPENDS * nodes.length
  figures.serverCpu.push(((serverCpuMs(servers) - before) * 1000) / appended)
  figures.nodeCpu.push(runs.reduce((sum, { cpu }) => sum + cpu, 0) / appended)
  figures.perSecond.push(appended / Math.max(...runs.map(({ seconds }) => seconds)))
  figures.loneMs.push((await load(0, LONE, 1)).medianMs)
}

/** Measures all settings in turns, round by round. */
async function inTurns(settings: Readonly<Record<string, Setting>>): Promise<Map<string, Figures>> {
  const all = new Map<string, Figures>()
  const none = (): Figures => ({ perSecond: [], loneMs: [], nodeCpu: [], serverCpu: [] })
  for (const name of Object.keys(settings)) all.set(name, none())
  for (let round = -1; round < ROUNDS; round++) {
    // The first round warms up.
    for (const [name, setting] of Object.entries(settings)) {
      await measure(setting, round < 0 ? none() : (all.get(name) ?? none()))
    }
  }
  return all
}

/** The median of the ratios of each round. */
function ratio(all: ReadonlyMap<string, Figures>, figure: keyof Figures, name: string, base: string): number {
  const bases = all.get(base)?.[figure] ?? []
  return rounded(median((all.get(name)?.[figure] ?? []).map((value, at) => value / (bases[at] ?? Number.NaN))))
}

async function stores(stack: AsyncDisposableStack, directory: string): Promise<Record<string, unknown>> {
  const alone = await startCluster(false)
  stack.defer(() => alone.close())
  await alone.standby.stop()
  const pair = await startCluster()
  stack.defer(() => pair.close())
  const open = async (place: Parameters<typeof startNode>[0]): Promise<StoreNode> => stack.use(await startNode(place))
  const sqlite = await open({ path: join(directory, 'relay.sqlite') })
  const three: StoreNode[] = []
  for (let at = 0; at < NODES; at++)
    three.push(await open({ url: alone.primary.url, keyFile: join(directory, 'a.key') }))
  const [postgres] = three as [StoreNode]
  const standby = await open({ url: pair.url, keyFile: join(directory, 'b.key') })
  const few = idsOf(WINDOW, 'few')
  for (const node of [sqlite, postgres, standby]) await node.create(few)
  const own = three.map((_, at) => idsOf(WINDOW, `own ${at}`))
  for (const [at, node] of three.entries()) await node.create(own[at] ?? [])
  const senders = idsOf(NODES, 'sender').map((id) => id.repeat(2))
  const [shared, single] = [idOf('shared'), idOf('single')]
  for (const channel of [shared, single]) await postgres.found(channel, senders)

  const servers = [alone.primary.pid ?? 0]
  const all = await inTurns({
    sqlite: { nodes: [sqlite], channels: [few], servers: [] },
    postgres: { nodes: [postgres], channels: [few], servers },
    'postgres with standby': {
      nodes: [standby],
      channels: [few],
      servers: [pair.primary.pid ?? 0, pair.standby.pid ?? 0],
    },
    'three nodes, own channels': { nodes: three, channels: own, servers },
    'one node, one channel': { nodes: [postgres], channels: [[single]], senders, servers },
    'three nodes, one channel': { nodes: three, channels: three.map(() => [shared]), senders, servers },
  })
  const medians = [...all].map(([name, figures]) => [
    name,
    Object.fromEntries(Object.entries(figures).map(([key, values]) => [key, rounded(median(values as number[]))])),
  ])
  return {
    ...Object.fromEntries(medians),
    ratios: {
      appends: ratio(all, 'perSecond', 'postgres', 'sqlite'),
      lone: ratio(all, 'loneMs', 'postgres', 'sqlite'),
      appendsWithStandby: ratio(all, 'perSecond', 'postgres with standby', 'sqlite'),
      loneWithStandby: ratio(all, 'loneMs', 'postgres with standby', 'sqlite'),
      threeNodes: ratio(all, 'perSecond', 'three nodes, own channels', 'postgres'),
      sharedChannel: ratio(all, 'perSecond', 'three nodes, one channel', 'one node, one channel'),
    },
  }
}

/** Lone appends to one channel and to any of many that are all in use, in turns. */
async function channels(stack: AsyncDisposableStack, directory: string): Promise<Record<string, unknown>> {
  const alone = await startCluster(false)
  stack.defer(() => alone.close())
  await alone.standby.stop()
  const node = stack.use(await startNode({ url: alone.primary.url, keyFile: join(directory, 'c.key') }))
  const many = idsOf(MANY_CHANNELS, 'many')
  await node.create(many)
  await node.append({ channels: many, count: many.length, window: WINDOW })
  const lone = async (some: readonly string[]): Promise<number> =>
    (await node.append({ channels: some, count: LONE, window: 1 })).medianMs
  const measured = { oneMs: [] as number[], anyMs: [] as number[] }
  for (let round = 0; round < ROUNDS; round++) {
    const spread = Array.from(
      { length: LONE },
      (_, at) => many[Math.floor(((at + round / ROUNDS) * many.length) / LONE)],
    )
    measured.oneMs.push(await lone(many.slice(0, 1)))
    measured.anyMs.push(await lone(spread as string[]))
  }
  const { oneMs, anyMs } = measured
  const ratios = anyMs.map((value, at) => value / (oneMs[at] ?? Number.NaN))
  const [one, any] = [rounded(median(oneMs)), rounded(median(anyMs))]
  return { channels: MANY_CHANNELS, oneMs: one, anyMs: any, ratio: rounded(median(ratios)) }
}

async function roundTrips(stack: AsyncDisposableStack): Promise<Record<string, unknown>> {
  process.env['STATIC_TEST_NATS'] ??= await ensureNats()
  const alone = await startCluster(false)
  stack.defer(() => alone.close())
  await alone.standby.stop()
  const { sqlite, twoNodes } = await measureRoundTrips(alone.primary.url, ROUNDS, ROUND_TRIPS)
  const ratios = twoNodes.map((value, at) => value / (sqlite[at] ?? Number.NaN))
  return { sqliteMs: median(sqlite), twoNodesMs: median(twoNodes), ratio: rounded(median(ratios)) }
}

const before = existsSync(RESULTS) ? (JSON.parse(readFileSync(RESULTS, 'utf8')) as Record<string, unknown>) : {}
const directory = mkdtempSync(join(tmpdir(), 'static-bench-'))
const result: Record<string, unknown> = {}
/** One part after another, so that nothing of one part runs during the next. */
for (const [name, part] of Object.entries({ stores, channels, roundTrips })) {
  if (!isWanted(name)) {
    if (name in before) result[name] = before[name]
    continue
  }
  await using stack = new AsyncDisposableStack()
  result[name] = await part(stack, directory)
}
rmSync(directory, { recursive: true, force: true })
const text = `${JSON.stringify({ ...result, targets: TARGETS }, undefined, 2)}\n`
process.stdout.write(text)
writeFileSync(RESULTS, text)
