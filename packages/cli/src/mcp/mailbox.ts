/**
 * The messages that have arrived for a model. An answer of `receive` settles nothing: the next `receive` settles the
 * content of earlier answers, because only then has the host seen them. Anything it has not seen is delivered again. A
 * host may send requests without waiting for answers, so a `receive` confirms only answers that were written before it
 * arrived.
 */
import { StaticError } from '@static/protocol'
import type { OpenAgent } from '../agent/open.ts'
import { type Item, Lane } from './lane.ts'
import { HandedOver, type RequestId } from './handed-over.ts'
import type { NoticeFile } from './notice-file.ts'
import type { Notice } from './notices.ts'
import { Requests } from './requests.ts'

/** A call of `receive`. */
export interface Wanted {
  readonly request: RequestId
  /** Undefined: every channel. */
  readonly channel: string | undefined
  readonly waitMs: number
  readonly signal: AbortSignal
  /** Adds an item to the answer; false if it is full. */
  readonly add: (item: Item) => boolean
}

/** What a mailbox needs of the agent. */
export type MailboxAgent = Pick<OpenAgent, 'call' | 'follow' | 'serve'>

/** Models call in parallel, but one call reads every channel. */
const MOST_WAITING = 16

/** The messages and notices of a session. */
export class Mailbox {
  readonly #agent: MailboxAgent
  /** Requests of other members, which the model answers. */
  readonly requests: Requests
  readonly #lanes = new Map<string, Lane>()
  readonly #given = new HandedOver<Item>()
  readonly #wakes = new Set<() => void>()
  readonly #onArrival: (lane: Lane) => void
  readonly #kept: NoticeFile | undefined
  #collecting: Promise<unknown> = Promise.resolve()
  /** The waiting calls. */
  readonly #calls = new Set<Wanted>()
  /** The channel with which the next answer starts. */
  #next = 0

