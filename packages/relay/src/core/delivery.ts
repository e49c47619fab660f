/**
 * Deliveries: who gets which entry, in log order. An entry that follows the last one a session was sent goes out as it
 * comes; a session that is behind, or does not take what it is sent, is served from the log at its own pace.
 */
import { fromHex, toHex } from '@static/protocol'
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
import type { Reading, Session } from './stream.ts'

/** What one read of the log brings at most: the window of a stream holds two of them. */
const READ_BYTES = 128 * 1024
const READ_ENTRIES = 256
/** Agents that were here lately: how far they may still acknowledge by a unary call. */
const REMEMBERED_AGENTS = 10_000
/** Channels that are not delivered any more, of one session. */
const REMEMBERED_CHANNELS = 10_000

/** What came while an agent resumed: what the store tells it may be older. */
export interface Meanwhile {
  readonly agent: AgentId
  /** It was added to a channel, or got its Welcome. */
  added: boolean
  /** The last index of channels. */
  readonly reached: Map<ChannelId, number>
}

/** The deliveries of one node. */
export class Delivery {
  readonly #effects: Effects
  readonly #sessions = new Map<AgentId, Session>()
  readonly #readings = new Map<ChannelId, Set<Reading>>()
  readonly #left = new Map<AgentId, ReadonlyMap<ChannelId, number>>()
  readonly #resumes = new Set<Meanwhile>()

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

  /** Makes a session the agent's only one; returns the one whose place it took. */
  enter(session: Session): Session | undefined {
    const older = this.#sessions.get(session.agent)
    if (older) this.leave(older)
    // What came by an earlier session was delivered, too.
    for (const [channel, index] of this.#left.get(session.agent) ?? []) session.sent.set(channel, index)
    this.#left.delete(session.agent)
    this.#sessions.set(session.agent, session)
    return older
  }

  /** A session is over. */
  leave(session: Session): void {
    if (this.#sessions.get(session.agent) !== session) return
    this.#sessions.delete(session.agent)
    for (const reading of session.subscriptions.values()) this.#finish(reading)
    if (session.sent.size === 0) return
    this.#left.set(session.agent, session.sent)
    if (this.#left.size <= REMEMBERED_AGENTS) return
    for (const oldest of this.#left.keys()) {
      this.#left.delete(oldest)
      break
    }
  }

  /** An agent is about to ask the store where it stands. */
  resuming(agent: AgentId): Meanwhile {
    const meanwhile = { agent, added: false, reached: new Map() }
    this.#resumes.add(meanwhile)
    return meanwhile
  }

  /** The store has answered. */
  answered(meanwhile: Meanwhile): void {
    this.#resumes.delete(meanwhile)
  }

  /** Starts the deliveries of a channel after the agent's cursor; `reached` is the last index that is known of. */
  start(session: Session, standing: Standing, reached = 0): void {
    const { channel, cursor, lastIndex } = standing
    const known = session.subscriptions.get(channel)
    if (known) this.#finish(known)
    const last = Math.max(lastIndex, reached)
    const reading = { session, channel, channelBytes: fromHex(channel), sent: cursor.index, last }
    session.subscriptions.set(channel, reading)
    const readings = this.#readings.get(channel)
    if (readings) readings.add(reading)
    else this.#readings.set(channel, new Set([reading]))
    this.#catchUp(reading)
  }

  /** A Welcome waits in the store for an agent that is connected; others find it when they resume. */
  welcomed(session: Session): void {
    session.welcomes.waiting = true
    session.welcomes.more = true
    this.#pull(session)
  }

  /** How far an agent may acknowledge a channel: what it was sent. */
  sentTo(agent: AgentId, channel: ChannelId): number {
    const session = this.#sessions.get(agent)
    if (!session) return this.#left.get(agent)?.get(channel) ?? -1
    return Math.max(session.subscriptions.get(channel)?.sent ?? -1, session.sent.get(channel) ?? -1)
  }

  /** The session takes more. */
  drained(session: Session): void {
    this.#pull(session)
  }

  /** Reads that the store refused are tried again. */
  tick(): void {
    for (const session of this.#sessions.values()) this.#pull(session)
  }

  /** Something has happened in a channel. */
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
        for (const agent of event.undoneAdds) this.#end(agent, event.channel)
        return
      }
      case 'rosterReset': {
        const message = rosterResetMessage(event)
        this.#effects.send(this.#streamsOf(event.channel, [...event.dropped, ...event.returned]), message)
        for (const agent of event.dropped) this.#end(agent, event.channel)
        // Whoever is resuming would be told of the time before.
        for (const agent of event.returned) this.#noteAdded(agent)
        return
      }
      case 'barLifted':
        this.#effects.send(this.#streamsOf(event.channel, []), barLiftedMessage(event.channel, event.agent))
        return
      case 'deleted': {
        const message = deletedMessage(event.channel, event.name)
        this.#effects.send(this.#streamsOf(event.channel, event.members), message)
        for (const reading of this.#readings.get(event.channel) ?? []) this.#finish(reading)
        return
      }
    }
  }

  #appended(channel: ChannelId, entry: Entry): void {
    for (const { reached } of this.#resumes) reached.set(channel, entry.index)
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
    // What ends a membership is the last that its agent gets. Who is behind finds the end in the log.
    if (entry.kind === 'leave') this.#endAt(entry.sender, channel, entry.index)
    if (entry.kind !== 'commit') return
    for (const agent of entry.declaration.removes) this.#endAt(toHex(agent), channel, entry.index)
    // Of an earlier membership the log has nothing more for who is added again: it resumes when it has joined.
    for (const agent of entry.declaration.adds) this.#end(toHex(agent), channel)
  }

  #noteAdded(agent: AgentId): void {
    for (const meanwhile of this.#resumes) if (meanwhile.agent === agent) meanwhile.added = true
  }

  #endAt(agent: AgentId, channel: ChannelId, index: number): void {
    const reading = this.#sessions.get(agent)?.subscriptions.get(channel)
    if (reading?.sent === index) this.#finish(reading)
  }

  /** Nothing more comes of this channel; what came may still be acknowledged. */
  #finish(reading: Reading): void {
    const { session, channel } = reading
    this.#note(session, channel, reading.sent)
    if (session.subscriptions.get(channel) === reading) session.subscriptions.delete(channel)
    session.behind.delete(reading)
    const readings = this.#readings.get(channel)
    readings?.delete(reading)
    if (readings?.size === 0) this.#readings.delete(channel)
  }

