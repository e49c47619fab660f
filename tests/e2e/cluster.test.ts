/**
 * Agents of both SDKs talk over a whole cluster while its parts are killed, restarted and cut off: nothing that was
 * acknowledged is lost or doubled, everyone has one order, and the quota holds. `npm run proof -- cluster` does that
 * longer, in an order of chance, with Python as well, and prints how long agents had to wait.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { StaticChannelManager } from '@static/sdk'
import { randomBelow, SEED } from '@static/testkit/random'
import { makeKey, signUp } from '@static/testkit/server/accounts'
import { makeClient } from '@static/testkit/server/client'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace, type Workspace } from '@static/testkit/server/workspace'
import { IS_WHOLE } from '@static/testkit/whole'
import { Cluster, type Part, RELAY_NODES } from '../support/cluster.ts'
import { checkTalk, pythonVoice, Talker, typescriptVoice, type Way } from '../support/talker.ts'

const CHANNEL = 'acme/cluster/talk'
/** How many faults there are, in an order of chance; without it, each fault once, or in the short form some of them. */
const KILLS = Number(process.env['STATIC_KILLS'] ?? 0)
const IS_LONG = KILLS > 0
const MESSAGES = Number(process.env['STATIC_MESSAGES'] ?? (IS_WHOLE ? 100 : 40))
/** Agents should wait as with the default pings, unless it takes too long. */
const RELAY = IS_LONG ? {} : { session: { pingMs: 1000, pongMs: 1000 } }
/** What all agents of an account may send in test mode. */
const TEST_QUOTA = IS_LONG ? 1000 : 50
/** Small leases that end soon, so that kills cost some of the quota, and not all of it. */
const API = { ...QUICK, quota: { free: null, test: TEST_QUOTA }, lease: { chunk: 20, seconds: 15 } }
/** Between two messages of an agent. */
const PAUSE_MS = IS_LONG ? 50 : 250
const NATS_AWAY_MS = IS_LONG ? 30_000 : 0
const random = randomBelow(SEED)

/** Does something to the cluster, measures how long agents wait, and repairs it. */
type Fault = (cluster: Cluster, measure: () => Promise<void>) => Promise<void>

/** A relay node with sessions: one of them by chance, or the one with most. */
async function someRelay(cluster: Cluster): Promise<number> {
  const busy = await cluster.busiest()
  return busy[IS_LONG ? random(busy.length) : 0] ?? 0
}

const cutOff =
  (part: Part): Fault =>
  async (cluster, measure) => {
    const at = await someRelay(cluster)
    cluster.cut(at, part)
    await measure()
    cluster.mend(at, part)
  }

const FAULTS: Readonly<Record<string, Fault>> = {
  'relay node killed': async (cluster, measure) => {
    const at = await someRelay(cluster)
    await cluster.killRelay(at)
    await measure()
    await cluster.startRelay(at)
  },
  'rolling restart': async (cluster, measure) => {
    for (let at = 0; at < RELAY_NODES; at++) {
      const stopped = cluster.stopRelay(at)
      await measure()
      await stopped
      await cluster.startRelay(at)
    }
  },
  'API node killed': async (cluster, measure) => {
    const at = random(2)
    await cluster.killApi(at)
    await measure()
    await cluster.startApi(at)
  },
  'NATS gone': async ({ nats }, measure) => {
    await nats.stop()
    await measure()
    await delay(NATS_AWAY_MS)
    await measure()
    await nats.start()
  },
  'cut off from NATS': cutOff('nats'),
  'cut off from PostgreSQL': cutOff('postgres'),
  'primary killed, restarted': async ({ postgres: { primary } }, measure) => {
    await primary.kill()
    await primary.start()
    await measure()
  },
  'standby promoted': async ({ postgres }, measure) => {
    await postgres.failOver()
    await measure()
    if (IS_LONG) await postgres.rebuildStandby()
  },
}

