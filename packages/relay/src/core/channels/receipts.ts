/**
 * Receipts on their way to the members whose sessions asked for them (SPEC.md, "Receipts"). They are neither trusted
 * nor read here. Each member's last one waits for the next round, so that a reader gets at most four messages a second
 * per channel, or one receipt a second, however often members send. The store has them all: an agent gets what is lost
 * here with its next Resume.
 *
 * Nothing is kept for a reader that is congested, lags behind the log or would get too much at once. It gets the stored
 * ones when it can take them, one channel after the other. The store also checks membership: a removed agent that has
 * not read that far must not learn what others do.
 */
import { MAX_MEMBERS } from '@static/protocol'
import { ReceiptDemand } from '@static/protocol/relay'
import type { AgentId, ChannelId, MemberReceipt, StoreResult, Time } from '../../ports.ts'
import type { Delivery } from '../delivery.ts'
import type { Effects } from '../effects.ts'
import { wrong } from '../requests/request-fields.ts'
import { receiptsMessage } from '../server-messages.ts'
import type { Reading, Session } from '../sessions/stream.ts'

/** Four rounds a second. */
const ROUND_MS = 250
/** A session that asked for samples gets one per this interval. */
const SAMPLE_MS = 1000
/**
 * How many receipts a session may get in a round: they fit into a stream's window. Each push, and each read of the
 * store, counts as several more.
 */
const MOST_AT_ONCE = 1000
const PUSH_COST = 16
const READ_COST = 64

/** What receipts need from the rest of the node. */
export interface ReceiptsContext {
  readonly effects: Effects
  readonly delivery: Delivery
  /** The other nodes; undefined if there is only this one. */
  readonly cluster: () => object | undefined
  /** Stores the receipts that sessions here have sent. */
  readonly storeAll: () => void
}

/** How many receipts the store returns with the answer to Resume. All of them follow, channel by channel. */
export function receiptsWithResume(demand: ReceiptDemand): number {
  if (demand === ReceiptDemand.SAMPLE) return 1
  if (demand === ReceiptDemand.UNSPECIFIED || demand === ReceiptDemand.ALL) return 0
  throw wrong(`\`receipts\` must be UNSPECIFIED, SAMPLE or ALL, not ${Number(demand)}`)
}

export class Receipts {
  readonly #context: ReceiptsContext
  /** New since the last round: from sessions here, and from other nodes. */
  readonly #fresh = new Map<ChannelId, Map<AgentId, Uint8Array>>()
  readonly #told = new Map<ChannelId, Map<AgentId, Uint8Array>>()
  /** Those with a sample that is not due yet. */
  readonly #sampling = new Set<Reading>()
  /** Deliveries that have just resumed, those that missed something, and the one being read for each session. */
  readonly #first = new Map<Session, Set<Reading>>()
  readonly #stale = new Map<Session, Set<Reading>>()
  readonly #reads = new Map<Session, Reading>()
  /** What each session has used up in this round. */
  readonly #spent = new Map<Session, number>()
  #roundAt: Time = -Infinity

  constructor(context: ReceiptsContext) {
    this.#context = context
  }

