/** Agents and a real relay on loopback. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { StaticError, type TrafficProfileName } from '@static/protocol'
import { startTestRelay, type TestRelay } from '@static/testkit/relay'
import type { Channel } from '../../src/public/channel.ts'
import type { Envelope } from '../../src/public/envelope.ts'
import { StaticClient } from '../../src/public/client.ts'
import type { AgentParts } from '../../src/agent/agent.ts'
import type { AgentEvent } from '../../src/agent/events.ts'
import type { FileParts } from '../../src/files/agent-files.ts'
import { makeFileDisk } from '../../src/store/file-disk.ts'
import { makePartLine } from '../../src/transport/part-line.ts'
import { StaticChannelManager } from '../../src/public/manager.ts'
import type { AgentStore, Transport } from '../../src/ports/index.ts'
import { transportsFor } from '../../src/public/agent-parts.ts'
import type { AgentStoreOptions } from '../../src/store/sqlcipher.ts'
import { agentParts, openStoreOf } from './agent-parts.ts'
import { FoundBugs } from './found-bugs.ts'

/** How agents reach the relay. */
export const WAYS = ['quic', 'grpc'] as const
export type Way = (typeof WAYS)[number]

/**
 * The ways of a story that is not about the network: above a session nothing depends on the way. `npm test` takes the
 * one that is given, some stories the one and some the other; `npm run proof -- ways` takes both.
 */
export function waysFor(short: Way): readonly Way[] {
  return process.env['STATIC_WAYS'] === 'both' ? WAYS : [short]
}

export const NAME = 'acme/support/routing'
/** One account for everybody who is not a guest. */
export const ACCOUNT: string = randomUUID()

/** How an agent differs from an ordinary one. */
export interface AgentOptions {
  /** Whose JWT it gets; null: a guest. */
  readonly account?: string | null
  /** What else its JWT says, in each session. */
  readonly claims?: () => object
  readonly now?: () => number
  readonly chance?: () => number
  readonly turns?: AgentParts['turns']
  readonly proofs?: AgentParts['proofs']
  readonly history?: AgentParts['history']
  /** Wraps the port of files and the disk. */
  readonly files?: (files: FileParts) => FileParts
  /** Wraps the database, for instance to fail in it. */
  readonly store?: (store: AgentStore) => AgentStore
  readonly storeOptions?: Partial<AgentStoreOptions>
  /** Wraps the MLS engine, for instance to see the keys that it makes. */
  readonly engine?: (engine: AgentParts['engine']) => AgentParts['engine']
  /** Wraps the transport, for instance to cut it. */
  readonly transport?: (transport: Transport) => Transport
  /** `standard` if nothing is said. */
  readonly traffic?: TrafficProfileName
  readonly cellsPerSecond?: number
}

/** A relay and the agents that were started on it. */
export class TestSystem {
  readonly relay: TestRelay
  readonly way: Way
  readonly #clients = new Set<StaticClient>()
  readonly #bugs = new FoundBugs()

  private constructor(relay: TestRelay, way: Way) {
    this.relay = relay
    this.way = way
  }

  static async start(
    t: TestContext,
    way: Way,
    options: Parameters<typeof startTestRelay>[1] = {},
  ): Promise<TestSystem> {
    const world = new TestSystem(await startTestRelay(way, options), way)
    t.after(() => world.close())
    return world
  }

  /** Agents on a relay that runs elsewhere. Only what starts agents is there of it. */
  static on(
    t: TestContext,
    way: Way,
    place: Pick<TestRelay, 'api' | 'ca' | 'directory' | 'grpcPort' | 'quicPorts'>,
  ): TestSystem {
    const world = new TestSystem({ ...(place as TestRelay), close: () => Promise.resolve() }, way)
    t.after(() => world.close())
    return world
  }

  directoryOf(name: string): string {
    return join(this.relay.directory, 'agents', name)
  }

  /** Starts the agent of a name, or starts it again. */
  async agent(name: string, options: AgentOptions = {}): Promise<StaticClient> {
    const client = await StaticClient.start(await this.parts(name, options), 'localhost')
    this.#clients.add(client)
    this.#bugs.watch(client)
    return client
  }

