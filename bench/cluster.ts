/**
 * What PostgreSQL costs the relay: appends of 1 KiB through the store, by one node, over SQLite, over PostgreSQL, and with
 * a synchronous standby; in turns, so that all see the same machine. The measures are appends per second with 64 under
 * way, the time of a lone append, CPU per append (node and servers), and a lone append among 100,000 channels.
 */
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startCluster } from '@static/testkit/postgres/cluster'
import { openPostgresStore, openSqliteStore, type Retention, type Store } from '@static/testkit/store/relay-engines'
import { median } from './api/processor.ts'

const ROUNDS = Number(process.env['STATIC_BENCH_ROUNDS'] ?? 5)
const APPENDS = 4000
const WINDOW = 64
const LONE = 200
const MANY_CHANNELS = Number(process.env['STATIC_BENCH_CHANNELS'] ?? 100_000)
const BODY = randomBytes(1024)
const RETENTION: Retention = {
  entryMs: 7 * 86_400_000,
  messageIdMs: 7 * 86_400_000,
  channelBytes: 2 ** 40,
  channelEntries: 2 ** 40,
  accountBytes: 2 ** 50,
  freeControl: 120,
  freeCommitBytes: 2 ** 40,
  freeChannelCommitBytes: 2 ** 40,
  memberAddsPerHour: 60,
}
const TARGETS = { appends: 0.6, lone: 2.2, manyChannels: 1.3 } as const

interface Figures {
  perSecond: number[]
  loneMs: number[]
  nodeCpu: number[]
  serverCpu: number[]
}

/** One owner per channel; messages under way at once belong to different channels. */
class Load {
  readonly store: Store
  readonly #counters = new Map<string, number>()

  constructor(store: Store) {
    this.store = store
  }

