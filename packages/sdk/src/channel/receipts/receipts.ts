/**
 * The receipts of one channel: this agent's own (signer.ts), those of others (reader.ts), and callers waiting for them
 * (reached.ts). Until the application uses receipts, the relay is asked only for a sample.
 */
import {
  fromHex,
  identityWithFingerprint,
  type ReceiptMode,
  shortFingerprint,
  StaticError,
  toHex,
} from '@static/protocol'
import { type ReceiptBatch, ReceiptDemand } from '@static/protocol/relay'
import { utf8Text } from '../../platform/bytes.ts'
import type { AgentId, Change, StayRecord, StoredChannel } from '../../ports/index.ts'
import type { AgentContext } from '../../agent/context.ts'
import type { AgentChannel } from '../channel.ts'
import { Part, type RosterChange } from '../part.ts'
import type { SentMessage } from '../sending/outbox.ts'
import { limitSend, type SendLimits } from '../sending/send-wait.ts'
import { type Judgement, type IndexQuestion, ReachedWaits, type ReceiptLevel } from './reached.ts'
import { ReceiptReader } from './reader.ts'
import { ReceiptSigner } from './signer.ts'
import { Stays } from './stays.ts'

/** The context that receipts need from their agent. */
type ReceiptsContext = Pick<AgentContext, 'agentId' | 'sign' | 'now' | 'later' | 'emit' | 'receipts' | 'offline'>

/** A message that `reached` asks about. */
export interface ReachedQuestion {
  readonly sent: SentMessage
  readonly level: ReceiptLevel
  readonly by: readonly AgentId[] | undefined
}

/** The number of members that an error names. */
const MOST_NAMED = 10
/** How long `current` waits for the relay. */
const FETCH_MS = 5000

/** The receipts of one channel. */
export class Receipts extends Part {
  readonly #context: ReceiptsContext
  readonly #channel: AgentChannel
  readonly #signer: ReceiptSigner
  readonly #reader: ReceiptReader
  readonly #stays: Stays
  readonly #waits: ReachedWaits
  /** Callers waiting for a message of this agent to be in the log. */
  readonly #placing = new Set<() => void>()
  /** Whether the relay delivers all receipts next, whether it has in this session, and the callers waiting for that. */
  #isFetching = false
  #hasFetched = false
  readonly #fetching = new Set<() => void>()
  /** Why there will be no more receipts. */
  #ended: StaticError | undefined

