/**
 * Requests from other members that this agent has not fully answered. They wait on disk for a server (serving.ts), even
 * across a restart, until they expire or are cancelled. Each asker gets a share of the room, so none can fill it;
 * requests beyond it are refused. They never hold back messages. Only a server sends refusals, and one message holds
 * many of them: an asker cannot make this agent send a message for each of its own.
 */
import { type StaticError, toHex } from '@static/protocol'
import type { AgentId, Change, InboxRecord, MessageTotals, StoredChannel, Time } from '../../ports/index.ts'
import type { AgentContext } from '../../agent/context.ts'
import type { AgentChannel } from '../channel.ts'
import { Part, type RosterChange } from '../part.ts'
import { type InboxEntry, Inbox, type Incoming } from '../receiving/inbox.ts'
import { requestTable } from '../receiving/inbox-table.ts'
import {
  decodeCancel,
  decodeMore,
  decodeRequest,
  encodeRefused,
  MOST_LIFETIME_MS,
  MOST_OPEN_ASKS,
  MOST_REFUSED,
} from './ask-frame.ts'

/** The context it needs from the agent. */
type RequestsContext = Pick<AgentContext, 'agentId' | 'engine' | 'journal' | 'now' | 'later' | 'emit'>

/** A request that a server has begun to answer. */
export interface RunningRequest {
  /** The asker wants no more answers. */
  cancel(): void
  /** The asker has read this many answers. */
  more(read: number): void
}

/**
 * Limits of requests from all askers, by number and bytes of ciphertext. A third of an asker's own counts twice, so
 * greedy askers leave room for others.
 */
const MOST_REQUESTS = 4096
const MOST_BYTES = 32 * 1024 * 1024
const OWN_PART: number = 1 / 3
/** The share of the bytes that one asker may use. */
const MOST_ASKER_BYTES: number = MOST_BYTES / 4
/** The share of a refusal that one asker may use. Requests beyond that time out. */
const MOST_ASKER_REFUSED: number = MOST_REFUSED / 2
/** How long requests are gathered for a refusal, and the minimum time between refusals. */
const GATHER_MS = 1000
const REFUSAL_MS = 60_000
/** The minimum time between two searches for expired requests. */
const SWEEP_MS = 60_000
const PAGE = 64

/** The requests that this agent has received in one channel. */
export class ReceivedRequests extends Part {
  readonly inbox: Inbox
  readonly #context: RequestsContext
  readonly #channel: AgentChannel
  readonly #shares = new Map<AgentId, MessageTotals>()
  #total: MessageTotals = { messages: 0, bytes: 0 }
  readonly #running = new Map<string, RunningRequest>()
  /** Called when answers can be sent again. */
  readonly #resumed = new Set<() => void>()
  /** Requests cancelled while not in memory, by asker: as many of each as it may have here. */
  readonly #cancelled = new Map<AgentId, Set<string>>()
  /** The number of running servers. */
  #servers = 0
  /** Requests to refuse with the next message, and a function that cancels it. */
  #refused: InboxRecord[] = []
  #cancelRefusal: (() => void) | undefined
  /** The times of the last and the next search for requests that are over, and a function that cancels the next. */
  #sweptAt: Time = -Infinity
  #sweepAt: Time = Infinity
  #cancelSweep: (() => void) | undefined

