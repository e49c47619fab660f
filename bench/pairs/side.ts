/**
 * One side of a paired bench: a whole system out of one checkout, with `static up` and ten readers in processes of
 * their own, and the agents that write in this one. This folder is copied into the other checkout, so it uses only what
 * every version has: the command line, the SDK and HTTP.
 */
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { type Channel, StaticClient } from '@static/sdk'
import {
  type Burst,
  channelName,
  type Connections,
  type Cost,
  MARKS,
  MEMBERS,
  type Place,
  type Ready,
  type Way,
} from './messages.ts'
import { ownUsage, since, sum, type Usage } from './usage.ts'

interface ReadyLine {
  readonly api_url: string
  readonly relay_quic?: readonly string[]
  readonly relay_grpc?: readonly string[] | string
}

/** A burst's cost includes writes that were deferred to a later transaction. */
const DEFERRED_MS = 150
/** Messages in flight at once. */
const WINDOW = 64
const PAYLOAD = new Uint8Array(1024)
const PLENTY = { limit: 1_000_000_000, seconds: 3600 }
const SETTINGS = {
  quota: { free: null },
  rates: { account: PLENTY, tokens: PLENTY },
}
const PROBE = ['--import', join(import.meta.dirname, 'probe.ts')]

const { checkout, directory } = JSON.parse(process.argv[2] ?? '{}') as Place
const server = startServer()
const { apiUrl, web, apiKey, connections } = await signUp(await firstLine(server))
const ways = Object.keys(connections) as Way[]
const readers = Array.from({ length: MEMBERS }, (_, at) => startReader(at))
const channels = await joinAll()
const echoes = new Map([...channels].map(([name, channel]) => [name, channel.messages()]))
process.on('message', (burst: Burst | 'usage') => {
  if (burst !== 'usage') void run(burst)
})
process.on('disconnect', () => {
  for (const reader of readers) reader.disconnect()
  server.kill('SIGKILL')
  process.exit(0)
})
process.send?.({ ways } satisfies Ready)

async function run(burst: Burst): Promise<void> {
  const receivers = burst.kind === 'fanOut' ? readers : readers.slice(0, 1)
  const before = await usages(receivers)
  const start = performance.now()
  const begun = String(process.hrtime.bigint())
  const times = await work(burst)
  const wall = performance.now() - start
  const ended = String(process.hrtime.bigint())
  await delay(DEFERRED_MS)
  const after = await usages(receivers)
  const used = (part: keyof typeof after): Usage => since(before[part], after[part])
  const costs = { sender: used('sender'), relay: used('relay'), receivers: used('receivers') }
  process.send?.({ wall, times, ...costs, span: [begun, ended] } satisfies Cost)
}

async function work({ kind, way = 'grpc', count }: Burst): Promise<readonly number[]> {
  if (kind === 'rounds') return await roundTrips(channelName(way, 'one'), count)
  if (kind === 'messages') await stream(channelName(way, 'one'), readers.slice(0, 1), count)
  else if (kind === 'fanOut') await stream(channelName(way, 'ten'), readers, count)
  else {
    const headers = { authorization: `Bearer ${apiKey}` }
    await Promise.all(Array.from({ length: count }, () => call('GET', `${apiUrl}/v1/usage`, headers)))
  }
  return []
}

/** Sends messages until all are acknowledged, and received by all readers. */
async function stream(name: string, to: readonly ChildProcess[], count: number): Promise<void> {
  const received = to.map((reader) => answer(reader, 'last'))
  let left = count
  const lane = async (): Promise<void> => {
    while (left-- > 0) await channels.get(name)?.send(left === 0 ? marked(MARKS.last) : PAYLOAD)
  }
  await Promise.all(Array.from({ length: WINDOW }, lane))
  await Promise.all(received)
}

async function roundTrips(name: string, count: number): Promise<readonly number[]> {
  const times: number[] = []
  const { staticHop } = globalThis as { staticHop?: (hop: string) => void }
  for (let at = 0; at < count; at++) {
    const start = performance.now()
    await Promise.all([channels.get(name)?.send(marked(MARKS.echo)), echoes.get(name)?.next()])
    times.push(performance.now() - start)
    staticHop?.('application')
  }
  return times
}

async function usages(
  receivers: readonly ChildProcess[],
): Promise<{ readonly sender: Usage; readonly relay: Usage; readonly receivers: Usage }> {
  const asked = [server, ...receivers].map(async (child) => {
    const usage = answer(child, 'usage')
    child.send('usage')
    return (await usage) as Usage
  })
  const [relay, ...ofReceivers] = await Promise.all(asked)
  if (!relay) throw new Error('No usage of the server.')
  return { sender: ownUsage(), relay, receivers: sum(ofReceivers) }
}

/** The next message of a child with this field. */
function answer(child: ChildProcess, field: string): Promise<unknown> {
  const { promise, resolve } = Promise.withResolvers<unknown>()
  const take = (message: object): void => {
    if (!(field in message)) return
    child.off('message', take)
    resolve((message as Record<string, unknown>)[field])
  }
  child.on('message', take)
  return promise
}

