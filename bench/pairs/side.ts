/**
 * One side of a paired bench: a whole system out of one checkout, with `static up` and an agent that reads in processes
 * of their own, and an agent that writes in this one. It is copied into the other checkout, so it uses only what every
 * version has: the command line, the SDK and HTTP.
 */
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { StaticClient } from '@static/sdk'

/** A burst of work: messages without waiting for each, round trips, or requests to the API. */
export interface Burst {
  readonly kind: 'messages' | 'rounds' | 'requests'
  readonly count: number
}

/** What a burst took, and the CPU time of each process meanwhile, in milliseconds. */
export interface Cost {
  readonly wall: number
  readonly server: number
  readonly writer: number
  readonly reader: number
}

interface Place {
  readonly checkout: string
  readonly directory: string
  /** The reader's part: what it needs to connect. */
  readonly reader?: Connection
}

interface Connection {
  readonly endpoint: string
  readonly apiUrl: string
  readonly apiKey: string
  readonly ca: string
}

interface ReadyLine {
  readonly api_url: string
  readonly relay_quic: readonly string[]
}

const TICK_MS = 10
const PAYLOAD = new Uint8Array(1024)
const PLENTY = { limit: 1_000_000_000, seconds: 3600 }
const SETTINGS = {
  quota: { free: null },
  rates: { account: PLENTY, tokens: PLENTY },
}

const place = JSON.parse(process.argv[2] ?? '{}') as Place
await (place.reader ? read(place.reader) : lead())

/** Reads for ever: tells of the last message of a burst, and echoes those of a round trip. */
async function read(connection: Connection): Promise<void> {
  const client = await StaticClient.connect({
    ...connection,
    dataDir: join(place.directory, 'reader'),
    identity: 'reader',
  })
  process.on('disconnect', () => process.exit(0))
  process.send?.(Buffer.from(await client.generateKeyPackage()).toString('base64'))
  const [welcome] = (await once(process, 'message')) as [string]
  const channel = await client.joinChannel('bench/pairs/one', Buffer.from(welcome, 'base64'))
  process.send?.('joined')
  for await (const payload of channel.messages()) {
    if (payload[0] === 1) await channel.send(payload)
    if (payload[0] === 2) process.send?.('last')
  }
}

async function lead(): Promise<void> {
  const { checkout, directory } = place
  const server = startServer(checkout, directory)
  if (!server.stdout) throw new Error('The server has no stdout.')
  const [line] = (await once(createInterface({ input: server.stdout }), 'line')) as [string]
  const {
    api_url: apiUrl,
    relay_quic: [endpoint = ''],
  } = JSON.parse(line) as ReadyLine
  const ca = join(directory, 'server/ca.pem')
  const web = new Agent({ keepAlive: true, maxSockets: 4, ca: readFileSync(ca) })
  const body = JSON.stringify({ email: 'bench@example.com', password: 'correct horse battery staple' })
  const account = JSON.parse(await call(web, 'POST', `${apiUrl}/v1/accounts`, {}, body)) as { api_key: { key: string } }
  const connection = { endpoint, apiUrl, apiKey: account.api_key.key, ca }
  const client = await StaticClient.connect({ ...connection, dataDir: join(directory, 'writer'), identity: 'writer' })
  const reader = fork(import.meta.filename, [JSON.stringify({ ...place, reader: connection })])
  const [keyPackage] = (await once(reader, 'message')) as [string]
  const channel = await client.createChannel('bench/pairs/one')
  const welcome = await channel.addMember(Buffer.from(keyPackage, 'base64'))
  reader.send(Buffer.from(welcome).toString('base64'))
  await once(reader, 'message')

  const echoes = channel.messages()
  const work: Record<Burst['kind'], (count: number) => Promise<unknown>> = {
    async messages(count) {
      const last = once(reader, 'message')
      const payloads = Array.from({ length: count }, (_, at) => (at === count - 1 ? marked(2) : PAYLOAD))
      await Promise.all(payloads.map((payload) => channel.send(payload)))
      await last
    },
    async rounds(count) {
      for (let at = 0; at < count; at++) {
        await channel.send(marked(1))
        await echoes.next()
      }
    },
    async requests(count) {
      const headers = { authorization: `Bearer ${connection.apiKey}` }
      await Promise.all(Array.from({ length: count }, () => call(web, 'GET', `${apiUrl}/v1/usage`, headers)))
    },
  }
  process.on('message', ({ kind, count }: Burst) => {
    const pids = { server: server.pid, writer: process.pid, reader: reader.pid }
    const used = (): number[] => Object.values(pids).map((pid) => cpuMs(pid ?? 0))
    const [start, before] = [performance.now(), used()]
    void work[kind](count).then(() => {
      const wall = performance.now() - start
      const [ofServer = 0, ofWriter = 0, ofReader = 0] = used().map((now, at) => now - (before[at] ?? 0))
      process.send?.({ wall, server: ofServer, writer: ofWriter, reader: ofReader } satisfies Cost)
    })
  })
  process.on('disconnect', () => {
    reader.disconnect()
    server.kill('SIGKILL')
    process.exit(0)
  })
  process.send?.('ready')
}

function startServer(checkout: string, directory: string): ChildProcess {
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
  return spawn(process.execPath, [main, 'up', '--json', '--settings', settings, ...words], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}

function marked(mark: number): Uint8Array {
  const payload = PAYLOAD.slice()
  payload[0] = mark
  return payload
}

function call(
  agent: Agent,
  method: string,
  url: string,
  headers: Record<string, string>,
  body?: string,
): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const type = body === undefined ? {} : { 'content-type': 'application/json' }
  const sending = request(url, { method, agent, headers: { ...headers, ...type } }, (answer) => {
    text(answer).then((found) => {
      if ((answer.statusCode ?? 500) < 300) resolve(found)
      else reject(new Error(`${method} ${url}: ${answer.statusCode} ${found}`))
    }, reject)
  })
  sending.on('error', reject).end(body)
  return promise
}

/** CPU time of a process so far, user and system, all threads. The kernel's tick is 1/100 s. */
function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS
}