  constructor(
    context: ReceiptsContext,
    channel: AgentChannel,
    { ownReceipt, stays }: Pick<StoredChannel, 'ownReceipt' | 'stays'>,
  ) {
    super()
    this.#context = context
    this.#channel = channel
    this.#stays = new Stays(channel.id, stays)
    this.#signer = new ReceiptSigner(context, channel, ownReceipt)
    this.#reader = new ReceiptReader(context, channel, this.#stays)
    this.#waits = new ReachedWaits({
      stays: (index) => this.#staysAt(index),
      isLeaving: (agent) => channel.roster.notice(agent) !== undefined,
    })
  }

  /** The level that this agent reports to others. */
  get mode(): ReceiptMode {
    return this.#signer.mode
  }

  /** Which receipts the relay should deliver in the next session. */
  get demand(): ReceiptDemand {
    return this.#reader.isUsed ? ReceiptDemand.ALL : ReceiptDemand.SAMPLE
  }

  /** The entry that added a member; 0 if it was there before this agent. */
  memberSince(agent: AgentId): number {
    return this.#stays.of(agent).addedAt
  }

  /** Whether this agent, as the owner, has vouched for a member. It counts as vouched itself. */
  isVouched(agent: AgentId): boolean {
    if (this.#channel.owner !== this.#context.agentId) return false
    return agent === this.#context.agentId || this.#stays.of(agent).vouched
  }

  /**
   * The relay has accepted this agent's vouch for a member since an entry. The member may have been removed meanwhile.
   */
  vouched(agent: AgentId, since: number): void {
    if (this.#channel.group?.members.has(agent) !== true || this.memberSince(agent) !== since) return
    this.#stays.vouch(agent)
    this.#channel.turn.touchPart()
  }

  // ---- For the application ----

  /** The other members with their last verified receipts, after the relay has delivered those it has. */
  async current(): Promise<readonly StayRecord[]> {
    this.#use()
    if (!this.#hasFetched && this.#context.offline === undefined) await this.#fetched()
    const members = this.#channel.group?.members.keys() ?? []
    return [...members].filter((agent) => agent !== this.#context.agentId).map((agent) => this.#stays.of(agent))
  }

  /**
   * Resolves once every member that can has a message.
   *
   * @throws {StaticError} `cancelled`, `not_found`, or the error that ended the channel
   */
  async reached({ sent, level, by }: ReachedQuestion, limits: SendLimits): Promise<Judgement> {
    const { failure } = this.#channel
    if (failure) throw failure
    this.#use()
    const ended = Promise.withResolvers<(missing: readonly AgentId[]) => StaticError>()
    const forget = limitSend(this.#context, limits, (cause, reason) => {
      ended.resolve((missing) => this.#unconfirmed(sent, missing, reason, cause))
    })
    try {
      const place = await Promise.race([this.#place(sent), ended.promise])
      if (typeof place === 'function') throw place([])
      // This agent may have been removed meanwhile: without a group, there would be no one left to wait for.
      if (this.#ended) throw this.#ended
      const question: IndexQuestion = { index: place, level, by }
      return await this.#waits.wait(question, (end) => void ended.promise.then(end))
    } finally {
      forget?.()
    }
  }

  /** The error of a wait that ends before every member has confirmed a message. */
  #unconfirmed({ messageId }: SentMessage, missing: readonly AgentId[], reason: string, cause: unknown): StaticError {
    const names = missing.slice(0, MOST_NAMED).map((agentId) => {
      const identity = utf8Text(this.#channel.group?.members.get(agentId)?.identity ?? new Uint8Array())
      return identity === '' ? shortFingerprint(agentId) : identityWithFingerprint({ agentId, identity })
    })
    const who = names.length === 0 ? '' : ` Missing: ${names.join(', ')}${missing.length > MOST_NAMED ? ', …' : ''}.`
    const text = `Not every member has confirmed message ${messageId}.${who} ${reason}`
    return StaticError.of('cancelled', text, { cause, missing })
  }

  // ---- What happens in the channel ----

  /** The agent starts with a channel loaded from disk. */
  loaded(): void {
    this.#signer.loaded()
  }

  /** The relay delivers receipts of other members. */
  deliver(batch: ReceiptBatch): void {
    this.#reader.check(batch)
    // Before the answer to Resume, it is a sample.
    if (!this.#isFetching) return
    this.#isFetching = false
    this.#hasFetched = true
    for (const done of this.#fetching) done()
    this.#fetching.clear()
  }

  /** The log begins here for this agent. */
  start(index: number): void {
    this.#signer.start(index)
  }

  /** An entry was not read. */
  missed(index: number): void {
    this.#signer.missed(index)
  }

  /** A message was put aside. */
  putAside(index: number): void {
    this.#signer.putAside(index)
  }

  /** The last entry changed the members. */
  override change({ added, removed, vouched, formerOwner }: RosterChange): void {
    const { index } = this.#channel.history.position
    if (this.#channel.owner === this.#context.agentId) {
      // The relay counts them as vouched. A new owner does not know whom else the former one has vouched for.
      for (const agent of [formerOwner, this.#channel.standby?.agent]) {
        if (agent !== undefined && !this.isVouched(agent)) this.#stays.vouch(agent)
      }
    }
    for (const agent of removed) {
      this.#stays.end(agent, index, this.#channel.roster.notice(agent) ? 'left' : 'removed')
      this.#reader.forget(agent)
    }
    for (const agent of added) {
      this.#stays.begin(agent, index, vouched.includes(agent))
      this.#reader.forget(agent)
    }
  }

  /** The relay delivers from now on. */
  override resumed(): void {
    this.#isFetching = this.#reader.isUsed
    this.#hasFetched = false
    this.#signer.resumed()
  }

  override lose(): void {
    this.#isFetching = false
    this.#hasFetched = false
    for (const done of this.#fetching) done()
    this.#fetching.clear()
  }

  /** The receipt to send with the next acknowledgement, if there is one. The last one is sent immediately. */
  next(isLast = false): Uint8Array | undefined {
    return this.#signer.next(isLast)
  }

  /** Everything drained is on disk. */
  override written(): void {
    this.#signer.written()
    this.#reader.reached()
    for (const look of this.#placing) look()
    this.#waits.changed()
  }

  /** Returns the changes since the last call. */
  override drain(): readonly Change[] {
    return [...this.#signer.drain(), ...this.#stays.drain()]
  }

  override end(error: StaticError): void {
    this.#ended = error
    this.#signer.stop()
    this.lose()
    for (const look of this.#placing) look()
    this.#waits.fail(error)
  }

  // ---- Internals ----

  #use(): void {
    if (this.#reader.isUsed) return
    this.#reader.isUsed = true
    // Even while an answer is pending, since that one is for samples.
    this.#channel.intake.resume()
  }

  async #fetched(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#fetching.add(resolve)
    const cancel = this.#context.later(FETCH_MS, resolve)
    await promise
    cancel()
    this.#fetching.delete(resolve)
  }

  /** A member's receipt was verified and recorded. */
  confirmed(agent: AgentId): void {
    const { receipt } = this.#stays.of(agent)
    this.#channel.turn.touchPartLater()
    if (receipt) {
      const { mode, index: delivered, settled } = receipt
      this.#context.emit({ type: 'receipt', channel: this.#channel.name, member: agent, mode, delivered, settled })
    }
    this.#waits.changed()
  }

  #staysAt(index: number): readonly StayRecord[] {
    const members = this.#channel.group?.members.keys() ?? []
    return this.#stays.at(index, members).filter(({ agent }) => agent !== this.#context.agentId)
  }

  /**
   * The index of a message of this agent, according to its own log if it still knows, because the relay could have
   * answered with any other.
   */
  async #place(sent: SentMessage): Promise<number> {
    const messageId = fromHex(sent.messageId)
    const find = (): number | undefined => this.#channel.history.ownIndex(messageId)
    for (let index = find(); ; index = find()) {
      if (index !== undefined) return index
      const { failure } = this.#channel
      if (failure) throw failure
      if (!this.#channel.sender.isPending(messageId)) break
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#placing.add(resolve)
      await promise
      this.#placing.delete(resolve)
    }
    const { history, name } = this.#channel
    if (sent.index > 0 && sent.index < history.since) return sent.index
    throw StaticError.of('not_found', `This agent sent no message ${toHex(messageId)} to channel ${name}.`)
  }
}