/** Those of the short form: each kind of part fails once. */
const SHORT = ['relay node killed', 'API node killed', 'NATS gone', 'standby promoted']

/** The longest that agents should wait until their message is stored, in seconds. */
const LIMITS: Readonly<Record<string, Readonly<Record<Way, number>>>> = {
  'relay node killed': { grpc: 2, quic: 11 },
  'cut off from PostgreSQL': { grpc: 12, quic: 12 },
  'standby promoted': { grpc: 3, quic: 3 },
}

/** How long an agent waited in one fault, in seconds: for its message to be stored, and to reach all others. */
interface Wait {
  readonly fault: string
  readonly way: Way
  readonly stored: number
  readonly delivered: number
}

/** Every agent says something now. */
async function speak(fault: string, talkers: readonly Talker[]): Promise<Wait[]> {
  const since = performance.now()
  const passed = (): number => (performance.now() - since) / 1000
  return Promise.all(
    talkers.map(async (talker) => {
      const said = await talker.say()
      const stored = passed()
      await Promise.all(talkers.map((other) => other.hears(said)))
      return { fault, way: talker.way, stored, delivered: passed() }
    }),
  )
}

/** The waits of each fault in one line. */
function report(waits: readonly Wait[]): string[] {
  const most = (some: readonly Wait[], key: 'stored' | 'delivered'): string =>
    Math.max(...some.map((wait) => wait[key])).toFixed(1)
  return [...Map.groupBy(waits, ({ fault }) => fault)].map(([fault, some]) => {
    const ways = [...Map.groupBy(some, ({ way }) => way)].map(([way, those]) => {
      const limit = LIMITS[fault]?.[way]
      return `${most(those, 'stored')} s on ${way}${limit === undefined ? '' : ` (limit ${limit} s)`}`
    })
    return `${fault}: stored within ${ways.join(', ')}; delivered within ${most(some, 'delivered')} s (${some.length} sends)`
  })
}

/** While it runs: the long form takes most of an hour. */
function progress(line: string): void {
  if (IS_LONG) process.stderr.write(`${line}\n`)
}

/** Each fault once in the order of the table, or some of them; or so many, each as often as the others, in an order of chance. */
function chosenFaults(): string[] {
  const names = Object.keys(FAULTS)
  if (!IS_LONG) return IS_WHOLE ? names : SHORT
  const order: string[] = []
  while (order.length < KILLS) {
    const left = [...names]
    while (left.length > 0) order.push(...left.splice(random(left.length), 1))
  }
  return order.slice(0, KILLS)
}

/** An account with agents on the cluster. */
class Crowd implements AsyncDisposable {
  readonly talkers: Talker[] = []
  readonly #workspace: Workspace
  readonly #cluster: Cluster
  readonly #stack = new AsyncDisposableStack()

  constructor(workspace: Workspace, cluster: Cluster) {
    this.#workspace = workspace
    this.#cluster = cluster
  }

  /** Members of one channel. */
  async talk(apiKey: string): Promise<void> {
    const owner = await this.connect('owner', 'grpc', apiKey)
    await owner.create(CHANNEL)
    this.talkers.push(new Talker('owner', 'grpc', typescriptVoice(owner, CHANNEL)))
    const ways: Way[] = IS_LONG ? ['quic', 'grpc', 'quic'] : ['quic', 'grpc']
    const token = await owner.invite(CHANNEL, { maxUses: ways.length + 1 })
    for (const [at, way] of ways.entries()) {
      const member = await this.connect(`member-${at}`, way, apiKey)
      await member.joinWithToken(CHANNEL, token)
      this.talkers.push(new Talker(`member-${at}`, way, typescriptVoice(member, CHANNEL)))
    }
    if (!IS_LONG) return
    const { relayName, apiUrl, dataDir, ...same } = this.#options('python', 'quic')
    const options = { ...same, relay_name: relayName, api_url: apiUrl, api_key: apiKey, data_dir: dataDir }
    const home = this.#workspace.directory('python-home')
    const voice = this.#stack.use(await pythonVoice({ options, channel: CHANNEL, token }, home))
    this.talkers.push(new Talker('python', 'quic', voice))
  }

