/** The system under test: `static up` in a process of its own, an account, and agents that use it. */
import { readFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { type ServerOptions, startServer } from '@static/testkit/server'
import type { Workspace } from '@static/testkit/server/workspace'
import { type Group, joinAll } from './group.ts'
import { startAgent, type AgentProcess } from './process.ts'

/** The ways to the relay. */
export const WAYS = ['quic', 'grpc'] as const

/** One of them. */
export type Way = (typeof WAYS)[number]

/** Starts an agent with the options of a client. */
type Start = (options: object) => Promise<AgentProcess>

/** A running system. */
export interface System extends AsyncDisposable {
  readonly pid: number
  /** The options that a client needs to reach it. */
  connection(way: Way): {
    readonly endpoint: string
    readonly apiKey: string
    readonly apiUrl: string
    readonly ca: string
  }
  /** One sender and this many receivers in a channel of this name: TypeScript agents, unless `start` is given. */
  group(way: Way, name: string, receivers: number, start?: Start): Promise<Group>
}

/** Starts the system, without quota. One that is not alone has a name of its own. */
export async function startSystem(
  workspace: Workspace,
  nodeFlags: readonly string[] = [],
  { name = 'server', relay }: { readonly name?: string; readonly relay?: ServerOptions['relay'] } = {},
): Promise<System> {
  const dataDir = workspace.directory(name)
  const settings = { quota: { free: null } }
  await using started = new AsyncDisposableStack()
  const server = started.use(
    await startServer({
      workspace,
      dataDir,
      command: 'up',
      settings,
      logLevel: 'silent',
      nodeFlags,
      ...(relay && { relay }),
    }),
  )
  const ca = join(dataDir, 'ca.pem')
  const apiKey = await signUp(server.url, readFileSync(ca))
  const endpoints = {
    quic: `quic://localhost:${server.relay.quicPort}`,
    grpc: `https://localhost:${server.relay.grpcPort}`,
  }
  const inTypeScript: Start = (options) => startAgent(options, nodeFlags)
  const running = started.move()
  const connection: System['connection'] = (way) => ({ endpoint: endpoints[way], apiKey, apiUrl: server.url, ca })
  return {
    pid: server.pid,
    connection,
    async group(way, name, count, start = inTypeScript) {
      const agent = (role: string): Promise<AgentProcess> => {
        const identity = `${name.replaceAll('/', '-')}-${role}`
        const own = { dataDir: workspace.directory(identity), identity }
        return start({ ...own, ...connection(way) })
      }
      const receivers = await Promise.all(Array.from({ length: count }, (_, at) => agent(String(at))))
      const sender = await agent('sender')
      await joinAll(sender, receivers, name)
      return {
        sender,
        receivers,
        [Symbol.asyncDispose]: async () => {
          for (const member of [sender, ...receivers]) await member[Symbol.asyncDispose]()
        },
      }
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

/** The key of a new account. */
async function signUp(url: string, ca: Buffer): Promise<string> {
  const body = JSON.stringify({ email: 'bench@example.com', password: 'correct horse battery staple' })
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const headers = { 'content-type': 'application/json' }
  const sending = request(
    `${url}/v1/accounts`,
    { method: 'POST', ca, headers },
    (response) => void text(response).then(resolve, reject),
  )
  sending.on('error', reject)
  sending.end(body)
  const { api_key: key } = JSON.parse(await promise) as { api_key: { key: string } }
  return key.key
}
