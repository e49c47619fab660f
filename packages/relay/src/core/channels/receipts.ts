/**
 * Receipts on their way to the members whose sessions asked for them (SPEC.md, "Receipts"). Nothing in them is trusted
 * or even read here. Each member's last one waits for the next round, so that however often members send, a reader gets
 * at most four messages a second and channel, or one with one receipt a second. The store has them all: what is lost
 * here, an agent gets with its next Resume.
 */
import { MAX_MEMBERS } from '@static/protocol'
import { ReceiptDemand } from '@static/protocol/relay'
import type { AgentId, ChannelId, MemberReceipt, Time } from '../../ports.ts'
import type { Delivery } from '../delivery.ts'
import type { Effects } from '../effects.ts'
import { wrong } from '../request-fields.ts'
import { receiptsMessage } from '../server-messages.ts'
import type { Reading } from '../stream.ts'

/** Four rounds a second. */
const ROUND_MS = 250
/** A session that asked for samples gets one in this time. */
const SAMPLE_MS = 1000

/** What receipts ask of the rest of the node. */
export interface ReceiptsContext {
  readonly effects: Effects
  readonly delivery: Delivery
  /** The other nodes; undefined if there is only this one. */
  readonly cluster: () => object | undefined
}

/** How many receipts a Resume returns at once. */
export function receiptsWanted(demand: ReceiptDemand): number {
  if (demand === ReceiptDemand.ALL) return MAX_MEMBERS
  if (demand === ReceiptDemand.SAMPLE) return 1
  if (demand === ReceiptDemand.UNSPECIFIED) return 0
  throw wrong(`\`receipts\` must be UNSPECIFIED, SAMPLE or ALL, not ${Number(demand)}`)
}

/** The receipts of one node. */
export class Receipts {
  readonly #context: ReceiptsContext
  /** New since the last round: from sessions here, and from other nodes. */
  readonly #fresh = new Map<ChannelId, Map<AgentId, Uint8Array>>()
  readonly #told = new Map<ChannelId, Map<AgentId, Uint8Array>>()
  /** Those that did not get everything in the last round. */
  readonly #waiting = new Set<Reading>()
  #roundAt: Time = -Infinity

  constructor(context: ReceiptsContext) {
    this.#context = context
  }

  /** A member has sent a receipt in a session here. */
  take(channel: ChannelId, agent: AgentId, receipt: Uint8Array): void {
    put(this.#fresh, channel, agent, receipt)
  }

  /** Another node has told what it got. */
  told(channel: ChannelId, receipts: readonly MemberReceipt[]): void {
    for (const { agent, receipt } of receipts) put(this.#told, channel, agent, receipt)
  }

  /** A session has resumed a channel: it gets what the store has. */
  resumed(reading: Reading, receipts: readonly MemberReceipt[]): void {
    const { effects } = this.#context
    if (reading.receipts === ReceiptDemand.UNSPECIFIED) return
    reading.sampledAt = effects.monotonic
    if (reading.receipts === ReceiptDemand.ALL || receipts.length > 0) {
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
    for (const channel of new Set([...this.#fresh.keys(), ...this.#told.keys()])) {
      this.#round(channel, new Map([...(this.#told.get(channel) ?? []), ...(this.#fresh.get(channel) ?? [])]))
    }
    this.#fresh.clear()
    this.#told.clear()
    this.#catchUp()
  }

  /** Gives a channel's new receipts to its readers, most of which get the same message. */
  #round(channel: ChannelId, receipts: ReadonlyMap<AgentId, Uint8Array>): void {
    const { effects, delivery } = this.#context
    const all: Reading[] = []
    for (const reading of delivery.readings(channel)) {
      if (reading.receipts === ReceiptDemand.UNSPECIFIED) continue
      if (reading.receipts === ReceiptDemand.ALL && reading.unsent.size === 0 && !reading.session.stream.congested) {
        all.push(reading)
        continue
      }
      const { agent } = reading.session
      for (const [of, receipt] of receipts) {
        if (of === agent) continue
        if (reading.receipts === ReceiptDemand.SAMPLE) reading.unsent.clear()
        reading.unsent.set(of, receipt)
      }
      if (reading.unsent.size > 0) this.#waiting.add(reading)
    }
    const [first] = all
    if (!first) return
    const streams = all.map(({ session }) => session.stream.id)
    effects.send(streams, receiptsMessage(first.channelBytes, listOf(receipts)))
  }

  /** Gives sessions what they were not given at once: they did not read, or get one receipt a second. */
  #catchUp(): void {
    const { effects } = this.#context
    for (const reading of this.#waiting) {
      const { session, channel, channelBytes, unsent } = reading
      if (session.subscriptions.get(channel) !== reading) {
        this.#waiting.delete(reading)
        continue
      }
      const isEarly = reading.receipts === ReceiptDemand.SAMPLE && effects.monotonic - reading.sampledAt < SAMPLE_MS
      if (isEarly || session.stream.congested) continue
      this.#waiting.delete(reading)
      reading.sampledAt = effects.monotonic
      effects.send([session.stream.id], receiptsMessage(channelBytes, listOf(unsent)))
      unsent.clear()
    }
  }
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