  constructor(
    context: RequestsContext,
    channel: AgentChannel,
    { record, requests }: Pick<StoredChannel, 'record' | 'requests'>,
  ) {
    super()
    this.#context = context
    this.#channel = channel
    this.inbox = new Inbox(channel, requestTable(context, channel), { ...requests, givenUpTo: record.servedUpTo })
    if (requests.messages === 0) return
    for (const { sender: asker, ciphertext } of this.#stored()) this.#count(asker, 1, ciphertext.length)
    this.#sweepBy(context.now() + SWEEP_MS)
  }

  arrive(record: InboxRecord, bytes: Uint8Array): void {
    const request = decodeRequest(bytes)
    if (!request) return this.#ignore(record, 'malformed')
    const { to } = request
    if (to !== undefined && to !== this.#context.agentId) return
    if (!this.#hasRoom(record)) {
      this.#sweepBy(this.#context.now())
      this.#ignore(record, 'too_many')
      if (to !== undefined) this.#refuse(record)
      return
    }
    this.#count(record.sender, 1, record.ciphertext.length)
    this.inbox.arrive({ record, payload: bytes, redelivered: this.inbox.wasGiven(record.index) })
    this.#sweepBy(record.receivedAt + request.lifetimeMs)
  }

  /** Handles an asker's notice about one of its requests. */
  heed(kind: 'cancel' | 'more', asker: AgentId, bytes: Uint8Array): void {
    if (kind === 'more') {
      const more = decodeMore(bytes)
      if (more) this.#running.get(keyOf(asker, more.requestId))?.more(more.read)
      return
    }
    const requestId = decodeCancel(bytes)
    if (!requestId) return
    const key = keyOf(asker, requestId)
    const running = this.#running.get(key)
    const queued = this.inbox.find(({ record }) => keyOf(record.sender, record.messageId) === key)
    if (running) running.cancel()
    else if (queued) this.settle(queued)
    else if (this.inbox.hasNext) this.#noteCancelled(asker, key)
  }

  /** A server begins to answer a request. Returns false if it was cancelled or its asker is gone. */
  begin({ record }: InboxEntry, running: RunningRequest): boolean {
    if (this.#isWithdrawn(record)) return false
    this.#running.set(keyOf(record.sender, record.messageId), running)
    return true
  }

  /** Returns a request that was begun, so that it is served again. */
  release(entry: InboxEntry): void {
    this.#running.delete(keyOf(entry.record.sender, entry.record.messageId))
    this.inbox.release(entry)
  }

  /** A request is over: answered, cancelled or expired. */
  settle(entry: InboxEntry, isAnswered: boolean = false): void {
    if (entry.settled) return
    const { sender, messageId, ciphertext } = entry.record
    this.#running.delete(keyOf(sender, messageId))
    this.#count(sender, -1, -ciphertext.length)
    this.inbox.settle(entry, isAnswered)
  }

  /** A server starts. Returns a function that ends it. */
  serves(): () => void {
    this.#servers++
    return () => void this.#servers--
  }

  /**
   * Calls the function whenever answers can be sent, as far as the channel knows. Returns a function that stops this.
   */
  onSendable(action: () => void): () => void {
    this.#resumed.add(action)
    return () => void this.#resumed.delete(action)
  }

  /** Called when the channel is neither in a fork nor full. */
  wakeServers(): void {
    for (const action of this.#resumed) action()
  }

  /** Former members no longer wait for answers to their requests. */
  override change({ removed }: RosterChange): void {
    for (const agent of removed) {
      for (const [key, running] of this.#running) if (key.startsWith(agent)) running.cancel()
      for (;;) {
        const queued = this.inbox.find(({ record }) => record.sender === agent)
        if (!queued) break
        this.settle(queued)
      }
      this.#cancelled.delete(agent)
    }
    // Their other requests are on disk.
    if (removed.some((agent) => this.#shares.has(agent))) this.#sweepBy(this.#context.now())
  }

  /** No more requests will arrive. */
  override end(error: StaticError, forReaders: StaticError | undefined): void {
    this.#cancelSweep?.()
    this.#cancelRefusal?.()
    this.inbox.end(error, forReaders)
  }

  override drain(): readonly Change[] {
    return this.inbox.drain()
  }

  override seal(): void {
    this.inbox.seal()
  }

  #hasRoom({ sender, ciphertext: { length } }: InboxRecord): boolean {
    const { messages, bytes } = this.#shares.get(sender) ?? { messages: 0, bytes: 0 }
    return (
      messages < MOST_OPEN_ASKS &&
      bytes + length <= MOST_ASKER_BYTES &&
      this.#total.messages + messages * OWN_PART < MOST_REQUESTS &&
      this.#total.bytes + bytes * OWN_PART + length <= MOST_BYTES
    )
  }

  #noteCancelled(asker: AgentId, key: string): void {
    const keys = this.#cancelled.get(asker) ?? new Set()
    this.#cancelled.set(asker, keys.add(key))
    if (keys.size <= MOST_OPEN_ASKS) return
    for (const oldest of keys) return void keys.delete(oldest)
  }

  /** Whether the request was cancelled or its asker has left since, even if it was added again. */
  #isWithdrawn({ sender, messageId, index }: InboxRecord): boolean {
    if (this.#cancelled.get(sender)?.delete(keyOf(sender, messageId)) === true) return true
    const { group } = this.#channel
    return group !== undefined && (!group.members.has(sender) || index <= this.#channel.receipts.memberSince(sender))
  }

  #count(asker: AgentId, messages: number, bytes: number): void {
    const share = this.#shares.get(asker) ?? { messages: 0, bytes: 0 }
    const now = { messages: share.messages + messages, bytes: share.bytes + bytes }
    if (now.messages > 0) this.#shares.set(asker, now)
    else this.#shares.delete(asker)
    this.#total = { messages: this.#total.messages + messages, bytes: this.#total.bytes + bytes }
  }

  /** Drops queued requests that are over, at this time or soon after, since no one waits for them. */
  #sweepBy(at: Time): void {
    if (at >= this.#sweepAt) return
    this.#sweepAt = at
    this.#cancelSweep?.()
    const now = this.#context.now()
    // The clock may have been set back, and `at` comes from other members.
    const wait = Math.max(0, SWEEP_MS - Math.abs(now - this.#sweptAt), Math.min(at - now, MOST_LIFETIME_MS))
    this.#cancelSweep = this.#context.later(wait, () => this.#sweep())
  }

  #sweep(): void {
    const now = this.#context.now()
    this.#sweptAt = now
    this.#sweepAt = Infinity
    let next = Infinity
    const isOver = (incoming: Incoming): boolean => {
      if (isExpired(incoming, now) || this.#isWithdrawn(incoming.record)) return true
      next = Math.min(next, expiryOf(incoming))
      return false
    }
    for (const { sender, ciphertext } of this.inbox.sweep(isOver)) this.#count(sender, -1, -ciphertext.length)
    if (next < Infinity) this.#sweepBy(next)
  }

  *#stored(): Iterable<InboxRecord> {
    for (let after = 0; ;) {
      const page = this.#context.journal.requests(this.#channel.id, after, PAGE)
      yield* page
      const last = page.at(-1)
      if (!last || page.length < PAGE) return
      after = last.index
    }
  }

  #refuse(record: InboxRecord): void {
    const own = this.#refused.filter(({ sender }) => sender === record.sender).length
    if (this.#servers === 0 || this.#refused.length >= MOST_REFUSED || own >= MOST_ASKER_REFUSED) return
    this.#refused.push(record)
    this.#cancelRefusal ??= this.#context.later(GATHER_MS, () => this.#sendRefusal())
  }

  #sendRefusal(): void {
    this.#cancelRefusal = undefined
    const ids = this.#refused.map(({ messageId }) => messageId)
    this.#refused = []
    if (ids.length === 0) return
    this.#cancelRefusal = this.#context.later(REFUSAL_MS, () => this.#sendRefusal())
    // If it is lost, the requests time out.
    this.#channel.sender.send('refused', encodeRefused(ids)).catch(() => {})
  }

  #ignore({ sender, index }: InboxRecord, reason: 'malformed' | 'too_many'): void {
    this.#context.emit({ type: 'request_ignored', channel: this.#channel.name, sender, index, reason })
  }
}

/** Whether the asker has stopped waiting, counted from the relay's time of acceptance. */
export function isExpired(request: Pick<InboxEntry, 'record' | 'payload'>, now: Time): boolean {
  return expiryOf(request) <= now
}

function expiryOf({ record, payload }: Pick<InboxEntry, 'record' | 'payload'>): Time {
  return record.receivedAt + (decodeRequest(payload)?.lifetimeMs ?? 0)
}

function keyOf(asker: AgentId, requestId: Uint8Array): string {
  return `${asker}${toHex(requestId)}`
}