  /** Starts a manager of a name, or starts it again. */
  async manager(name: string, options: AgentOptions = {}): Promise<StaticChannelManager> {
    const manager = await StaticChannelManager.start(await this.parts(name, options), 'localhost')
    this.#clients.add(manager.client)
    this.#bugs.watch(manager.client)
    return manager
  }

  /** What an agent is made of. */
  async parts(name: string, options: AgentOptions = {}): Promise<AgentParts> {
    const { relay, way } = this
    const { account = ACCOUNT, transport = same, store: wrap = same, traffic = 'standard' } = options
    const transports = transportsFor(traffic)
    const store = await openStoreOf(name, this.directoryOf(name), options.storeOptions)
    const [quicPort = 0] = relay.quicPorts
    const port = way === 'quic' ? quicPort : relay.grpcPort
    const parts = agentParts({
      store: wrap(store),
      now: options.now,
      chance: options.chance,
      turns: options.turns,
      endpoint: {
        way,
        addresses: [{ host: 'localhost', port }],
        serverName: 'localhost',
        url: `${way}://localhost:${port}`,
      },
      ca: relay.ca,
      transports: {
        ...(transports.quic ? { quic: transport(transports.quic) } : {}),
        grpc: transport(transports.grpc),
      },
      traffic,
      cellsPerSecond: options.cellsPerSecond,
      jwt: account === null ? null : () => relay.api.token(account, { claims: options.claims?.() ?? {} }),
    })
    const files = {
      line: makePartLine({ ca: relay.ca }),
      disk: makeFileDisk(this.directoryOf(name)),
      isShaped: traffic === 'private' || traffic === 'strict',
      visible: false,
    }
    return {
      ...parts,
      proofs: options.proofs,
      history: options.history,
      files: (options.files ?? same)(files),
      engine: (options.engine ?? same)(parts.engine),
    }
  }

  /** An owner and members in one channel; all named, all joined. */
  async channel(owner: StaticClient, members: readonly StaticClient[], name: string = NAME): Promise<Channel[]> {
    const channel = await owner.createChannel(name)
    const keyPackages = await Promise.all(members.map((member) => member.generateKeyPackage()))
    const welcomes = await channel.addMembers(keyPackages)
    const joined = await Promise.all(
      members.map((member, at) => member.joinChannel(name, welcomes[at] ?? new Uint8Array())),
    )
    return [channel, ...joined]
  }

  async close(): Promise<void> {
    for (const client of this.#clients) await client.close()
    await this.relay.close()
    this.#bugs.check()
  }
}

function same<T>(value: T): T {
  return value
}

export const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString()

/** The next payloads of a channel, as texts. */
export async function take(channel: Channel, count: number): Promise<string[]> {
  const taken: string[] = []
  if (count === 0) return taken
  for await (const envelope of channel.envelopes()) {
    taken.push(envelope.text())
    envelope.settle()
    if (taken.length === count) break
  }
  return taken
}

/** The next envelope of a channel, settled. */
export async function takeEnvelope(channel: Channel): Promise<Envelope> {
  for await (const envelope of channel.envelopes()) {
    envelope.settle()
    return envelope
  }
  throw new Error('The channel has ended.')
}

/** Waits for an event of a kind. Begin to wait before it can happen. */
export async function event<Type extends AgentEvent['type']>(
  client: StaticClient,
  type: Type,
  fits: (event: Extract<AgentEvent, { type: Type }>) => boolean = () => true,
): Promise<Extract<AgentEvent, { type: Type }>> {
  for await (const happened of client.events()) {
    if (happened.type !== type) continue
    const found = happened as Extract<AgentEvent, { type: Type }>
    if (fits(found)) return found
  }
  throw new Error(`The agent was closed before ${type}.`)
}

/** For `assert.rejects`: an error of a code. */
export function code(expected: string, words?: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof StaticError, String(error))
    assert.equal(error.code, expected, error.message)
    if (words) assert.match(error.message, words)
    return true
  }
}

/** Adds an agent that has left. Before the member has heard of that, the agent is in the channel already. */
export async function addAgain(channel: Channel, keyPackage: Uint8Array): Promise<Uint8Array> {
  await channel.catchUp()
  return await channel.addMember(keyPackage)
}
