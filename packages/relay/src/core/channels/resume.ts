/** The cursors of agents in their channels: agents resume from them, and acknowledgements advance them. */
import { message, RECEIPT_BYTES, type StaticError } from '@static/protocol'
import { type AckRequest, AckResponseSchema, type ResumeRequest, ResumeResponseSchema } from '@static/protocol/relay'
import type { Account, AckedPosition, AgentId, ChannelId, StoreRequest, StoreResult, Time } from '../../ports.ts'
import type { Outcome } from '../io.ts'
import type { PendingRequest } from '../requests/pending-request.ts'
import { oweFor, Rates, takeFor } from '../requests/rates.ts'
import { channelIdOf, checkLength, numberOf, wrong } from '../requests/request-fields.ts'
import { type Body, refusalOf, tooOften, wireStanding } from '../server-messages.ts'
import { type Reading, type Session, stayOf, type Stream } from '../sessions/stream.ts'
import { allowMemberEnvelopes, type ChannelContext } from './context.ts'
import { type Receipts, receiptsWithResume } from './receipts.ts'
import { type ResumeTurn, ResumeTurns } from './resume-turns.ts'

/** Number of acknowledged positions per request that are free. */
const FREE_POSITIONS = 64
/**
 * Acknowledged positions per minute, per agent and per address, in channels that the agent's session does not read.
 * Anyone can make up ids, and the store searches for each of them. An honest agent acknowledges there what an earlier
 * session, or a subscription at another node, has delivered; the first position of a request is free.
 */
const UNKNOWN_PER_MINUTE = 2000
const UNKNOWN = 'acknowledged channels that the session does not read, per agent and per address,'
/**
 * The interval between receipts that acknowledge nothing new, once a member has sent more of them than there are
 * entries: each is written to disk and sent to everyone, and no one pays for it.
 */
const RECEIPT_MS = 10_000

/**
 * How long acknowledgements wait, so that those of all sessions are flushed to disk together: alone, each costs more
 * than the message that it acknowledges. What is lost in a crash is delivered again.
 */
const HOLD_MS = 1000
/** With this many entries or channels, a session's acknowledgements are stored at the next tick: they free room. */
const MOST_HELD = 16

/** The cursors of one node's agents. */
export class Resumes {
  readonly #context: ChannelContext
  readonly #rememberPayer: (channel: ChannelId, account: Account) => void
  readonly #rates: Rates
  readonly #unknown = new Rates(UNKNOWN_PER_MINUTE / 60, UNKNOWN_PER_MINUTE)
  readonly #receipts: Receipts
  readonly #turns = new ResumeTurns()
  /** Deliveries with a receipt that is not due yet. */
  readonly #held = new Set<Reading>()
  /** Sessions with acknowledgements that are not stored yet. */
  readonly #waiting = new Set<Session>()
  #storedAt: Time = -Infinity

  /** `rememberPayer` gets the account that pays for a guest's messages. */
  constructor(
    context: ChannelContext,
    receipts: Receipts,
    rememberPayer: (channel: ChannelId, account: Account) => void,
  ) {
    this.#context = context
    this.#receipts = receipts
    this.#rememberPayer = rememberPayer
    const { resumedPerMinute } = context.settings.rates
    this.#rates = new Rates(resumedPerMinute / 60, resumedPerMinute)
  }

  /** Returns the agent's standings and starts deliveries from its cursors. */
  resume(request: PendingRequest, session: Session, value: ResumeRequest): void {
    const query = this.#query(request, value, receiptsWithResume(value.receipts))
    if (query) this.#inTurn(request, query, (turn) => this.#resume(request, session, query, value.receipts, turn))
  }

