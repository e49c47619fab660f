/** An agent of a simulated world: its disk outlives its processes. */
import assert from 'node:assert/strict'
import { parseChannelName, type ReceiptMode, StaticError, toHex } from '@static/protocol'
import type { World } from '@static/testkit/world'
import { AgentDisk } from '@static/testkit/world/disk'
import type { Machine } from '@static/testkit/world/machine'
import type { Network } from '@static/testkit/world/network'
import { RELAY } from '@static/testkit/world/relay'
import type { Channel } from '../../src/public/channel.ts'
import type { JoinOffer } from '../../src/public/client.ts'
import type { StandingRecord } from '../../src/channel/standing.ts'
import { StaticChannelManager } from '../../src/public/manager.ts'
import { agentIdOf, makeEngine } from '../../src/mls/index.ts'
import type { AgentId, ChannelRecord, PositionRecord } from '../../src/ports/index.ts'
import { FORMS } from '../../src/session/io.ts'
import { agentParts, newIdentity } from '../support/agent-parts.ts'
import { bugIn } from '../support/found-bugs.ts'
import type { Office } from '../support/office.ts'

/** A payload that an application has read. */
export interface Reading {
  readonly life: number
  readonly index: number
  /** The id of its message, which its place among the payloads of that is not in. */
  readonly messageId: string
  /** Its place among the payloads of one message. */
  readonly place: number
  readonly sender: AgentId
  readonly text: string
  /** Its application was told that it may have read this before. */
  readonly redelivered: boolean
}

/** Somebody who is in the channel at times. */
export class Person {
  readonly name: string
  readonly agentId: AgentId
  /** Undefined: a guest. */
  readonly account: string | undefined
  readonly disk: AgentDisk
  readonly read: Reading[] = []
  /** Is told of what it reads, at once. */
  onRead: ((reading: Reading) => void) | undefined
  /** What ended its agent as a whole, and was not a death, and the bugs that its agent has found in itself. */
  readonly failures: string[] = []
  /** Offers that its application has not answered. */
  offers: JoinOffer[] = []
  machine: Machine
  manager: StaticChannelManager | undefined
  /** Whether it is a member, as far as anybody can know without looking. */
  isIn: boolean | undefined = false
  /**
   * Since the last quiet moment, it was added while it did something else, or whoever added or removed it has died
   * meanwhile: that may have been done, or not.
   */
  isUnsure = false
  isStopping = false
  /** What its receipts tell. */
  receipts: ReceiptMode = 'settled'
  /** Calls under way. */
  busy = 0
  /** How often its program has called `leave`. */
  leaves = 0
  life = 0
  readonly #world: World
  readonly #network: Network
  readonly #channels = new Set<Channel>()
  readonly #way: 'quic' | 'grpc'
  readonly #office: Office | undefined

  /** With an office, it proves who it is, and believes what the office says. */
  constructor(
    world: World,
    network: Network,
    name: string,
    { account, office }: { readonly account: string | undefined; readonly office?: Office | undefined },
  ) {
    this.#office = office
    this.#world = world
    this.#network = network
    this.name = name
    this.account = account
    this.#way = account === undefined ? 'grpc' : 'quic'
    const identity = newIdentity()
    this.disk = new AgentDisk(world, { identity: Buffer.from(name), ...identity })
    this.agentId = toHex(agentIdOf(identity.publicKey))
    this.machine = world.machine(name)
    this.machine.kill('before it was born')
  }

  get isRunning(): boolean {
    return !this.machine.isDead
  }

  /** What its disk says of its memberships in a channel. */
  recordOf(name: string): ChannelRecord | undefined {
    return this.disk.contents.channels.find(({ record }) => record.name === name)?.record
  }

  /** The channel, as its application has it. */
  channel(name: string): Channel | undefined {
    return this.manager?.channels().find((channel) => channel.name === name)
  }

  /** How it stands in a channel that it is in, in memory: what is on disk takes long to copy. */
  standing(name: string): StandingRecord | undefined {
    return this.channel(name) && this.manager?.client.membershipOf(parseChannelName(name)).standing.record
  }

