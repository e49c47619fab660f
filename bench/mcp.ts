/**
 * What `static mcp` adds to the bare SDK, in one run: from a call of `send` in one host to the answer of `receive` in
 * another, beside two processes with an agent each. Each message starts when both agents have answered a ping: the
 * clock of a host would otherwise count what an agent still has to do for the message before, such as a write to disk,
 * and the clock in an agent's own process would not. Also memory and CPU until it is ready, beside such a process; and
 * the bytes that a model reads. `STATIC_BENCH_MCP=50` chooses the number of messages.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { StaticChannelManager } from '@static/sdk'
import { MAIN } from '@static/testkit/server/process'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { percentile } from './agent/group.ts'
import { startSystem } from './agent/system.ts'
import { cpuMs, median, residentMib } from './api/processor.ts'
import type { Ask, Told } from './mcp/peer.ts'

const COUNT = Number(process.env['STATIC_BENCH_MCP'] ?? 200)
const ROUNDS = 3
const SHORT = 'Review of #7 is done.'
const TARGETS = { p50: 1.3, memoryMib: 40, readyCpuSeconds: 0.3, descriptionBytes: 6144, hundredMessagesBytes: 16_384 }

using workspace = await makeWorkspace()
await using system = await startSystem(workspace)
const connection = system.connection('quic')
const directoryOf = (identity: string): string => join(workspace.path, 'agents', identity)
const agent = (identity: string): Promise<StaticChannelManager> =>
  StaticChannelManager.connect({ ...connection, identity, dataDir: directoryOf(identity) })

/** A channel with two agents, which are closed again. */
async function pair(name: string, one: string, other: string): Promise<void> {
  await using owner = await agent(one)
  await using member = await agent(other)
  await owner.create(name)
  await member.joinWithToken(name, await owner.invite(name))
}

interface Host {
  readonly client: Client
  readonly pid: number
}

function environment(): Record<string, string> {
  return {
    PATH: process.env['PATH'] ?? '',
    HOME: workspace.path,
    NODE_COMPILE_CACHE: join(workspace.path, 'compiled'),
    STATIC_RELAY: connection.endpoint,
    STATIC_API_URL: connection.apiUrl,
    STATIC_API_KEY: connection.apiKey,
    STATIC_CA: connection.ca,
  }
}

async function host(identity: string): Promise<Host> {
  const client = new Client({ name: 'bench', version: '1' })
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [MAIN, 'mcp', '--as', identity, '--data-dir', directoryOf(identity)],
    env: environment(),
  })
  await client.connect(transport)
  return { client, pid: transport.pid ?? 0 }
}

async function call(to: Host, name: string, args: Record<string, unknown> = {}): Promise<string> {
  const { content, isError } = await to.client.callTool({ name, arguments: args })
  const [block] = content
  const text = block?.type === 'text' ? block.text : ''
  if (isError) throw new Error(text)
  return text
}

/** A process with an agent. */
class Peer {
  readonly #child: ChildProcess

  private constructor(child: ChildProcess) {
    this.#child = child
  }