  async create(count: number, prefix: string): Promise<string[]> {
    const channels = Array.from({ length: count }, (_, at) => idOf(`${prefix} ${at}`))
    for (let at = 0; at < count; at += 256) {
      await Promise.all(channels.slice(at, at + 256).map((channel) => this.#create(channel)))
    }
    return channels
  }

  async append(channel: string): Promise<void> {
    const counter = (this.#counters.get(channel) ?? 0) + 1
    this.#counters.set(channel, counter)
    const request = { slot: 0, messageId: randomBytes(16), counter, control: false, ciphertext: BODY, paid: true }
    const result = await this.store.run('append', { actor: actorOf(channel), channel, ...request, now: Date.now() })
    if (!('index' in result)) throw new Error(JSON.stringify(result))
  }

  async #create(channel: string): Promise<void> {
    const request = { actor: actorOf(channel), channel, name: `a/b/${channel}`, welcome: BODY, guestLimit: 0 }
    const result = await this.store.run('create', { ...request, maxChannels: 1e9, now: Date.now() })
    if ('refused' in result) throw new Error(result.refused)
  }
}

function idOf(text: string): string {
  return Buffer.from(text).toString('hex').padEnd(32, '0').slice(0, 32)
}

/** An account for each channel: sizes of accounts are summed over their channels. */
function actorOf(channel: string): { agent: string; account: { id: string; mode: 'live' } } {
  return { agent: channel.repeat(2), account: { id: channel, mode: 'live' } }
}

/** CPU microseconds of all processes of PostgreSQL under these first processes. Ended ones count with their parent. */
function serverCpu(parents: readonly (number | undefined)[]): number {
  let ticks = 0
  for (const name of readdirSync('/proc').filter((each) => /^\d+$/.test(each))) {
    try {
      const fields = readFileSync(`/proc/${name}/stat`, 'utf8')
        .replace(/^.*\) /, '')
        .split(' ')
      if (!parents.includes(Number(name)) && !parents.includes(Number(fields[1]))) continue
      for (const at of [11, 12]) ticks += Number(fields[at])
    } catch {
      // It has ended.
    }
  }
  return ticks * 10_000
}

async function measure(
  load: Load,
  channels: readonly string[],
  pids: readonly (number | undefined)[],
): Promise<Figures> {
  const before = { node: process.cpuUsage(), servers: serverCpu(pids), at: performance.now() }
  let next = 0
  const work = async (): Promise<void> => {
    while (next < APPENDS) await load.append(channels[next++ % channels.length] ?? '')
  }
  await Promise.all(Array.from({ length: WINDOW }, work))
  const seconds = (performance.now() - before.at) / 1000
  const { user, system } = process.cpuUsage(before.node)
  const servers = serverCpu(pids) - before.servers
  const lone = await loneMs(load, channels)
  return {
    perSecond: [APPENDS / seconds],
    loneMs: [lone],
    nodeCpu: [(user + system) / APPENDS],
    serverCpu: [servers / APPENDS],
  }
}

async function loneMs(load: Load, channels: readonly string[]): Promise<number> {
  const times: number[] = []
  for (let at = 0; at < LONE; at++) {
    const started = performance.now()
    await load.append(channels[Math.floor((at * channels.length) / LONE)] ?? '')
    times.push(performance.now() - started)
  }
  return median(times)
}

const directory = mkdtempSync(join(tmpdir(), 'static-bench-'))
const alone = await startCluster(false)
const pair = await startCluster()
const open = (url: string, name: string): ReturnType<typeof openPostgresStore> =>
  openPostgresStore({ url, keyFile: join(directory, name), retention: RETENTION }, () => {})
const postgres = await open(alone.url, 'one.key')
const sqlite = await openSqliteStore({ path: join(directory, 'relay.sqlite'), retention: RETENTION }, () => {})
const standby = await open(pair.url, 'two.key')
const engines = {
  sqlite: { load: new Load(sqlite), pids: [] },
  postgres: { load: new Load(postgres), pids: [alone.primary.pid] },
  'postgres with standby': { load: new Load(standby), pids: [pair.primary.pid, pair.standby.pid] },
} as const
try {
  const all = new Map<string, Figures>()
  const channels = new Map<string, string[]>()
  for (const [name, { load }] of Object.entries(engines)) channels.set(name, await load.create(WINDOW, 'few'))
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, { load, pids }] of Object.entries(engines)) {
      const figures = await measure(load, channels.get(name) ?? [], pids)
      const known = all.get(name)
      if (!known) all.set(name, figures)
      else for (const key of Object.keys(known) as (keyof Figures)[]) known[key].push(...figures[key])
    }
  }
  const summary = Object.fromEntries(
    [...all].map(([name, figures]) => [
      name,
      Object.fromEntries(Object.entries(figures).map(([key, values]) => [key, Number(median(values).toFixed(2))])),
    ]),
  )
  const { load } = engines.postgres
  const few = await loneMs(load, channels.get('postgres')?.slice(0, 1) ?? [])
  const many = await loneMs(load, await load.create(MANY_CHANNELS, 'many'))
  const ratio = (one: keyof Figures, name: string): number =>
    Number(((summary[name]?.[one] ?? 0) / (summary['sqlite']?.[one] ?? 1)).toFixed(2))
  const result = {
    ...summary,
    ratios: {
      appends: ratio('perSecond', 'postgres'),
      lone: ratio('loneMs', 'postgres'),
      appendsWithStandby: ratio('perSecond', 'postgres with standby'),
      loneWithStandby: ratio('loneMs', 'postgres with standby'),
      manyChannels: Number((many / few).toFixed(2)),
    },
    targets: TARGETS,
    manyChannels: { channels: MANY_CHANNELS, oneMs: few, manyMs: many, cached: postgres.cached },
  }
  mkdirSync('bench/results', { recursive: true })
  writeFileSync('bench/results/cluster.json', `${JSON.stringify(result, undefined, 2)}\n`)
  process.stdout.write(`${JSON.stringify(result, undefined, 2)}\n`)
} finally {
  await Promise.all([sqlite.close(), postgres.close(), standby.close()])
  await Promise.all([alone.close(), pair.close()])
  rmSync(directory, { recursive: true, force: true })
}
