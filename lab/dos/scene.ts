/** The servers, a probe that uses them all the while, and attackers in processes of their own. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { StaticChannelManager } from '@static/sdk'
import { type Server, startServer } from '@static/testkit/server'
import { signUp } from '@static/testkit/server/accounts'
import { type Client, makeClient } from '@static/testkit/server/client'
import { HIGH_RATES } from '@static/testkit/server/settings'
import { makeWorkspace, type Workspace } from '@static/testkit/server/workspace'
import type { Counts, Order, Report, Target } from './target.ts'

const CHILD = join(import.meta.dirname, 'child.ts')
const CHANNEL = 'acme/probe/one'
/** The probe calls more often than an account may. */
const SETTINGS = { rates: { account: HIGH_RATES['account'] } }
/** Pause between two probes. */
const PAUSE_MS = 10

/** The addresses of attackers, and their connections from each. */
const ADDRESSES = 4
const CONNECTIONS = 600

/** How long an attack may take to reach its size. */
const MOST_WARM_UP_MS = 120_000

const NOTHING: Counts = { hits: 0, tried: 0, held: 0 }

/** The times of a series of probes, in milliseconds. */
export interface Series {
  /** Times of a call to the API with a key. */
  readonly api: readonly number[]
  /** Times of a message, from its sender to its receiver. */
  readonly message: readonly number[]
}

/** A running scene. */
export class Scene implements AsyncDisposable {
  readonly #workspace: Workspace
  readonly #server: Server
  readonly #client: Client
  readonly #key: string
  readonly #pair: readonly [StaticChannelManager, StaticChannelManager]
  readonly #target: Omit<Target, 'size' | 'addresses'>
  readonly #received: AsyncIterator<unknown>

  private constructor(
    workspace: Workspace,
    server: Server,
    client: Client,
    key: string,
    pair: readonly [StaticChannelManager, StaticChannelManager],
    target: Omit<Target, 'size' | 'addresses'>,
    received: AsyncIterator<unknown>,
  ) {
    this.#workspace = workspace
    this.#server = server
    this.#client = client
    this.#key = key
    this.#pair = pair
    this.#target = target
    this.#received = received
  }

  static async start(): Promise<Scene> {
    const workspace = await makeWorkspace()
    const dataDir = workspace.directory('server')
    const server = await startServer({ workspace, dataDir, command: 'up', logLevel: 'silent', settings: SETTINGS })
    const ca = readFileSync(join(dataDir, 'ca.pem'), 'utf8')
    const client = makeClient(server.url, ca, { connections: 1 })
    const [own, other] = [await signUp(client), await signUp(client)]
    const { grpcPort, quicPort } = server.relay
    const key = own.api_key.key
    const options = { apiUrl: server.url, apiKey: key, ca, fallback: false } as const
    const open = (identity: string, endpoint: string): Promise<StaticChannelManager> =>
      StaticChannelManager.connect({ ...options, identity, endpoint, dataDir: join(workspace.path, identity) })
    const ann = await open('ann', `https://localhost:${grpcPort}`)
    const bob = await open('bob', `quic://localhost:${quicPort}`)
    await ann.client.createChannel(CHANNEL)
    const channel = await bob.joinWithToken(CHANNEL, await ann.invite(CHANNEL))
    const attacker = other.api_key.key
    const { token } = await client.json<{ token: string }>(200, { method: 'POST', path: '/v1/tokens', key: attacker })
    const target = {
      apiPort: Number(new URL(server.url).port),
      grpcPort,
      quicPort,
      ca,
      apiKey: attacker,
      token,
      victim: bob.client.agentId,
    }
    const received = channel.messages()[Symbol.asyncIterator]()
    return new Scene(workspace, server, client, key, [ann, bob], target, received)
  }

  /** Probes for this long, and at least this often. */
  async probe(milliseconds: number, least = 3): Promise<Series> {
    const api: number[] = []
    const message: number[] = []
    const end = performance.now() + milliseconds
    while (performance.now() < end || api.length < least) {
      api.push(await timed(() => this.#client.json(200, { path: '/v1/usage', key: this.#key })))
      message.push(
        await timed(async () => {
          const next = this.#received.next()
          await this.#pair[0].send(CHANNEL, 'probe')
          await next
        }),
      )
      await pause(PAUSE_MS)
    }
    return { api, message }
  }

  /**
   * Lets attacks run while something else happens, from when each has come far enough, or for a while. Returns the
   * progress of each as well, with the lowest number of connections that it held in that time.
   */
  async under<Result>(
    attacks: readonly string[],
    size: number,
    work: () => Promise<Result>,
    isFar: (counts: Counts) => boolean = ({ hits }) => hits > 0,
  ): Promise<{ readonly result: Result; readonly counts: ReadonlyMap<string, Counts> }> {
    // Not the probe's address; more than one only where an address may not have enough connections.
    const length = Math.max(ADDRESSES, Math.ceil(size / CONNECTIONS))
    const addresses = Array.from({ length }, (_, at) => `127.0.${1 + at}.1`)
    const order: Order = { attacks, target: { ...this.#target, size, addresses } }
    const child = fork(CHILD, [JSON.stringify(order)], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    const exited = once(child, 'exit')
    const counts = new Map<string, Counts>()
    let isWorking = false
    try {
      await new Promise<void>((resolve, reject) => {
        // At its low priority it may get little time.
        setTimeout(resolve, MOST_WARM_UP_MS).unref()
        child.on('message', (told) => {
          const { attack, counts: now } = told as Report
          const held = isWorking ? Math.min(now.held, counts.get(attack)?.held ?? 0) : now.held
          counts.set(attack, { ...now, held })
          if (attacks.every((name) => isFar(counts.get(name) ?? NOTHING))) resolve()
        })
        child.once('exit', () => reject(new Error('The attacker has ended.')))
      })
      isWorking = true
      return { result: await work(), counts }
    } finally {
      child.kill('SIGKILL')
      await exited
    }
  }

  /** Resident memory of the servers, in bytes. */
  get memory(): number {
    const status = readFileSync(`/proc/${this.#server.pid}/status`, 'utf8')
    return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? 0) * 1024
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#pair.map((manager) => manager.close()))
    this.#client.close()
    await this.#server.end('SIGTERM')
    this.#workspace[Symbol.dispose]()
  }
}

/** The value below which 99 of 100 are. */
export function p99(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * 0.99))] ?? 0
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now()
  await work()
  return performance.now() - started
}