  /** How far it has read the log, and from where on it knows it. */
  history(name: string): { readonly position: PositionRecord; readonly since: number } {
    const { client } = this.manager ?? assert.fail('It is off.')
    return client.membershipOf(parseChannelName(name)).history
  }

  start(): void {
    assert.ok(this.machine.isDead)
    const machine = this.#world.machine(this.name)
    this.machine = machine
    this.life++
    this.offers = []
    this.#channels.clear()
    machine.onDeath(() => (this.manager = undefined))
    this.#world.tell(`${this.name} starts`)
    machine.do(() => {
      this.#run(machine).catch((error: unknown) => {
        if (!machine.isDead) throw error
      })
    })
  }

  /** Shuts down in order. */
  stop(): void {
    const { machine, manager } = this
    this.#world.tell(`${this.name} stops`)
    if (!manager) return machine.kill('as it starts')
    this.isStopping = true
    machine.onDeath(() => (this.isStopping = false))
    machine.do(() => void manager.close().finally(() => machine.kill('in order')))
  }

  /** Takes up the channels that it has now: everything in them is read. */
  look(): void {
    const { machine, manager } = this
    machine.do(() => {
      for (const channel of manager?.channels() ?? []) {
        if (this.#channels.has(channel)) continue
        this.#channels.add(channel)
        void this.#readAll(channel)
      }
    })
  }

  async #run(machine: Machine): Promise<void> {
    const transport = this.#network.transport(machine, FORMS[this.#way])
    const { account } = this
    const endpoint = { way: this.#way, addresses: [{ host: RELAY, port: 1 }] as const, serverName: RELAY, url: '' }
    const parts = agentParts({
      store: this.disk.open(machine),
      now: () => this.#world.now,
      // Who has left is removed soon.
      chance: () => this.#world.random() / 50,
      endpoint,
      ca: undefined,
      transports: { quic: transport, grpc: transport },
      jwt: account === undefined ? null : () => account,
      wait: true,
    })
    const { receipts } = this
    const proofs = this.#office && (() => this.#office?.desk(() => this.#world.now) ?? assert.fail())
    const manager = await StaticChannelManager.start({ ...parts, engine: makeEngine(), receipts, proofs }, RELAY)
    // The end of a turn in which the process has died.
    if (machine.isDead) return
    this.manager = manager
    void this.#listen(manager)
    void this.#take(manager)
    this.look()
  }

  async #listen({ client }: StaticChannelManager): Promise<void> {
    for await (const event of client.events()) {
      const bug = bugIn(event)
      if (bug !== undefined) this.failures.push(`${this.name}: ${bug}`)
      const detail = 'error' in event ? `: ${event.error.code} ${event.error.message}` : ''
      if (event.type !== 'rekeyed' && event.type !== 'receipt') this.#world.tell(`${this.name}: ${event.type}${detail}`)
      this.look()
    }
    if (!this.machine.isDead && !this.isStopping && this.manager?.client === client)
      this.failures.push(`${this.name} fails as a whole`)
  }

  async #take({ client }: StaticChannelManager): Promise<void> {
    for await (const offer of client.joins()) {
      this.#world.tell(`${this.name} is offered ${offer.name}`)
      this.offers.push(offer)
    }
  }

  async #readAll(channel: Channel): Promise<void> {
    const { life } = this
    try {
      for await (const envelope of channel.envelopes()) {
        this.#world.note(`${this.name} reads ${envelope.index}`)
        const { index, messageId, sender, payload, redelivered } = envelope
        const [place, text] = [Number.parseInt(messageId.slice(-1), 16), Buffer.from(payload).toString()]
        const id = messageId.slice(0, -1)
        const reading = { life, index, messageId: id, place, sender: sender.agentId, text, redelivered }
        this.read.push(reading)
        this.onRead?.(reading)
      }
    } catch (error) {
      this.#world.tell(`${this.name} reads no more: ${StaticError.from(error).code}`)
    }
  }
}
