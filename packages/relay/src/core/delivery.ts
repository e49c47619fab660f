/**
 * Deliveries: which session gets which entry, in log order. A session that is up to date gets each entry as it is
 * appended; one that is behind or reads slowly is served from the log at its own pace.
 */
import { fromHex, toHex } from '@static/protocol'
import type { ReceiptDemand } from '@static/protocol/relay'
import type { AgentId, ChannelId, Entry, StoreResult, Standing, StoreEvent } from '../ports.ts'
import type { Effects } from './effects.ts'
import {
  barLiftedMessage,
  deletedMessage,
  entryMessage,
  gapMessage,
  rejectedMessage,
  rosterResetMessage,
  welcomeMessage,
} from './server-messages.ts'
import type { Reading, Session } from './sessions/stream.ts'

/** Limits of one read of the log: the window of a stream holds two of them. */
const READ_BYTES = 128 * 1024
const READ_ENTRIES = 256
/** Number of receipts that a session may send in a channel before it has acknowledged anything. */
const FIRST_RECEIPTS = 16
/**
 * Number of memberships that a session may still acknowledge in channels that are not being delivered to it: more than
 * fit into a stream's window.
 */
const MOST_STAYS = 1000

/** Events since an agent started to resume: the store's answer may predate them. */
export interface Meanwhile {
  readonly agent: AgentId
  /** Whether the agent was added to a channel, or got its Welcome. */
  added: boolean
  /** The last index of each channel with new entries. */
  readonly reached: Map<ChannelId, number>
}

export class Delivery {
  readonly #effects: Effects
  readonly #sessions = new Map<AgentId, Session>()
  readonly #readings = new Map<ChannelId, Set<Reading>>()
  readonly #resumes = new Set<Meanwhile>()

  /** Called when a channel gets its first reader and when it loses its last. */
  onReading: (channel: ChannelId, isRead: boolean) => void = () => {}

  constructor(effects: Effects) {
    this.#effects = effects
  }

  /** The session of an agent. */
  session(agent: AgentId): Session | undefined {
    return this.#sessions.get(agent)
  }

  /** All sessions. */
  sessions(): Iterable<Session> {
    return this.#sessions.values()
  }

  /** Makes a session the agent's only one. Returns the one it replaced. */
  enter(session: Session): Session | undefined {
    const older = this.#sessions.get(session.agent)
    if (older) this.leave(older)
    this.#sessions.set(session.agent, session)
    return older
  }

