/**
 * A relay of one or several nodes and its surroundings, in which everything takes its time: bytes on streams, operations
 * of the store, answers of the API, messages between nodes. What happens next is drawn from a seed, so a run can be had
 * again.
 */
import { randomNumbers } from '@static/testkit/random'
import { MemoryBus } from '@static/testkit/bus/memory'
import { type MemoryLedger, openMemoryLedger } from '@static/testkit/store/relay-memory'
import type { WireHandlers, WireStream } from '@static/testkit/agent'
import type { ChannelId, Entry, Peer, StoreEvent, StoreOperation, StoreRequest, StoreResult } from '../../src/ports.ts'
import { type Settings, settingsFrom } from '../../src/settings.ts'
import { SimApi } from './sim-api.ts'
import { SimNode } from './sim-node.ts'
import type { SimWorld } from './sim-world.ts'

/** A message that is late comes at most this much later: after more, nodes no longer believe it. */
const LATE_MS = 25_000
/** Steps between the moment a node begins to stop and its end. */
const DRAIN_STEPS = 40

/** The world of one run. */
export class SimNetwork implements SimWorld {
  readonly random: () => number
  readonly ledger: MemoryLedger
  readonly api: SimApi = new SimApi()
  /** What the store has accepted, by index. */
  readonly truth: Entry[] = []
  /** All agents but the owner, and the memberships that they know of, by the index of the entry that added them. */
  readonly agents: Map<string, () => readonly number[]> = new Map()
  /** Slots whose commits were rejected, and agents whose memberships that has changed. */
  readonly rejected: Set<number> = new Set()
  readonly undone: Set<string> = new Set()
  /** Who was a member when the channel was deleted; undefined while it stands. */
  orphans: readonly string[] | undefined
  readonly errors: unknown[] = []
  now: number = Date.UTC(2027, 0, 15, 12)
  /** Whether streams break and the store fails. */
  faults = true
  /** How often the store did something and its node does not know. */
  unknown = 0
  restarts = 0
  /** The messages between nodes. Each goes its own way, so they overtake each other. */
  readonly bus: MemoryBus
  readonly #settings: Settings
  readonly #lanes = new Map<string, (() => unknown)[]>()
  #nodes: SimNode[] = []
  readonly #late: { readonly at: number; readonly task: () => void }[] = []
  #started = 0
  #history = 0x811c9dc5