  async connect(identity: string, way: Way, apiKey: string): Promise<StaticChannelManager> {
    // On a busy machine the first attempts may take too long.
    const options = { ...this.#options(identity, way), apiKey, traffic: 'off', wait: true } as const
    return this.#stack.use(await StaticChannelManager.connect(options))
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync()
  }

  #options(
    identity: string,
    way: Way,
  ): Record<'identity' | 'endpoint' | 'relayName' | 'apiUrl' | 'dataDir' | 'ca', string> {
    return {
      identity,
      endpoint: this.#cluster.endpoint(way),
      relayName: 'localhost',
      apiUrl: this.#cluster.apiUrl(random(2)),
      dataDir: this.#workspace.directory(identity),
      ca: this.#workspace.caFile,
    }
  }
}

/** Sends until the quota is used up, slowly while there are faults. Returns how many messages were stored. */
async function spend(manager: StaticChannelManager, channel: string, faults: AbortSignal): Promise<number> {
  await manager.create(channel)
  for (let stored = 0; ; stored++) {
    try {
      await manager.send(channel, 'spent')
    } catch (error) {
      assert.equal((error as { code?: string }).code, 'quota_exceeded')
      return stored
    }
    if (!faults.aborted) await delay(IS_LONG ? 200 : 500)
  }
}

test(`agents continue while a cluster fails around them, seed ${SEED}`, { timeout: 7_200_000 }, async (t) => {
  using workspace = await makeWorkspace()
  await using cluster = await Cluster.start(workspace, { api: API, relay: RELAY })
  using client = makeClient(cluster.apiUrl(0), workspace.ca)
  const { api_key: key } = await signUp(client)
  const testKey = await makeKey(client, key.key, { mode: 'test' })
  await using crowd = new Crowd(workspace, cluster)
  await crowd.talk(key.key)
  const { talkers } = crowd
  const faultsOver = new AbortController()
  const spenders = (IS_LONG ? ['spender-0', 'spender-1'] : ['spender']).map(async (name) =>
    spend(await crowd.connect(name, 'grpc', testKey.key), `acme/cluster/${name}`, faultsOver.signal),
  )
  const stored = (): number => talkers.reduce((sum, { sent }) => sum + sent.length, 0)
  for (const talker of talkers) talker.begin(PAUSE_MS)
  const failed = Promise.all([...talkers.map(({ talking }) => talking), ...spenders])

  const waits: Wait[] = []
  const faults = chosenFaults()
  for (const [at, name] of faults.entries()) {
    const before = waits.length
    const fault = FAULTS[name]?.(cluster, async () => void waits.push(...(await speak(name, talkers))))
    await Promise.race([fault, failed])
    progress(`${at + 1} of ${faults.length}, ${stored()} messages: ${report(waits.slice(before)).join()}`)
    while (stored() < (MESSAGES * (at + 1)) / faults.length) await Promise.race([delay(20), failed])
  }
  faultsOver.abort()
  await Promise.all(talkers.map((talker) => talker.stop()))
  for (const { name, sent } of talkers) {
    await Promise.all(talkers.map((other) => other.hears(`${name} ${sent.length}`)))
  }
  checkTalk(talkers)
  const spent = (await Promise.all(spenders)).reduce((sum, count) => sum + count, 0)
  assert.ok(spent <= TEST_QUOTA, `${spent} of ${TEST_QUOTA} messages were stored`)
  for (const line of report(waits)) t.diagnostic(line)
  t.diagnostic(`promise T1: cluster: ${stored()} messages over ${faults.length} faults, 0 lost`)
  t.diagnostic(`promise T4: cluster: ${stored()} messages over ${faults.length} faults, 0 doubled, one order`)
  t.diagnostic(`promise T10: ${spent} of a quota of ${TEST_QUOTA} spent`)
})