  /** A session has ended. */
  leave(session: Session): void {
    if (this.#sessions.get(session.agent) !== session) return
    this.#sessions.delete(session.agent)
    for (const reading of session.subscriptions.values()) this.#finish(reading)
  }

  /** The sessions that read a channel. */
  *readers(channel: ChannelId): Iterable<Session> {
    for (const { session } of this.#readings.get(channel) ?? []) yield session
  }

  /** The deliveries of a channel. */
  readings(channel: ChannelId): Iterable<Reading> {
    return this.#readings.get(channel) ?? []
  }

  /** Must be called before the store is asked for an agent's standings. */
  resuming(agent: AgentId): Meanwhile {
    const meanwhile = { agent, added: false, reached: new Map() }
    this.#resumes.add(meanwhile)
    return meanwhile
  }

  /** Called when the store has answered. */
  answered(meanwhile: Meanwhile): void {
    this.#resumes.delete(meanwhile)
  }

  /** Starts the deliveries of a channel after the agent's cursor; `reached` is the last index seen since. */
  start(session: Session, standing: Standing, receipts: ReceiptDemand, reached = 0): Reading {
    const { channel, cursor, lastIndex, addedIndex } = standing
    const known = session.subscriptions.get(channel)
    if (known) this.#finish(known)
    const last = Math.max(lastIndex, reached)
    const place = { from: addedIndex, sent: cursor.index, last }
    const receiving = { receipts, sampledAt: 0, sample: undefined }
    const sending = {
      acknowledged: cursor.index,
      receiptsLeft: FIRST_RECEIPTS,
      receiptAt: -Infinity,
      heldReceipt: undefined,
    }
    const reading = { session, channel, channelBytes: fromHex(channel), ...place, ...receiving, ...sending }
    session.subscriptions.set(channel, reading)
    session.stays.delete(channel)
    const readings = this.#readings.get(channel)
    if (readings) readings.add(reading)
    else {
      this.#readings.set(channel, new Set([reading]))
      this.onReading(channel, true)
    }
    // Entries follow the Welcome of their membership.
    if (standing.welcome && session.welcomes.waiting) session.welcomes.before.add(reading)
    this.#catchUp(reading)
    return reading
  }

  /** The store has a Welcome for a connected agent. Agents that are not connected find theirs when they resume. */
  welcomed(session: Session): void {
    session.welcomes.waiting = true
    session.welcomes.more = true
    this.#pull(session)
  }

  /**
   * Notes that a channel's log reaches this index, so that its entries are read. Returns whether that was news for a
   * reader.
   */
  reached(channel: ChannelId, index: number): boolean {
    let isNews = false
    this.#noteReached(channel, index)
    for (const reading of this.#readings.get(channel) ?? []) {
      if (index <= reading.last) continue
      isNews = true
      reading.last = index
      this.#catchUp(reading)
    }
    return isNews
  }

  /** The session's stream can take more. */
  drained(session: Session): void {
    this.#pull(session)
  }

  /** Retries reads that failed in the store. */
  tick(): void {
    for (const session of this.#sessions.values()) this.#pull(session)
  }

  /** Handles an event of a channel. */
  handle(event: StoreEvent): void {
    switch (event.type) {
      case 'appended':
        this.#appended(event.channel, event.entry)
        return
      case 'welcomed': {
        const session = this.#sessions.get(event.agent)
        if (session?.resumed) this.welcomed(session)
        this.#noteAdded(event.agent)
        return
      }
      case 'rejected': {
        const message = rejectedMessage(event)
        this.#effects.send(this.#streamsOf(event.channel, [...event.undoneAdds, ...event.undoneRemoves]), message)
        for (const agent of event.undoneAdds) this.#recheck(agent, event.channel)
        return
      }
      case 'rosterReset': {
        const message = rosterResetMessage(event)
        this.#effects.send(this.#streamsOf(event.channel, [...event.dropped, ...event.returned]), message)
        for (const agent of event.dropped) this.#recheck(agent, event.channel)
        // Otherwise a resuming agent could get its standing from before the reset.
        for (const agent of event.returned) this.#noteAdded(agent)
        return
      }
      case 'barLifted':
        this.#effects.send(this.#streamsOf(event.channel, []), barLiftedMessage(event.channel, event.agent))
        return
      case 'deleted': {
        const message = deletedMessage(event.channel, event.name)
        this.#effects.send(this.#streamsOf(event.channel, event.members), message)
        for (const reading of this.#readings.get(event.channel) ?? []) {
          this.#finish(reading)
          reading.session.stays.delete(event.channel)
        }
        for (const agent of event.members) this.#sessions.get(agent)?.stays.delete(event.channel)
        return
      }
      // Members see it in the log; what this node remembers of the payer is dropped (relay.ts).
      case 'ownerChanged':
        return
      // Handled in joins.ts.
      case 'joinRequested':
      case 'joinAnswered':
        return
    }
  }

  #appended(channel: ChannelId, entry: Entry): void {
    this.#noteReached(channel, entry.index)
    if (entry.kind === 'commit') for (const agent of entry.declaration.adds) this.#noteAdded(toHex(agent))
    const readings = this.#readings.get(channel)
    if (!readings) return
    const streams: number[] = []
    let own: Reading | undefined
    let channelBytes: Uint8Array | undefined
    for (const reading of readings) {
      const { session } = reading
      if (reading.sent === entry.index - 1 && isLive(reading)) {
        reading.sent = entry.index
        reading.last = entry.index
        ;({ channelBytes } = reading)
        if (session.agent === entry.sender) own = reading
        else streams.push(session.stream.id)
      } else if (entry.index > reading.last) {
        reading.last = entry.index
        this.#catchUp(reading)
      }
    }
    if (channelBytes) {
      this.#effects.send(streams, entryMessage(channelBytes, entry, false))
      if (own) this.#effects.send([own.session.stream.id], entryMessage(channelBytes, entry, true))
    }
    // The entry that ends a membership is the last one its agent gets. An agent that is behind will find it in the log.
    if (entry.kind === 'leave') this.#endAt(entry.sender, channel, entry.index)
    if (entry.kind !== 'commit') return
    for (const agent of entry.declaration.removes) this.#endAt(toHex(agent), channel, entry.index)
    // A re-added agent gets no more entries of its earlier membership. It resumes once it has joined, perhaps before
    // another node's event arrives here.
    for (const agent of entry.declaration.adds) {
      const reading = this.#sessions.get(toHex(agent))?.subscriptions.get(channel)
      if (reading && reading.from < entry.index) this.#finish(reading)
    }
  }

  #noteAdded(agent: AgentId): void {
    for (const meanwhile of this.#resumes) if (meanwhile.agent === agent) meanwhile.added = true
  }

  #noteReached(channel: ChannelId, index: number): void {
    for (const { reached } of this.#resumes) reached.set(channel, Math.max(index, reached.get(channel) ?? 0))
  }

  #endAt(agent: AgentId, channel: ChannelId, index: number): void {
    const reading = this.#sessions.get(agent)?.subscriptions.get(channel)
    if (reading?.sent === index) this.#finish(reading)
  }

  /** Ends the deliveries of a channel. */
  #finish(reading: Reading): void {
    const { session, channel, from } = reading
    if (session.subscriptions.get(channel) === reading) session.subscriptions.delete(channel)
    // The agent has yet to acknowledge the last entries.
    noteStay(session, channel, session.stays.get(channel) ?? from)
    session.behind.delete(reading)
    session.welcomes.before.delete(reading)
    const readings = this.#readings.get(channel)
    readings?.delete(reading)
    if (readings?.size !== 0) return
    this.#readings.delete(channel)
    this.onReading(channel, false)
  }

