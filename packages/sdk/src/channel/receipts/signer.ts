/**
 * This agent's own receipts in one channel. A receipt covers only what is on disk, is signed at most four times a
 * second, and travels with an acknowledgement. After a restart, and in every session, the last one is signed again from
 * the disk, so none is lost for what was processed, and none can exist for what was not.
 */
import { encodeReceipt, type ReceiptClaim, type ReceiptMode, receiptBytes } from '@static/protocol'
import type { Change, OwnReceiptRecord, Time } from '../../ports/index.ts'
import type { AgentContext } from '../../agent/context.ts'
import type { AgentChannel } from '../channel.ts'

/** The time between two receipts of a channel. */
const INTERVAL_MS = 250

/** The receipts of this agent in one channel. */
export class ReceiptSigner {
  readonly #context: Pick<AgentContext, 'sign' | 'now' | 'later' | 'receipts'>
  readonly #channel: AgentChannel
  #own: OwnReceiptRecord
  #isChanged = false
  /** The claim drained last, which is on disk once `written` was called. */
  #drained: ReceiptClaim | undefined
  #stored: ReceiptClaim | undefined
  /** The last claim sent to the relay in this session. */
  #sent: ReceiptClaim | undefined
  #sentAt: Time = -Infinity
  /** Whether this session has sent a second time that receipts are off. */
  #isOffRepeated = false
  #cancel: (() => void) | undefined

  constructor(
    context: Pick<AgentContext, 'sign' | 'now' | 'later' | 'receipts'>,
    channel: AgentChannel,
    own: OwnReceiptRecord | undefined,
  ) {
    this.#context = context
    this.#channel = channel
    this.#own = own ?? { since: channel.history.position.index, aside: 0 }
  }

  get mode(): ReceiptMode {
    return this.#context.receipts
  }

  /** The log begins here for this agent. */
  start(index: number): void {
    this.#own = { since: index, aside: 0 }
    this.#isChanged = true
    this.#drained = undefined
    this.#stored = undefined
  }

  /** An entry was not read: it was deleted or could not be decrypted. */
  missed(index: number): void {
    if (index <= this.#own.since) return
    this.#own = { ...this.#own, since: index }
    this.#isChanged = true
  }

  /** A message was put aside. Whatever happens to it later, it was not settled when it arrived. */
  putAside(index: number): void {
    if (index <= this.#own.aside) return
    this.#own = { ...this.#own, aside: index }
    this.#isChanged = true
  }

  /** Returns the changes since the last call, and records what the disk will then hold. */
  drain(): readonly Change[] {
    this.#drained = this.#claim()
    if (!this.#isChanged) return []
    this.#isChanged = false
    return [{ type: 'putOwnReceipt', id: this.#channel.id, own: this.#own }]
  }

  /** Everything drained is on disk. */
  written(): void {
    this.#stored = this.#drained
  }

  /** The agent starts: memory holds nothing that is not on disk. */
  loaded(): void {
    this.#stored = this.#claim()
  }

  /** The relay delivers from now on. It may not have the last receipt. */
  resumed(): void {
    this.#sent = undefined
    this.#isOffRepeated = false
    this.#send()
  }

  /** The receipt to send now, if there is one. Otherwise it is sent when its time has come, unless it is the last. */
  next(isLast: boolean): Uint8Array | undefined {
    const claim = this.#stored
    const { group, channelId } = this.#channel
    // Alone in the channel, there is no one to tell.
    if (!claim || !this.#channel.intake.isOnline || (group?.members.size ?? 0) < 2 || !this.#isNew(claim))
      return undefined
    const now = this.#context.now()
    const wait = this.#sentAt + INTERVAL_MS - now
    // A longer wait is from before the clock was set back.
    if (wait > 0 && wait <= INTERVAL_MS && !isLast) {
      this.#cancel ??= this.#context.later(wait, () => {
        this.#cancel = undefined
        this.#send()
      })
      return undefined
    }
    this.#isOffRepeated = this.#sent !== undefined
    this.#sentAt = now
    this.#sent = claim
    return encodeReceipt({ ...claim, signature: this.#context.sign(receiptBytes(channelId, claim)) })
  }

  stop(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  /** Sends a receipt without an acknowledgement, if one is due now. */
  #send(): void {
    const receipt = this.next(false)
    if (receipt) this.#channel.intake.sendReceipt(receipt)
  }

  /** Everything unsettled is after this index. Ignores payloads up to `after`. */
  #settledUpTo(after: number): number {
    const { inbox, history } = this.#channel
    // Only payloads count: anyone can send a request that no one serves, or never read its answers.
    return inbox.settledUpTo(history.position.index, after)
  }

  #isNew(claim: ReceiptClaim): boolean {
    const sent = this.#sent
    if (!sent) return true
    // Other members accept a change of mode only with a later entry.
    if (claim.mode === 'off') return !this.#isOffRepeated && claim.index > sent.index
    const { since, index, aside, settled } = claim
    return since > sent.since || index > sent.index || aside > sent.aside || settled > sent.settled
  }

  #claim(): ReceiptClaim {
    const { index, hash } = this.#channel.history.position
    const { since, aside } = this.#own
    const { mode } = this
    if (mode !== 'settled') return { mode, since, index, hash, aside: 0, settled: 0 }
    // Settled messages stay settled, and a message put aside counts for all before it.
    const settled = Math.max(aside, Math.min(index, this.#settledUpTo(aside)), this.#stored?.settled ?? 0)
    return { mode, since, index, hash, aside, settled }
  }
}