  constructor(seed: number, overrides: object, nodes = 1) {
    this.random = randomNumbers(seed)
    this.#settings = settingsFrom(overrides)
    this.ledger = openMemoryLedger({ retention: this.#settings.retention }, (length) => this.bytes(length))
    this.bus = new MemoryBus({
      random: this.random,
      post: (deliver, isLate) => {
        if (isLate) this.#late.push({ at: this.now + this.below(LATE_MS), task: deliver })
        else this.post(`bus ${this.below(1000)}`, deliver)
      },
      arrange: (act, end) => this.post(`subjects ${end}`, act),
      maxBytes: 2000,
    })
    for (let left = nodes; left > 0; left--) this.#nodes.push(this.#start(nodes > 1))
  }

  /** How many nodes there are. */
  get nodeCount(): number {
    return this.#nodes.length
  }

  /** A number that differs if anything happened in another order. */
  get history(): number {
    return this.#history
  }

  below(limit: number): number {
    return Math.floor(this.random() * limit)
  }

  chance(share: number): boolean {
    return this.random() < share
  }

  bytes(length: number): Uint8Array {
    return Uint8Array.from({ length }, () => this.below(256))
  }

  /** A few things happen, somewhere. */
  async step(): Promise<void> {
    this.now += this.below(this.#nodes.length > 1 ? 100 : 20)
    // Ticks of a cluster come with time: its nodes wait for each other.
    for (const { driver } of this.#nodes) if (this.chance(0.05)) driver.tick()
    if (this.chance(0.01)) this.execute('sweep', { now: this.now })
    for (const late of this.#late.filter(({ at }) => at <= this.now)) {
      this.#late.splice(this.#late.indexOf(late), 1)
      late.task()
    }
    for (let things = 1 + this.below(5); things > 0; things--) {
      const names = [...this.#lanes.keys()]
      const name = names[this.below(names.length)] ?? ''
      const lane = this.#lanes.get(name) ?? []
      this.#note(name)
      lane.shift()?.()
      if (lane.length === 0) this.#lanes.delete(name)
    }
    // Everything that the step set off is over by then: there is no I/O.
    await new Promise((resolve) => setImmediate(resolve))
  }

  /** Stops the relay; everything that is under way is finished first. */
  async stop(): Promise<void> {
    for (const { driver } of this.#nodes) void driver.drain()
    const isIdle = (): boolean => this.#lanes.size === 0
    for (let steps = 0; steps < 20_000 && !(isIdle() && this.api.lent === 0); steps++) await this.step()
  }

  // ---- Nodes ----

  /** A node dies, at once or after it has sent its sessions away, and another one starts in its place. */
  restart(): void {
    const node = this.#nodes[this.below(this.#nodes.length)]
    if (!node?.isAlive) return
    this.restarts++
    if (this.chance(0.5)) return this.#replace(node)
    void node.driver.drain()
    this.#after(DRAIN_STEPS, `end ${node.name}`, () => this.#replace(node))
  }

  /** A node loses its connection to the store, and gets it back. */
  cutOff(): void {
    const node = this.#nodes[this.below(this.#nodes.length)]
    if (!node) return
    node.isCutOff = true
    this.#after(10 + this.below(30), `reach ${node.name}`, () => (node.isCutOff = false))
  }

  #after(turns: number, lane: string, act: () => unknown): void {
    for (let left = turns; left > 0; left--) this.post(lane, () => {})
    this.post(lane, act)
  }

  #replace(node: SimNode): void {
    const at = this.#nodes.indexOf(node)
    if (at < 0) return
    void node.die()
    this.#nodes[at] = this.#start(true)
  }

  #start(hasOthers: boolean): SimNode {
    return new SimNode(this, `${++this.#started}`, this.#settings, hasOthers)
  }

  // ---- Streams ----

  open(peer: Peer, handlers: WireHandlers): WireStream & { break(): void } {
    const node = this.#nodes[this.#nodes.length > 1 ? this.below(this.#nodes.length) : 0]
    const id = node?.handler.opened(peer)
    if (id === undefined || !node) throw new Error('The stream was turned away.')
    const { streams, handler, name } = node
    streams.set(id, handlers)
    return {
      write: (bytes) => {
        if (streams.has(id)) this.carry(`up ${name} ${id}`, bytes, (chunk) => handler.received(id, chunk))
      },
      end: () => node.break(id),
      break: () => node.break(id),
    }
  }

  /** In pieces, which need not end where cells do. */
  carry(lane: string, bytes: Uint8Array, take: (chunk: Uint8Array) => void): void {
    for (let at = 0; at < bytes.length;) {
      const length = this.chance(0.5) ? bytes.length : 1 + this.below(2048)
      const chunk = bytes.slice(at, at + length)
      this.post(lane, () => take(chunk))
      at += length
    }
  }

  /** Something happens when its turn comes: in order within a lane. */
  post(lane: string, task: () => unknown): void {
    const tasks = this.#lanes.get(lane)
    if (tasks) tasks.push(task)
    else this.#lanes.set(lane, [task])
  }

  forget(...lanes: readonly string[]): void {
    for (const lane of lanes) this.#lanes.delete(lane)
  }

  // ---- Store ----

  /** The store does something, at once and for good. */
  execute<Name extends StoreOperation>(
    name: Name,
    request: StoreRequest<Name>,
  ): { readonly result: StoreResult<Name>; readonly events: readonly StoreEvent[] } {
    const done = this.ledger.run(name, request)
    for (const event of done.events) {
      this.#note(event.type)
      if (event.type === 'appended') this.truth[event.entry.index] = event.entry
      if (event.type === 'deleted') this.orphans = event.members
      if (event.type !== 'rejected') continue
      this.rejected.add(event.slot)
      for (const agent of [...event.undoneAdds, ...event.undoneRemoves]) this.undone.add(agent)
    }
    return done
  }

  /**
   * Agents with a membership whose Welcome is gone, and that they do not know of: they were added again before they had
   * fetched it, and that was undone. Nobody but the owner can help.
   */
  strayed(channel: ChannelId): string[] {
    return [...this.agents].flatMap(([agent, known]) => {
      const query = { agent, channels: [channel], after: undefined, limit: 1 }
      const [standing] = this.ledger.run('resume', query).result.standings
      if (!standing || 'refused' in standing || standing.removed || standing.welcome) return []
      return known().includes(standing.addedIndex) ? [] : [agent]
    })
  }

  /** FNV-1a. */
  #note(what: string): void {
    for (const text of [what, String(this.now)]) {
      for (let at = 0; at < text.length; at++) {
        this.#history = Math.imul(this.#history ^ text.charCodeAt(at), 0x01000193) >>> 0
      }
    }
  }
}
