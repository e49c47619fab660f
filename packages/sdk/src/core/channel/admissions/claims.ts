/**
 * The claims of one channel: whom members are about to add, and by which invites. A claim counts in the epoch in which
 * it was made, so every member of that epoch has seen it. It is what makes a commit the use of an invite.
 */
import { type StaticError, toHex } from '@static/protocol'
import type { AgentId, ClaimRecord, Time } from '../../../ports.ts'
import type { AgentContext } from '../../agent/context.ts'
import { newMessageId } from '../../agent/message-id.ts'
import type { Sender } from '../messages/sender.ts'
import { type Claim, decodeClaims, encodeClaims } from './claim.ts'

/** Others leave a joiner to the member that has claimed it for this long, once, out of politeness. */
const POLITE_MS = 60_000
/** Joiners remembered as claimed. Beyond that, the oldest are forgotten. */
const MOST_HELD = 1024

interface SentClaim {
  readonly claims: readonly Claim[]
  readonly passed: PromiseWithResolvers<void>
}

/** The claims of one channel. */
export class Claims {
  readonly #context: Pick<AgentContext, 'now' | 'random'>
  readonly #sender: Pick<Sender, 'send'>
  readonly #byMember: Map<AgentId, readonly Claim[]>
  /** This agent's claims in this epoch, which are in the log. */
  #own: readonly Claim[] = []
  /** Those on their way into the log, by message id. */
  readonly #sent = new Map<string, SentClaim>()
  /** By joiner and member: until when the joiner is left to the member. */
  readonly #held = new Map<string, Time>()

  constructor(
    context: Pick<AgentContext, 'now' | 'random'>,
    sender: Pick<Sender, 'send'>,
    stored: readonly ClaimRecord[],
  ) {
    this.#context = context
    this.#sender = sender
    this.#byMember = new Map(stored.map(({ by, claims }) => [by, decodeClaims(claims) ?? []]))
  }

  /** Whether a claim of another member is on disk. */
  get isEmpty(): boolean {
    return this.#byMember.size === 0
  }

  /** Takes the claim of another member, in place of its last one. Returns whether it is one. */
  take(by: AgentId, payload: Uint8Array): boolean {
    const claims = decodeClaims(payload)
    if (!claims) return false
    this.#byMember.set(by, claims)
    for (const { agent } of claims) {
      const key = `${agent} ${by}`
      // Claiming again does not hold others back again.
      if (this.#held.has(key)) continue
      const [oldest] = this.#held.keys()
      if (this.#held.size >= MOST_HELD && oldest !== undefined) this.#held.delete(oldest)
      this.#held.set(key, this.#context.now() + POLITE_MS)
    }
    return true
  }

  /** The invite by which another member has claimed an agent in this epoch. */
  inviteFor(by: AgentId, agent: AgentId): string | undefined {
    return this.#byMember.get(by)?.find((claim) => claim.agent === agent)?.invite
  }

  /** Whether another member has recently claimed an agent. */
  isHeldBack(agent: AgentId): boolean {
    const now = this.#context.now()
    for (const [key, until] of this.#held) if (key.startsWith(agent) && until > now) return true
    return false
  }

  /** Whether this agent's claim is in the log of this epoch. */
  isOwn({ invite, agent }: Claim): boolean {
    return this.#own.some((own) => own.agent === agent && own.invite === invite)
  }

  /**
   * Claims agents for this agent's next commit. Resolves when the claim is in the log.
   *
   * @throws {StaticError} why it cannot be sent
   */
  async claim(claims: readonly Claim[]): Promise<void> {
    const messageId = newMessageId(this.#context)
    const passed = Promise.withResolvers<void>()
    this.#sent.set(toHex(messageId), { claims, passed })
    this.#sender.send('claim', encodeClaims(claims), {}, { messageId, sealed: () => {} }).catch(passed.reject)
    try {
      await passed.promise
    } finally {
      this.#sent.delete(toHex(messageId))
    }
  }

  /** A message of this agent is in the log. */
  passed(messageId: Uint8Array): void {
    if (this.#sent.size === 0) return
    const sent = this.#sent.get(toHex(messageId))
    if (!sent) return
    this.#own = sent.claims
    sent.passed.resolve()
  }

  /** Another epoch begins: who has not committed claims again. */
  clear(): void {
    this.#byMember.clear()
    this.#own = []
  }

  end(error: StaticError): void {
    for (const { passed } of this.#sent.values()) passed.reject(error)
  }
}