  /** Returns the caller's standings without starting deliveries, for unary calls. */
  standings(request: PendingRequest, value: ResumeRequest): void {
    const query = this.#query(request, value, 0)
    if (!query) return
    this.#inTurn(request, query, (turn) => {
      this.storeAll()
      this.#context.effects.store('resume', query, (outcome) => {
        this.#ended(turn, outcome)
        if (!outcome.ok) return request.refuse(refusalOf(outcome.error))
        request.answer(standingsAnswer(outcome.value))
      })
    })
  }

  /** Called when the stream has ended: forgets its waiting Resumes. */
  gone(stream: Stream): void {
    this.#turns.closed(stream)
  }

  /** Advances cursors and responds. */
  acknowledge(request: PendingRequest, { positions }: AckRequest): void {
    const { agent } = request.caller
    const { resumedChannels: limit } = this.#context.settings.counts
    if (positions.length > limit)
      throw wrong(`\`positions\` must have at most ${limit} entries, not ${positions.length}`)
    if (this.#isTooOften(request, positions.length - FREE_POSITIONS)) return
    const { session, address } = request.stream
    const all = acknowledged(positions, session)
    // A call may acknowledge what a subscription delivered.
    const reader = session ?? this.#context.delivery.session(agent)
    const unknown = all.filter(({ channel }) => !reader || stayOf(reader, channel) === undefined).length
    const wait = this.#wait(this.#unknown, agent, address, Math.min(unknown - 1, UNKNOWN_PER_MINUTE))
    if (wait > 0) return request.refuse(tooOften(UNKNOWN_PER_MINUTE, UNKNOWN, wait))
    this.#context.effects.store('ack', { agent, positions: all }, (outcome) => {
      if (!outcome.ok) return request.refuse(refusalOf(outcome.error))
      request.answer({ case: 'ack', value: message(AckResponseSchema, {}) })
    })
  }

  /** Advances cursors later, without a response. */
  acknowledgeLater(session: Session, { positions }: AckRequest): void {
    const { agent, stream, subscriptions } = session
    for (const { channel, index, from, receipt } of acknowledged(positions, session)) {
      // Whatever is dropped here is delivered again.
      if (from === undefined && this.#wait(this.#unknown, agent, stream.address, 1) > 0) continue
      const reading = subscriptions.get(channel)
      this.#note(session, { channel, index, from })
      if (!reading) continue
      const news = Math.max(0, Math.min(index, reading.sent) - reading.acknowledged)
      session.unstored += news
      reading.acknowledged += news
      reading.receiptsLeft += news
      // Copied, because the bytes are a view of a cell.
      if (receipt) this.#receive(reading, Uint8Array.from(receipt), news > 0)
    }
  }

  /** Takes a receipt from a member that reads the channel. */
  #receive(reading: Reading, receipt: Uint8Array, isNews: boolean): void {
    const { monotonic } = this.#context.effects
    const isDue = isNews || reading.receiptsLeft > 0 || monotonic - reading.receiptAt >= RECEIPT_MS
    if (!isDue) {
      reading.heldReceipt = receipt
      this.#held.add(reading)
      return
    }
    if (!isNews) reading.receiptsLeft = Math.max(0, reading.receiptsLeft - 1)
    this.#pass(reading, receipt)
  }

  #pass(reading: Reading, receipt: Uint8Array): void {
    const { session, channel } = reading
    reading.receiptAt = this.#context.effects.monotonic
    reading.heldReceipt = undefined
    this.#held.delete(reading)
    this.#receipts.take(channel, session.agent, receipt)
    this.#note(session, { channel, index: 0, from: reading.from, receipt })
  }

  /** The session has ended: stores what it has acknowledged. */
  closed(session: Session): void {
    for (const reading of this.#held) {
      if (reading.session === session && reading.heldReceipt) this.#pass(reading, reading.heldReceipt)
    }
    this.#store(session)
  }

  /** Stores all acknowledgements, for a query that must see them. */
  storeAll(): void {
    this.#storedAt = this.#context.effects.monotonic
    for (const session of this.#waiting) this.#store(session)
  }

  #store(session: Session): void {
    this.#waiting.delete(session)
    const { agent, acknowledged } = session
    if (acknowledged.size === 0) return
    const positions = [...acknowledged.values()]
    acknowledged.clear()
    session.unstored = 0
    this.#context.effects.store('ack', { agent, positions }, (outcome) => {
      if (!outcome.ok) this.#keep(session, positions)
    })
  }

  /**
   * The store has failed: a later tick retries. In a channel that is full for lack of this acknowledgement, no other
   * would follow.
   */
  #keep(session: Session, positions: readonly AckedPosition[]): void {
    if (this.#context.delivery.session(session.agent) !== session) return
    const newer = new Map(session.acknowledged)
    for (const position of positions) {
      // A channel that it no longer reads may belong to another membership by now.
      if (session.subscriptions.get(position.channel)?.from === position.from) this.#note(session, position)
    }
    for (const position of newer.values()) this.#note(session, position)
  }

  /** Remembers a position until it is stored, with the last receipt. One in another membership replaces it. */
  #note(session: Session, { channel, index, from, receipt }: AckedPosition): void {
    const known = session.acknowledged.get(channel)
    const before = known?.from === from ? known : undefined
    const position = { channel, index: Math.max(index, before?.index ?? 0), from }
    session.acknowledged.set(channel, { ...position, receipt: receipt ?? before?.receipt })
    this.#waiting.add(session)
  }

  tick(): void {
    const { monotonic } = this.#context.effects
    for (const reading of this.#held) {
      const { session, channel, heldReceipt } = reading
      if (session.subscriptions.get(channel) !== reading || !heldReceipt) this.#held.delete(reading)
      else if (monotonic - reading.receiptAt >= RECEIPT_MS) this.#pass(reading, heldReceipt)
    }
    // Another node answers from the store alone.
    if (monotonic - this.#storedAt >= HOLD_MS || this.#context.cluster()) return this.storeAll()
    for (const session of this.#waiting) {
      if (session.unstored >= MOST_HELD || session.acknowledged.size >= MOST_HELD) this.#store(session)
    }
  }

  /** Queries the store when it is this request's turn. */
  #inTurn(request: PendingRequest, query: StoreRequest<'resume'>, ask: (turn: ResumeTurn) => void): void {
    const { stream, caller } = request
    const start = (): boolean => {
      // Its cost is known only with the answer, so earlier ones may have used up the rate.
      if (!query.channels && this.#isTooOften(request, 1)) return false
      ask(turn)
      return true
    }
    const drop = (): void => request.abandon()
    const turn: ResumeTurn = { stream, agent: caller.agent, names: query.channels?.length, start, drop }
    this.#turns.take(turn)
  }

  #resume(
    request: PendingRequest,
    session: Session,
    query: StoreRequest<'resume'>,
    demand: ResumeRequest['receipts'],
    turn: ResumeTurn,
  ): void {
    const { effects, delivery } = this.#context
    const { agent } = session
    this.storeAll()
    const meanwhile = delivery.resuming(agent)
    effects.store('resume', query, (outcome) => {
      delivery.answered(meanwhile)
      // The result is outdated: the agent would mistake the end of an earlier membership for the end of the new one.
      if (outcome.ok && meanwhile.added) return this.#resume(request, session, query, demand, turn)
      this.#ended(turn, outcome)
      if (!outcome.ok) return request.refuse(refusalOf(outcome.error))
      const { standings, member } = outcome.value
      if (member) allowMemberEnvelopes(this.#context, agent)
      request.answer(standingsAnswer(outcome.value))
      // Replaced meanwhile: the newer session sends its own Resume.
      if (delivery.session(agent) !== session) return
      // Entries follow the Welcome of their membership, which another node may not have announced yet.
      const isWelcomed = standings.some((standing) => !('refused' in standing) && standing.welcome)
      if (!session.resumed || isWelcomed) delivery.welcomed(session)
      session.resumed = true
      for (const standing of standings) {
        if ('refused' in standing) continue
        if (!session.account) this.#rememberPayer(standing.channel, standing.payer)
        const reading = delivery.start(session, standing, demand, meanwhile.reached.get(standing.channel))
        this.#receipts.resumed(reading, standing.receipts ?? [])
      }
    })
  }

  /** Refuses the request and returns true if the rate is used up. */
  #isTooOften(request: PendingRequest, cost: number): boolean {
    const wait = this.#wait(this.#rates, request.caller.agent, request.stream.address, cost)
    if (wait === 0) return false
    const { resumedPerMinute } = this.#context.settings.rates
    request.refuse(tooOften(resumedPerMinute, 'resumed channels per agent and per address', wait))
    return true
  }

  /**
   * Passes the turn to the next one. One without ids costs as many channels as it returned, of which it has paid for
   * one.
   */
  #ended(turn: ResumeTurn, outcome: Outcome<StoreResult<'resume'>>): void {
    const rest = turn.names === undefined && outcome.ok ? outcome.value.standings.length - 1 : 0
    if (rest > 0) {
      const { monotonic: now } = this.#context.effects
      this.#rates.owe(turn.agent, now, rest)
      oweFor(this.#rates, turn.stream.address, now, rest)
    }
    this.#turns.end(turn)
  }

  /** Takes from a rate per agent and per address. Returns the wait. */
  #wait(rates: Rates, agent: AgentId, address: string, cost: number): number {
    const { monotonic: now } = this.#context.effects
    return cost <= 0 ? 0 : rates.take(agent, now, cost) || takeFor(rates, address, now, cost)
  }

  /** The query for the store; undefined if the request was refused. Every channel named counts towards the rate. */
  #query(
    request: PendingRequest,
    { channelIds, after }: ResumeRequest,
    receipts: number,
  ): StoreRequest<'resume'> | undefined {
    const { resumedChannels: limit } = this.#context.settings.counts
    if (channelIds.length > limit) throw tooMany(channelIds.length, limit)
    const { agent } = request.caller
    if (this.#isTooOften(request, channelIds.length)) return undefined
    const channels = channelIds.length === 0 ? undefined : [...new Set(channelIds.map(channelIdOf))]
    return { agent, channels, after: after.length === 0 ? undefined : channelIdOf(after), limit, receipts }
  }
}

/**
 * Positions in the memberships that the session knows of. Another node may have delivered the entries. The store treats
 * a position beyond the log's end as the end.
 */
function acknowledged(positions: AckRequest['positions'], session: Session | undefined): AckedPosition[] {
  return positions.map(({ channelId, index, receipt }) => {
    const channel = channelIdOf(channelId)
    const position = { channel, index: numberOf(index, 'index'), from: session && stayOf(session, channel) }
    if (receipt.length === 0) return position
    checkLength(receipt, RECEIPT_BYTES, 'receipt')
    return { ...position, receipt }
  })
}

function tooMany(count: number, limit: number): StaticError {
  return wrong(`\`channel_ids\` must have at most ${limit} entries, not ${count}`)
}

function standingsAnswer({ standings, more }: StoreResult<'resume'>): Body {
  return { case: 'resume', value: message(ResumeResponseSchema, { channels: standings.map(wireStanding), more }) }
}