  /** Takes a receipt that a member sent in a session here. */
  take(channel: ChannelId, agent: AgentId, receipt: Uint8Array): void {
    put(this.#fresh, channel, agent, receipt)
  }

  /** Takes receipts that another node passed on. */
  told(channel: ChannelId, receipts: readonly MemberReceipt[]): void {
    for (const { agent, receipt } of receipts) put(this.#told, channel, agent, receipt)
  }

  /** Gives a session that resumed a channel the stored receipts. */
  resumed(reading: Reading, receipts: readonly MemberReceipt[]): void {
    const { effects } = this.#context
    reading.sampledAt = effects.monotonic
    if (reading.receipts === ReceiptDemand.ALL) {
      add(this.#first, reading)
      this.#pull(reading.session)
    } else if (receipts.length > 0) {
      effects.send([reading.session.stream.id], receiptsMessage(reading.channelBytes, receipts))
    }
  }

  tick(): void {
    const { effects } = this.#context
    if (effects.monotonic - this.#roundAt < ROUND_MS) return
    this.#roundAt = effects.monotonic
    if (this.#context.cluster()) {
      for (const [channel, receipts] of this.#fresh) {
        effects.publish(`c.${channel}`, { type: 'receipts', channel, receipts: listOf(receipts) })
      }
    }
    this.#spent.clear()
    // Anything marked in an earlier round is in the store by now, including what other nodes received.
    for (const session of new Set([...this.#first.keys(), ...this.#stale.keys()])) this.#pull(session)
    for (const channel of new Set([...this.#fresh.keys(), ...this.#told.keys()])) {
      this.#round(channel, new Map([...(this.#told.get(channel) ?? []), ...(this.#fresh.get(channel) ?? [])]))
    }
    this.#fresh.clear()
    this.#told.clear()
    this.#sample()
  }

  /** Gives a channel's new receipts to its readers, most of which get the same message. */
  #round(channel: ChannelId, receipts: ReadonlyMap<AgentId, Uint8Array>): void {
    const { effects, delivery } = this.#context
    const list = listOf(receipts)
    const all: Reading[] = []
    for (const reading of delivery.readings(channel)) {
      const { agent } = reading.session
      const last =
        reading.receipts === ReceiptDemand.UNSPECIFIED ? undefined : list.findLast((each) => each.agent !== agent)
      if (!last) continue
      if (reading.receipts === ReceiptDemand.SAMPLE) {
        reading.sample = last
        this.#sampling.add(reading)
      } else if (this.#takes(reading, list.length)) all.push(reading)
      else this.#mark(reading)
    }
    const [first] = all
    if (!first) return
    const streams = all.map(({ session }) => session.stream.id)
    effects.send(streams, receiptsMessage(first.channelBytes, list))
  }

  /**
   * Whether a reader can take this many now: it is up to date with the log and with receipts, and has had few in this
   * round.
   */
  #takes(reading: Reading, count: number): boolean {
    const { session } = reading
    if (session.stream.congested || session.behind.has(reading)) return false
    const isWaiting = [this.#first, this.#stale].some((readings) => readings.get(session)?.has(reading) === true)
    if (isWaiting || this.#reads.get(session) === reading) return false
    this.#spend(session, count + PUSH_COST)
    return this.#hasLeft(session)
  }

  #spend(session: Session, cost: number): void {
    this.#spent.set(session, (this.#spent.get(session) ?? 0) + cost)
  }

  #hasLeft(session: Session): boolean {
    return (this.#spent.get(session) ?? 0) <= MOST_AT_ONCE
  }

  /** Gives sessions their samples, one a second. */
  #sample(): void {
    const { effects } = this.#context
    for (const reading of this.#sampling) {
      const { session, channelBytes, sample } = reading
      const isOver = !isOpen(reading)
      if (!isOver && (effects.monotonic - reading.sampledAt < SAMPLE_MS || session.stream.congested)) continue
      this.#sampling.delete(reading)
      reading.sample = undefined
      if (isOver || !sample) continue
      reading.sampledAt = effects.monotonic
      if (session.behind.has(reading)) this.#mark(reading)
      else effects.send([session.stream.id], receiptsMessage(channelBytes, [sample]))
    }
  }

  #mark(reading: Reading): void {
    if (this.#first.get(reading.session)?.has(reading) !== true) add(this.#stale, reading)
  }

  /** Gives a session the stored receipts, one channel after the other, while it reads and is within its limit. */
  #pull(session: Session): void {
    const { effects, delivery } = this.#context
    if (delivery.session(session.agent) !== session) {
      this.#first.delete(session)
      this.#stale.delete(session)
      return
    }
    if (session.stream.congested || this.#reads.has(session)) return
    // Resume has a rate of its own.
    const reading = next(this.#first, session) ?? (this.#hasLeft(session) ? next(this.#stale, session) : undefined)
    if (!reading) return
    this.#spend(session, READ_COST)
    this.#reads.set(session, reading)
    const receipts = reading.receipts === ReceiptDemand.ALL ? MAX_MEMBERS : 1
    const query = { agent: session.agent, channels: [reading.channel], after: undefined, limit: 1, receipts }
    this.#context.storeAll()
    effects.store('resume', query, (outcome) => {
      this.#reads.delete(session)
      // If the store fails, the next round retries.
      if (!outcome.ok) return this.#mark(reading)
      if (isOpen(reading)) this.#give(reading, outcome.value)
      this.#pull(session)
    })
  }

  #give(reading: Reading, { standings: [standing] }: StoreResult<'resume'>): void {
    if (!standing || 'refused' in standing) return
    const { receipts = [] } = standing
    if (reading.receipts === ReceiptDemand.SAMPLE && receipts.length === 0) return
    this.#context.effects.send([reading.session.stream.id], receiptsMessage(reading.channelBytes, receipts))
  }
}

/** Whether the delivery has neither ended nor restarted. */
function isOpen(reading: Reading): boolean {
  return reading.session.subscriptions.get(reading.channel) === reading
}

function add(readings: Map<Session, Set<Reading>>, reading: Reading): void {
  const known = readings.get(reading.session)
  if (known) known.add(reading)
  else readings.set(reading.session, new Set([reading]))
}

/** Takes the first delivery of a session that is open. */
function next(readings: Map<Session, Set<Reading>>, session: Session): Reading | undefined {
  const known = readings.get(session)
  for (const reading of known ?? []) {
    known?.delete(reading)
    if (isOpen(reading)) return reading
  }
  readings.delete(session)
  return undefined
}

function put(
  receipts: Map<ChannelId, Map<AgentId, Uint8Array>>,
  channel: ChannelId,
  agent: AgentId,
  receipt: Uint8Array,
): void {
  const known = receipts.get(channel)
  if (known) known.set(agent, receipt)
  else receipts.set(channel, new Map([[agent, receipt]]))
}

function listOf(receipts: ReadonlyMap<AgentId, Uint8Array>): MemberReceipt[] {
  return [...receipts].map(([agent, receipt]) => ({ agent, receipt }))
}