function startServer(): ChildProcess {
  const plain = join(checkout, 'packages/cli/src/main.js')
  const main = existsSync(plain) ? plain : join(checkout, 'packages/cli/src/main.ts')
  const settings = join(directory, 'settings.json')
  writeFileSync(settings, JSON.stringify(SETTINGS))
  const flags = {
    'data-dir': join(directory, 'server'),
    'log-level': 'silent',
    'api-port': 0,
    'grpc-port': 0,
    'quic-port': 0,
  }
  const words = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, String(value)])
  // A checkout from before files has no such flag.
  const known = readFileSync(join(checkout, 'packages/cli/src/server/relay-flags.ts'), 'utf8')
  if (known.includes('--no-files')) words.push('--no-files')
  return spawn(process.execPath, [...PROBE, main, 'up', '--json', '--settings', settings, ...words], {
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    env: { ...process.env, STATIC_HOPS_ROLE: 'relay' },
  })
}

async function firstLine({ stdout }: ChildProcess): Promise<ReadyLine> {
  if (!stdout) throw new Error('The server has no stdout.')
  const [line] = (await once(createInterface({ input: stdout }), 'line')) as [string]
  return JSON.parse(line) as ReadyLine
}

async function signUp({ api_url: url, relay_quic: quic = [], relay_grpc: grpc = [] }: ReadyLine): Promise<{
  readonly apiUrl: string
  readonly web: Agent
  readonly apiKey: string
  readonly connections: Connections
}> {
  const ca = join(directory, 'server/ca.pem')
  const agent = new Agent({ keepAlive: true, maxSockets: 4, ca: readFileSync(ca) })
  const body = JSON.stringify({ email: 'bench@example.com', password: 'correct horse battery staple' })
  const account = JSON.parse(await call('POST', `${url}/v1/accounts`, {}, body, agent)) as { api_key: { key: string } }
  const { key } = account.api_key
  const endpoints = { grpc: [grpc].flat()[0], quic: quic[0] }
  const found: Connections = {}
  for (const [way, endpoint] of Object.entries(endpoints))
    if (endpoint !== undefined) found[way as Way] = { endpoint, apiUrl: url, apiKey: key, ca }
  return { apiUrl: url, web: agent, apiKey: key, connections: found }
}

function startReader(at: number): ChildProcess {
  const options = {
    directory,
    name: `reader-${at}`,
    connections,
    channels: at === 0 ? ['one', 'ten'] : ['ten'],
  }
  return fork(join(import.meta.dirname, 'reader.ts'), [JSON.stringify(options)], {
    env: { ...process.env, STATIC_HOPS_ROLE: at === 0 ? 'reader' : 'other' },
  })
}

/** The channels by name, with their readers in them. */
async function joinAll(): Promise<ReadonlyMap<string, Channel>> {
  const made = new Map<string, Channel>()
  const offered = await Promise.all(readers.map((reader) => answer(reader, 'keyPackages')))
  const welcomes: Record<string, string>[] = readers.map(() => ({}))
  for (const way of ways) {
    const connection = connections[way]
    if (!connection) continue
    const identity = `writer-${way}`
    const client = await StaticClient.connect({ ...connection, dataDir: join(directory, identity), identity })
    for (const size of ['one', 'ten'] as const) {
      const name = channelName(way, size)
      const channel = await client.createChannel(name)
      const members = (offered as Record<string, string>[]).slice(0, size === 'one' ? 1 : MEMBERS)
      const given = await channel.addMembers(members.map((one) => Buffer.from(one[name] ?? '', 'base64')))
      for (const [at, welcome] of given.entries())
        Object.assign(welcomes[at] ?? {}, { [name]: Buffer.from(welcome).toString('base64') })
      made.set(name, channel)
    }
  }
  await Promise.all(
    readers.map(async (reader, at) => {
      const wanted = Object.keys(welcomes[at] ?? {}).length
      const joined = Promise.withResolvers<void>()
      let seen = 0
      const count = (message: object): void => {
        if (!('joined' in message) || ++seen < wanted) return
        reader.off('message', count)
        joined.resolve()
      }
      reader.on('message', count)
      reader.send(welcomes[at] ?? {})
      await joined.promise
    }),
  )
  return made
}

function marked(mark: number): Uint8Array {
  const payload = PAYLOAD.slice()
  payload[0] = mark
  return payload
}

function call(
  method: string,
  url: string,
  headers: Record<string, string>,
  body?: string,
  agent: Agent = web,
): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const type = body === undefined ? {} : { 'content-type': 'application/json' }
  const sending = request(url, { method, agent, headers: { ...headers, ...type } }, (answered) => {
    text(answered).then((found) => {
      if ((answered.statusCode ?? 500) < 300) resolve(found)
      else reject(new Error(`${method} ${url}: ${answered.statusCode} ${found}`))
    }, reject)
  })
  sending.on('error', reject).end(body)
  return promise
}