  static async start(identity: string): Promise<Peer> {
    const options = { ...connection, identity, dataDir: directoryOf(identity) }
    const child = fork(join(import.meta.dirname, 'mcp/peer.ts'), [JSON.stringify(options)], { env: environment() })
    await once(child, 'message')
    return new Peer(child)
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  async ask(ask: Ask): Promise<Told> {
    const told = once(this.#child, 'message')
    this.#child.send(ask)
    return (await told)[0] as Told
  }

  async close(): Promise<void> {
    const ended = once(this.#child, 'exit')
    this.#child.disconnect()
    await ended
  }
}

/** The median time from `send` until the other side has the message, in milliseconds. */
async function bareTime(): Promise<number> {
  const name = 'bench/mcp/bare'
  const [one, other] = [await Peer.start('bare-1'), await Peer.start('bare-2')]
  const times: number[] = []
  for (let at = 0; at < COUNT; at++) {
    await Promise.all([one, other].map((peer) => peer.ask({ type: 'ping', name, text: '' })))
    const received = other.ask({ type: 'receive', name, text: '' })
    const sent = await one.ask({ type: 'send', name, text: SHORT })
    times.push(Math.max((await received).ended, sent.ended) - sent.began)
  }
  await Promise.all([one.close(), other.close()])
  return percentile(times, 0.5)
}

/** The same, measured from tool to tool. */
async function toolTime(): Promise<number> {
  const channel = 'bench/mcp/hosts'
  const [one, other] = [await host('host-1'), await host('host-2')]
  await Promise.all([call(one, 'channels'), call(other, 'channels')])
  const times: number[] = []
  for (let at = 0; at < COUNT; at++) {
    await Promise.all([one.client.ping(), other.client.ping()])
    const received = call(other, 'receive')
    const start = performance.now()
    await Promise.all([call(one, 'send', { channel, text: SHORT }), received])
    times.push(performance.now() - start)
  }
  await Promise.all([one.client.close(), other.client.close()])
  return percentile(times, 0.5)
}

interface Use {
  readonly mib: number
  readonly cpu: number
}

function useOf(pid: number): Use {
  return { mib: residentMib(pid), cpu: cpuMs(pid) / 1000 }
}

/** Memory and CPU of a process with one connected agent. */
async function bareUse(): Promise<Use> {
  const peer = await Peer.start('bare-1')
  const use = useOf(peer.pid)
  await peer.close()
  return use
}

async function mcpUse(): Promise<Use> {
  const started = await host('host-1')
  await call(started, 'channels')
  const use = useOf(started.pid)
  await started.client.close()
  return use
}

await pair('bench/mcp/bare', 'bare-1', 'bare-2')
await pair('bench/mcp/hosts', 'host-1', 'host-2')

const bare: number[] = []
const tools: number[] = []
const bareUses: Use[] = []
const mcpUses: Use[] = []
// The first ones fill the cache of compiled code.
await bareUse()
await mcpUse()
for (let round = 0; round < ROUNDS; round++) {
  bare.push(await bareTime())
  tools.push(await toolTime())
  bareUses.push(await bareUse())
  mcpUses.push(await mcpUse())
}

const [one, other] = [await host('host-1'), await host('host-2')]
const described = Buffer.byteLength(JSON.stringify((await one.client.listTools()).tools))
for (let at = 0; at < 100; at++) await call(one, 'send', { channel: 'bench/mcp/hosts', text: SHORT })
let [bytes, count] = [0, 0]
while (count < 100) {
  const text = await call(other, 'receive')
  bytes += Buffer.byteLength(text)
  count += text.split('"index":').length - 1
}
await Promise.all([one.client.close(), other.client.close()])

const more = (key: 'mib' | 'cpu'): number =>
  median(mcpUses.map((use) => use[key])) - median(bareUses.map((use) => use[key]))
const results = {
  p50Ms: { bare: median(bare), tools: median(tools), ratio: Number((median(tools) / median(bare)).toFixed(2)) },
  memoryMib: { bare: Math.round(median(bareUses.map(({ mib }) => mib))), more: Math.round(more('mib')) },
  readyCpuSeconds: { bare: median(bareUses.map(({ cpu }) => cpu)), more: Number(more('cpu').toFixed(2)) },
  descriptionBytes: described,
  hundredMessagesBytes: bytes,
  targets: TARGETS,
}
console.log(JSON.stringify(results, null, 2))
writeFileSync(join(import.meta.dirname, 'results/mcp.json'), `${JSON.stringify(results, null, 2)}\n`)
const isMet =
  results.p50Ms.ratio <= TARGETS.p50 &&
  results.memoryMib.more <= TARGETS.memoryMib &&
  results.readyCpuSeconds.more <= TARGETS.readyCpuSeconds &&
  described <= TARGETS.descriptionBytes &&
  bytes <= TARGETS.hundredMessagesBytes
if (!isMet) process.exitCode = 1
