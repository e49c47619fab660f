/** Agents on a relay that lies: as `test-system.ts`, without a network, and without a disk unless a test asks for one. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { Channel } from '../../src/public/channel.ts'
import { StaticClient } from '../../src/public/client.ts'
import type { AgentParts } from '../../src/agent/agent.ts'
import { StaticChannelManager } from '../../src/public/manager.ts'
import type { AgentId, AgentStore, SessionInfo } from '../../src/ports/index.ts'
import { FORMS } from '../../src/session/io.ts'
import { makeMemoryStore } from '@static/testkit/store/agent-memory'
import { makeMemoryTransport } from '@static/testkit/transport/memory'
import { agentParts, newIdentity, openStoreOf } from './agent-parts.ts'
import { FoundBugs } from './found-bugs.ts'
import { LyingRelay } from './lying-relay.ts'
import type { Room } from './lying-room.ts'
import { NAME, take } from './test-system.ts'

/** How an agent differs from an ordinary one. */
export interface LyingAgentOptions {
  readonly guest?: boolean
  readonly now?: () => number
  readonly chance?: () => number
  /** Its database is a file in a directory of the test. */
  readonly disk?: boolean
  /** What makes and checks its proofs. */
  readonly proofs?: AgentParts['proofs']
}

/** What the relay calls itself. */
export const RELAY = 'relay.test'

/** A relay that lies, and the agents that were started on it. */
export class LyingSystem {
  readonly relay: LyingRelay
  /** The databases by name, for a test that steals one. */
  readonly stores: Map<string, AgentStore> = new Map()
  readonly #clients: StaticClient[] = []
  readonly #bugs = new FoundBugs()
  #directory: string | undefined

  private constructor(relay: LyingRelay) {
    this.relay = relay
  }

  static start(t: TestContext, options: { readonly tape?: boolean } = {}): LyingSystem {
    const world = new LyingSystem(new LyingRelay(options))
    t.after(() => world.close())
    return world
  }

  /** Starts an agent. */
  async agent(name: string, options: LyingAgentOptions = {}): Promise<StaticClient> {
    const client = await StaticClient.start(await this.parts(name, options), RELAY)
    this.#clients.push(client)
    this.#bugs.watch(client)
    return client
  }

  /** Starts several. */
  async agents<Names extends readonly string[]>(...names: Names): Promise<{ [At in keyof Names]: StaticClient }> {
    const clients: StaticClient[] = []
    for (const name of names) clients.push(await this.agent(name))
    return clients as { [At in keyof Names]: StaticClient }
  }

  /** Starts a manager. */
  async manager(name: string, options: LyingAgentOptions = {}): Promise<StaticChannelManager> {
    const manager = await StaticChannelManager.start(await this.parts(name, options), RELAY)
    this.#clients.push(manager.client)
    this.#bugs.watch(manager.client)
    return manager
  }

  /** What an agent is made of. Every other one speaks the other wire form. */
  async parts(name: string, options: LyingAgentOptions = {}): Promise<AgentParts> {
    const { relay } = this
    const { guest = false, disk = false, now, chance, proofs } = options
    const store = disk ? await this.#onDisk(name) : memoryStore(name)
    const way: SessionInfo['way'] = this.stores.size % 2 === 0 ? 'quic' : 'grpc'
    this.stores.set(name, store)
    const transport = makeMemoryTransport((peer) => relay.accept(peer, FORMS[way]), { form: FORMS[way] })
    const parts = agentParts({
      store,
      now,
      chance,
      endpoint: { way, addresses: [{ host: RELAY, port: 1 }], serverName: RELAY, url: `${way}://${RELAY}:1` },
      ca: undefined,
      transports: { quic: transport, grpc: transport },
      jwt: guest ? null : () => 'jwt',
    })
    return { ...parts, proofs }
  }

  /** An owner and members in one channel. */
  async channel(clients: readonly StaticClient[], name: string = NAME): Promise<{ room: Room; channels: Channel[] }> {
    const [owner, ...members] = clients
    const channel = await owner!.createChannel(name)
    const channels = [channel]
    if (members.length > 0) {
      const keyPackages = await Promise.all(members.map((member) => member.generateKeyPackage()))
      const welcomes = await channel.addMembers(keyPackages)
      for (const [at, member] of members.entries()) channels.push(await member.joinChannel(name, welcomes[at]!))
    }
    return { room: this.relay.room(channel.id), channels }
  }

  /** These agents have seen all that they were shown, and it is the same. */
  async agree(room: Room, channels: readonly Channel[], agents: readonly AgentId[]): Promise<void> {
    await this.relay.read(room, ...agents)
    assert.equal(new Set(channels.map((channel) => channel.verify())).size, 1, 'the words differ')
  }

  async close(): Promise<void> {
    for (const client of this.#clients) await client.close()
    if (this.#directory !== undefined) await rm(this.#directory, { recursive: true })
    this.#bugs.check()
  }

  async #onDisk(name: string): Promise<AgentStore> {
    this.#directory ??= await mkdtemp(join(tmpdir(), 'static-lies-'))
    return await openStoreOf(name, join(this.#directory, name))
  }
}

function memoryStore(name: string): AgentStore {
  return makeMemoryStore({ identity: Buffer.from(name), ...newIdentity() })
}

/** Each of them says something, and the others read it. */
export async function goOn(...channels: readonly Channel[]): Promise<void> {
  for (const [at, channel] of channels.entries()) {
    const others = channels.filter((other) => other !== channel)
    await channel.send(`and on ${at}`)
    for (const other of others) assert.deepEqual(await take(other, 1), [`and on ${at}`])
  }
}

/** Words that nobody but the members may see. */
export function makeCanary(): string {
  return randomBytes(24).toString('base64url')
}
