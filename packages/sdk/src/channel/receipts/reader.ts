/**
 * Receipts of other members, as delivered by the relay. Each is checked before it is believed: the sender is a member,
 * the receipt is of this stay and newer than the last one, the chain hash matches this agent's log, and the member's
 * leaf key signed it. The signature is the most expensive check and comes last. It is skipped for an equal hash if the
 * application does not use receipts; a hash that differs is always worth checking.
 */
import { decodeReceipt, receiptBytes, type SignedReceipt, toHex } from '@static/protocol'
import type { ReceiptBatch } from '@static/protocol/relay'
import { ed25519 } from '../../mls/index.ts'
import type { AgentId, Time } from '../../ports/index.ts'
import type { AgentContext } from '../../agent/context.ts'
import type { AgentChannel } from '../channel.ts'
import { isNewer, type Stays } from './stays.ts'

/** Failed signatures allowed per member in a time. A member that sends more silences only itself. */
const MOST_FAILURES = 4
const FAILURES_MS = 8000

/** The receipts of others in one channel. */
export class ReceiptReader {
  readonly #context: Pick<AgentContext, 'agentId' | 'now'>
  readonly #channel: AgentChannel
  readonly #stays: Stays
  /** Each member's last receipt that is ahead of this agent's log. */
  readonly #ahead = new Map<AgentId, SignedReceipt>()
  /** Whether the application uses receipts: only then are they worth verifying. */
  isUsed = false
  /** How many of each member's receipts failed, and since when. */
  readonly #failures = new Map<AgentId, { readonly since: Time; readonly count: number }>()

  constructor(context: Pick<AgentContext, 'agentId' | 'now'>, channel: AgentChannel, stays: Stays) {
    this.#context = context
    this.#channel = channel
    this.#stays = stays
  }

  /** Checks the receipts delivered by the relay. */
  check({ receipts }: Pick<ReceiptBatch, 'receipts'>): void {
    for (const { agentId, receipt } of receipts) {
      const agent = toHex(agentId)
      const claim = agent === this.#context.agentId ? undefined : decodeReceipt(receipt)
      if (claim) this.#consider(agent, claim)
    }
  }

  /** This agent's log has grown: receipts that were ahead of it may not be any longer. */
  reached(): void {
    if (this.#ahead.size === 0) return
    const { index } = this.#channel.history.position
    for (const [agent, claim] of this.#ahead) {
      if (claim.index > index) continue
      this.#ahead.delete(agent)
      this.#consider(agent, claim)
    }
  }

  /** A member's stay has ended or begun: a waiting receipt belongs to another stay. */
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
    // Too far back to compare, or the application has accepted that this member has seen a different log.
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
