/**
 * Receipts of other members, as the relay gives them. Nothing is believed before it is checked: that the sender is a
 * member, that the receipt is of this stay and newer than the last one, the chain hash against this agent's own log,
 * and the signature by the key of the member's leaf. The signature costs the most and comes last: without it, a hash
 * that is equal says nothing new, and one that differs is worth a look.
 */
import { decodeReceipt, receiptBytes, type SignedReceipt, toHex } from '@static/protocol'
import type { ReceiptBatch } from '@static/protocol/relay'
import { ed25519 } from '../../mls/index.ts'
import type { AgentId, Time } from '../../ports/index.ts'
import type { AgentContext } from '../../agent/context.ts'
import type { AgentChannel } from '../channel.ts'
import { isNewer, type Stays } from './stays.ts'

/** Signatures of a member that may fail in a time. Who sends more bad ones silences nobody else. */
const MOST_FAILURES = 4
const FAILURES_MS = 8000

/** The receipts of others in one channel. */
export class ReceiptReader {
  readonly #context: Pick<AgentContext, 'agentId' | 'now'>
  readonly #channel: AgentChannel
  readonly #stays: Stays
  /** The last receipt of each member that is ahead of this agent's log. */
  readonly #ahead = new Map<AgentId, SignedReceipt>()
  /** Whether the application uses receipts: only then are they worth a signature. */
  isUsed = false
  /** How many receipts of each member failed, and since when. */
  readonly #failures = new Map<AgentId, { readonly since: Time; readonly count: number }>()

  constructor(context: Pick<AgentContext, 'agentId' | 'now'>, channel: AgentChannel, stays: Stays) {
    this.#context = context
    this.#channel = channel
    this.#stays = stays
  }

  /** Checks what the relay gives. */
  check({ receipts }: Pick<ReceiptBatch, 'receipts'>): void {
    for (const { agentId, receipt } of receipts) {
      const agent = toHex(agentId)
      const claim = agent === this.#context.agentId ? undefined : decodeReceipt(receipt)
      if (claim) this.#consider(agent, claim)
    }
  }

  /** This agent's log has grown: receipts that were ahead of it may not be any more. */
  reached(): void {
    if (this.#ahead.size === 0) return
    const { index } = this.#channel.history.position
    for (const [agent, claim] of this.#ahead) {
      if (claim.index > index) continue
      this.#ahead.delete(agent)
      this.#consider(agent, claim)
    }
  }

  /** A member's stay has ended or begun: what waits is of another one. */
  forget(agent: AgentId): void {
    this.#ahead.delete(agent)
    this.#failures.delete(agent)
  }

  #consider(agent: AgentId, claim: SignedReceipt): void {
    const { group, history } = this.#channel
    const member = group?.members.get(agent)
    const stay = this.#stays.of(agent)
    if (!member || claim.since < stay.addedAt || !isNewer(claim, stay.receipt)) return
    if (claim.index > history.position.index) {
      if (group) this.#ahead.set(agent, claim)
      return
    }
    const isSame = history.compare(claim.index, claim.hash)
    // Too far back to compare, or the application knows that this member has seen another log.
    if (isSame === undefined || (!isSame && history.sender(agent)?.accepted === true)) return
    if ((isSame && !this.isUsed) || !this.#isSigned(agent, member.signatureKey, claim)) return
    if (!isSame) return this.#channel.forks.found(agent, 'receipt')
    this.#stays.confirm(agent, claim, this.#context.now())
    this.#channel.receipts.confirmed(agent)
  }

  #isSigned(agent: AgentId, publicKey: Uint8Array, { signature, ...claim }: SignedReceipt): boolean {
    const now = this.#context.now()
    const known = this.#failures.get(agent)
    const { since, count } = known && Math.abs(now - known.since) <= FAILURES_MS ? known : { since: now, count: 0 }
    if (count >= MOST_FAILURES) return false
    if (ed25519.verifier(publicKey)(receiptBytes(this.#channel.channelId, claim), signature)) return true
    this.#failures.set(agent, { since, count: count + 1 })
    return false
  }
}