  /**
   * `onArrival` is called for items that arrive while no call waits for them. `kept` holds the notices of earlier
   * sessions.
   */
  constructor(agent: MailboxAgent, onArrival: (lane: Lane) => void = () => {}, kept?: NoticeFile) {
    this.#agent = agent
    this.requests = new Requests(agent, (item) => this.#lane(item.channel).add(item))
    this.#onArrival = onArrival
    for (const { channel, notice } of kept?.kept ?? []) this.#lane(channel).addNotice(notice)
    this.#kept = kept
  }

  /** Starts to fetch from every channel. */
  async watch(): Promise<readonly Lane[]> {
    const names = await this.#agent.call('names')
    const known = new Set(names)
    for (const [name, lane] of this.#lanes) if (!known.has(name) && lane.isEmpty) this.#lanes.delete(name)
    for (const name of names) {
      this.requests.serve(name)
      this.#fetch(this.#lane(name))
    }
    return [...this.#lanes.values()]
  }

  /** Adds a notice, and keeps it until it is settled. */
  addNotice(channel: string, notice: Notice): void {
    const added = this.#lane(channel).addNotice(notice)
    if (added) this.#kept?.add({ channel, notice: added })
  }

  /**
   * Settles the content of earlier answers, waits until something arrives and adds it to the answer.
   *
   * @throws {StaticError} `not_found` or `removed` if the agent is not in the channel, `rate_limited`
   */
  async receive(wanted: Wanted): Promise<void> {
    if (this.#calls.size >= MOST_WAITING) {
      throw StaticError.of(
        'rate_limited',
        `${MOST_WAITING} calls of receive are already waiting. Wait for their answers; one call reads every channel.`,
      )
    }
    this.#calls.add(wanted)
    try {
      this.#settle(this.#given.seenBefore(wanted.request))
      const until = performance.now() + wanted.waitMs
      let lanes = await this.#lanesOf(wanted.channel)
      while (!(await this.#collect(lanes, wanted))) {
        if (!(await this.#arrival(lanes, until - performance.now(), wanted.signal))) return
        // A notice may be the first sign of a channel.
        if (wanted.channel === undefined) lanes = [...this.#lanes.values()]
      }
    } finally {
      this.#calls.delete(wanted)
    }
  }

  /** A request for any tool has arrived. */
  arrived(request: RequestId): void {
    this.#given.arrived(request)
  }

  /** The answer to a request was written. */
  answered(request: RequestId): void {
    this.#given.answered(request)
  }

  /** The host dropped the answer to a request: its content is delivered again. */
  putBack(request: RequestId): void {
    this.#return(this.#given.dropped(request), true)
  }

  /** Settles the content of answers that the host has seen. */
  #settle(items: readonly Item[]): void {
    for (const item of items) if ('follower' in item) void item.follower.settle()
    this.#kept?.remove(items.flatMap((item) => ('notice' in item ? [item.notice] : [])))
  }

  async #lanesOf(channel: string | undefined): Promise<readonly Lane[]> {
    if (channel === undefined) return await this.watch()
    const lane = this.#lane(channel)
    try {
      lane.fetch()
      this.requests.serve(channel)
    } catch (error) {
      // The agent has left it, but messages that arrived before are still here.
      if (!lane.isEmpty) return [lane]
      this.#lanes.delete(channel)
      throw error
    }
    return [lane]
  }

  #lane(name: string): Lane {
    const known = this.#lanes.get(name)
    if (known) return known
    const lane: Lane = new Lane(
      name,
      () => this.#agent.follow(name),
      () => this.#wake(lane),
    )
    this.#lanes.set(name, lane)
    return lane
  }

  #fetch(lane: Lane): void {
    try {
      lane.fetch()
    } catch {
      // The agent has left the channel since the list was read.
    }
  }

  #wake(lane: Lane): void {
    const isAwaited = [...this.#calls].some(({ channel }) => channel === undefined || channel === lane.channel)
    if (!isAwaited) this.#onArrival(lane)
    for (const wake of this.#wakes) wake()
  }

  /** Adds arrived items to the answer, for one call after the other, so that none gets later messages first. */
  async #collect(lanes: readonly Lane[], wanted: Wanted): Promise<boolean> {
    const before = this.#collecting
    const { promise, resolve } = Promise.withResolvers<undefined>()
    this.#collecting = promise
    await before
    const items: Item[] = []
    try {
      // Each answer starts with another channel, so that a busy one does not crowd out the others.
      const start = this.#next++ % Math.max(lanes.length, 1)
      for (const lane of [...lanes.slice(start), ...lanes.slice(0, start)]) {
        if (!(await this.#drain(lane, wanted.add, items))) break
      }
    } catch (error) {
      // The content of the answer so far is delivered; the next call gets the error.
      if (items.length === 0) throw error
    } finally {
      resolve(undefined)
    }
    if (wanted.signal.aborted) this.#return(items, false)
    else if (items.length > 0) this.#give(wanted.request, items)
    return items.length > 0
  }

  #give(request: RequestId, items: readonly Item[]): void {
    for (const item of items) if ('follower' in item) item.follower.given()
    this.#given.give(request, items)
  }

  /** Moves items from a lane to the answer; false if the answer is full. */
  async #drain(lane: Lane, add: (item: Item) => boolean, items: Item[]): Promise<boolean> {
    for (;;) {
      // The next message belongs in this answer if the agent already has it, and may belong before a notice.
      this.#fetch(lane)
      await lane.arrived()
      const { first } = lane
      if (first === undefined) return true
      if (!add(first)) return false
      lane.shift()
      items.push(first)
    }
  }

  #return(items: readonly Item[], isSeen: boolean): void {
    for (const name of new Set(items.map(({ channel }) => channel))) {
      this.#lane(name).putBack(
        items.filter(({ channel }) => channel === name),
        isSeen,
      )
    }
  }

  /** Waits until something arrives; false after the timeout, or when the call is cancelled. */
  async #arrival(lanes: readonly Lane[], milliseconds: number, signal: AbortSignal): Promise<boolean> {
    if (signal.aborted || milliseconds <= 0) return false
    if (lanes.some(({ isEmpty }) => !isEmpty)) return true
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const wake = (): void => resolve(true)
    const stop = (): void => resolve(false)
    const timer = setTimeout(stop, milliseconds)
    this.#wakes.add(wake)
    signal.addEventListener('abort', stop)
    try {
      return await promise
    } finally {
      clearTimeout(timer)
      this.#wakes.delete(wake)
      signal.removeEventListener('abort', stop)
    }
  }
}