  /**
   * Called when an agent's membership may have ended. The log shows it, unless the agent has been added again since.
   */
  #recheck(agent: AgentId, channel: ChannelId): void {
    const session = this.#sessions.get(agent)
    const reading = session?.subscriptions.get(channel)
    if (!session || !reading) return
    // Otherwise its log is read once the Welcomes are sent.
    if (!session.welcomes.before.has(reading)) session.behind.add(reading)
    this.#pull(session)
  }

  #streamsOf(channel: ChannelId, agents: readonly AgentId[]): number[] {
    const streams = new Set<number>()
    for (const { session } of this.#readings.get(channel) ?? []) streams.add(session.stream.id)
    for (const agent of agents) {
      const session = this.#sessions.get(agent)
      if (session) streams.add(session.stream.id)
    }
    return [...streams]
  }

  #catchUp(reading: Reading): void {
    if (reading.sent >= reading.last) return
    const { session } = reading
    if (session.welcomes.before.has(reading)) return
    session.behind.add(reading)
    this.#pull(session)
  }

  /**
   * Continues reading. Welcomes and entries take turns, because strangers can send any number of Welcomes. One read per
   * session at a time, so that the result fits into the stream's window.
   */
  #pull(session: Session): void {
    if (session.stream.congested || session.reading) return
    const { welcomes } = session
    const [reading] = session.behind
    if (welcomes.waiting && !(welcomes.yields && reading)) return this.#pullWelcomes(session)
    if (!reading) return
    welcomes.yields = false
    session.reading = true
    const { channel, sent, last: known } = reading
    const request = { channel, agent: session.agent, after: sent, maxBytes: READ_BYTES, maxEntries: READ_ENTRIES }
    this.#effects.store('read', request, (outcome) => {
      session.reading = false
      // False if the deliveries ended or restarted in the meantime.
      if (session.behind.has(reading)) {
        // If the store fails, the next entry or the next tick retries.
        if (!outcome.ok) return
        this.#deliver(reading, outcome.value, known)
      }
      this.#pull(session)
    })
  }

  #pullWelcomes(session: Session): void {
    const { welcomes, agent, stream } = session
    session.reading = true
    // Set again if more Welcomes arrive during the read.
    welcomes.more = false
    welcomes.yields = true
    this.#effects.store('welcomes', { agent, after: welcomes.after, maxBytes: READ_BYTES }, (outcome) => {
      session.reading = false
      if (!outcome.ok) return
      welcomes.waiting = welcomes.more || outcome.value.more
      // The event may still be on its way from another node.
      if (outcome.value.welcomes.length > 0) this.#noteAdded(agent)
      for (const welcome of outcome.value.welcomes) {
        welcomes.after = welcome.sequence
        noteStay(session, welcome.channel, welcome.position.index)
        this.#effects.send([stream.id], welcomeMessage(welcome))
      }
      if (!welcomes.waiting) this.#follow(session)
      this.#pull(session)
    })
  }

  /** All Welcomes are sent: the entries that had to wait for them follow. */
  #follow({ welcomes: { before }, behind }: Session): void {
    for (const reading of before) behind.add(reading)
    before.clear()
  }

  /** `known` is the last index that was known when the store was asked. */
  #deliver(reading: Reading, { entries, gap, last, ended, from }: StoreResult<'read'>, known: number): void {
    const { session, channelBytes } = reading
    // It was added again, which another node has not announced yet. It resumes once it has joined with its Welcome.
    if (from !== undefined && from !== reading.from) {
      this.#finish(reading)
      return this.welcomed(session)
    }
    const stream = [session.stream.id]
    if (gap) {
      this.#effects.send(stream, gapMessage(channelBytes, gap))
      reading.sent = gap.position.index
    }
    for (const entry of entries) {
      this.#effects.send(stream, entryMessage(channelBytes, entry, entry.sender === session.agent))
      reading.sent = entry.index
    }
    const progress = entries.length > 0 || gap !== undefined
    // After a read without progress, the store is not asked again until there is a new entry.
    if (ended) reading.last = progress ? last : reading.sent
    else if (progress || reading.last > known) reading.last = Math.max(last, reading.last)
    else reading.last = reading.sent
    // Moved to the end of the queue, so that the channels of an agent take turns.
    session.behind.delete(reading)
    if (reading.sent < reading.last) session.behind.add(reading)
    else if (ended) this.#finish(reading)
  }
}

/** Remembers a membership that a session knows of. Others can cause any number of them. */
function noteStay({ stays }: Session, channel: ChannelId, from: number): void {
  stays.delete(channel)
  stays.set(channel, from)
  if (stays.size <= MOST_STAYS) return
  const [oldest = channel] = stays.keys()
  stays.delete(oldest)
}

/** Whether the next entry may be sent directly, because nothing is pending before it. */
function isLive(reading: Reading): boolean {
  const { stream, behind, welcomes } = reading.session
  return !stream.congested && !behind.has(reading) && !welcomes.before.has(reading)
}