  #end(agent: AgentId, channel: ChannelId): void {
    const reading = this.#sessions.get(agent)?.subscriptions.get(channel)
    if (reading) this.#finish(reading)
  }

  /** So far a channel may be acknowledged that is not delivered now. */
  #note({ sent }: Session, channel: ChannelId, index: number): void {
    const known = sent.get(channel) ?? -1
    sent.delete(channel)
    sent.set(channel, Math.max(known, index))
    if (sent.size <= REMEMBERED_CHANNELS) return
    for (const oldest of sent.keys()) {
      sent.delete(oldest)
      break
    }
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
    session.behind.add(reading)
    this.#pull(session)
  }

  /** Reads on, Welcomes first: one read at a time and session, so that the window holds what comes. */
  #pull(session: Session): void {
    if (session.stream.congested || session.reading) return
    if (session.welcomes.waiting) return this.#pullWelcomes(session)
    const [reading] = session.behind
    if (!reading) return
    session.reading = true
    const { channel, sent } = reading
    const request = { channel, agent: session.agent, after: sent, maxBytes: READ_BYTES, maxEntries: READ_ENTRIES }
    this.#effects.store('read', request, (outcome) => {
      session.reading = false
      // Ended, or started anew, meanwhile.
      if (session.behind.has(reading)) {
        // When the store fails, the next entry or the next tick tries again.
        if (!outcome.ok) return
        this.#deliver(reading, outcome.value)
      }
      this.#pull(session)
    })
  }

  #pullWelcomes(session: Session): void {
    const { welcomes, agent, stream } = session
    session.reading = true
    // Set again by those that come meanwhile. They wait until they are sent: what follows a Welcome comes after it.
    welcomes.more = false
    this.#effects.store('welcomes', { agent, after: welcomes.after, maxBytes: READ_BYTES }, (outcome) => {
      session.reading = false
      if (!outcome.ok) return
      welcomes.waiting = welcomes.more || outcome.value.more
      for (const welcome of outcome.value.welcomes) {
        welcomes.after = welcome.sequence
        this.#note(session, welcome.channel, welcome.position.index)
        this.#effects.send([stream.id], welcomeMessage(welcome))
      }
      this.#pull(session)
    })
  }

  #deliver(reading: Reading, { entries, gap, last, ended }: StoreResult<'read'>): void {
    const { session, channelBytes } = reading
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
    // A store that has nothing to give is not asked again before it says that something has come.
    reading.last = progress && !ended ? Math.max(last, reading.last) : progress ? last : reading.sent
    // To the end of the queue, so that the channels of an agent take turns.
    session.behind.delete(reading)
    if (reading.sent < reading.last) session.behind.add(reading)
    else if (ended) this.#finish(reading)
  }
}

/** Whether an entry that follows may be sent as it comes: nothing waits before it. */
function isLive(reading: Reading): boolean {
  const { stream, behind, welcomes } = reading.session
  return !stream.congested && !behind.has(reading) && !welcomes.waiting
}
