/**
 * The claims of one channel (SPEC.md, 6.5): before a member adds agents by invites, it names both to the group. Each
 * claim is an invite id(16) and an agent id(32). It counts in the epoch in which it was made, so every member of that
 * epoch has seen it. The claim makes a commit count as a use of an invite.
 */
import { AGENT_ID_BYTES, fromHex, INVITE_ID_BYTES, StaticError, toHex } from '@static/protocol'
import type { AgentId, ClaimRecord, Time } from '../ports/index.ts'
import type { AgentContext } from '../agent/context.ts'
import type { AgentChannel } from '../channel/channel.ts'
import { newMessageId } from '../channel/sending/message-id.ts'

/** The maximum number of joiners named by one frame, and so added by one commit. */
export const MOST_CLAIMED = 16

/** An agent that a member is about to add, and its invite. */
export interface Claim {
  /** Invite id, hexadecimal. */
  readonly invite: string
  readonly agent: AgentId
}

const CLAIM_BYTES: number = INVITE_ID_BYTES + AGENT_ID_BYTES

/**
 * Other members leave a joiner to the first member that claims it for this long. This is a courtesy: later claims do
 * not extend it.
 */
const POLITE_MS = 60_000
/**
 * How many joiners are left to one member that has claimed but not added them. The limit keeps it from blocking others.
 */
const MOST_HELD = 32
/**
 * How many are left to all members together. They are not forgotten when a member leaves, or the next one would start
 * again.
 */
const MOST_HELD_IN_ALL = 1024
/** This agent retries a joiner that it could not add after this time, then after twice as long each time. */
const RETRY_MS = 60_000
const LONGEST_RETRY_MS = 3_600_000
/**
 * How many joiners that could not be added are remembered: as many as may ask. Beyond that, the oldest are forgotten.
 */
const MOST_TRIED = 1024
/** Stands for a member among the stored claims if messages of this epoch were lost, since claims may be among them. */
const LOST = ''

/** Claims by this agent that may still appear in the log. Beyond this number, the oldest count as lost. */
const MOST_SENT = 64
/** Tells message ids from agent ids, which have twice as many digits. */
const MESSAGE_ID_DIGITS = 32

interface SentClaim {
  readonly claims: readonly Claim[]
  readonly passed: PromiseWithResolvers<void>
}

/** The claims of one channel. */
export class Claims {
  readonly #context: Pick<AgentContext, 'agentId' | 'now' | 'random'>
  readonly #channel: AgentChannel
  /** By member, including this agent. */
  readonly #byMember: Map<AgentId, readonly Claim[]>
  /** This agent's claims in this epoch, which are in the log. */
  #own: readonly Claim[] = []
  /**
   * Claims on their way into the log, by message id. They are on disk with their messages, which may outlive this
   * process.
   */
  readonly #sent = new Map<string, SentClaim>()
  /**
   * By joiner that has not been added since: the first member to claim it, and until when it is left to that member.
   */
  readonly #leftTo = new Map<AgentId, { readonly by: AgentId; readonly until: Time }>()
  /** By joiner: how often this agent failed to add it, and until when it does not try again. */
  readonly #tried = new Map<AgentId, { readonly times: number; readonly until: Time }>()
  #endAgainAt: Time = 0

  constructor(
    context: Pick<AgentContext, 'agentId' | 'now' | 'random'>,
    channel: AgentChannel,
    stored: readonly ClaimRecord[],
  ) {
    this.#context = context
    this.#channel = channel
    const isSent = ({ by }: ClaimRecord): boolean => by.length === MESSAGE_ID_DIGITS
    const read = ({ claims }: ClaimRecord): readonly Claim[] => decodeClaims(claims) ?? []
    this.#byMember = new Map(stored.filter((each) => !isSent(each)).map((each) => [each.by, read(each)]))
    for (const each of stored.filter(isSent)) this.#expect(each.by, read(each))
  }

  /** Another member's claim is in the log, and replaces its previous one. */
  receive(by: AgentId, payload: Uint8Array): void {
    const claims = decodeClaims(payload)
    if (!claims) return
    this.#put(by, claims)
    let own = [...this.#leftTo.values()].filter((held) => held.by === by).length
    for (const { agent } of claims) {
      if (this.#leftTo.has(agent) || own >= MOST_HELD || this.#leftTo.size >= MOST_HELD_IN_ALL) continue
      this.#leftTo.set(agent, { by, until: this.#context.now() + POLITE_MS })
      own++
    }
  }

  /** Messages of this epoch are lost, perhaps including this agent's own claims: a later poll tries again. */
  missed(): void {
    this.#put(LOST, [])
    this.end(StaticError.of('unavailable', 'The claim may be among messages that the relay no longer has.'))
  }

  /** Whether a member may have claimed agents in this epoch without this agent knowing. */
  get mayBeLost(): boolean {
    return this.#byMember.has(LOST)
  }

  /** The invite with which a member claimed an agent in this epoch. */
  inviteFor(by: AgentId, agent: AgentId): string | undefined {
    const known = this.#byMember.get(by)?.find((claim) => claim.agent === agent)
    if (known || by !== this.#context.agentId || !this.mayBeLost) return known?.invite
    // Others may have seen this agent's own claim before it has.
    const sent = [...this.#sent.values()].flatMap(({ claims }) => claims)
    return sent.findLast((claim) => claim.agent === agent)?.invite
  }

  /** Whether another member has recently claimed an agent, or this agent recently failed to add it. */
  isHeldBack(agent: AgentId): boolean {
    const now = this.#context.now()
    return (this.#leftTo.get(agent)?.until ?? 0) > now || (this.#tried.get(agent)?.until ?? 0) > now
  }

  /** This agent could not add a joiner. The joiner must not be able to make it claim and commit with every poll. */
  failed(agent: AgentId): void {
    const times = (this.#tried.get(agent)?.times ?? 0) + 1
    const [oldest] = this.#tried.keys()
    if (this.#tried.size >= MOST_TRIED && oldest !== undefined) this.#tried.delete(oldest)
    this.#tried.delete(agent)
    const waitMs = Math.min(RETRY_MS * 2 ** (times - 1), LONGEST_RETRY_MS)
    this.#tried.set(agent, { times, until: this.#context.now() + waitMs })
  }

  /** Whether this agent's claim is in the log of this epoch. */
  isOwn({ invite, agent }: Claim): boolean {
    return this.#own.some((own) => own.agent === agent && own.invite === invite)
  }

  /**
   * Whether a commit of this agent that adds an agent may count as the use of an invite, even if a claim is still on
   * its way.
   */
  mayCount(agent: AgentId): boolean {
    const waiting = [...this.#sent].filter(([id]) => this.#channel.sender.isPending(fromHex(id)))
    const sent = waiting.flatMap(([, { claims }]) => claims)
    return this.inviteFor(this.#context.agentId, agent) !== undefined || sent.some((claim) => claim.agent === agent)
  }

  /**
   * Whether another epoch may begin now to end claims of agents that could not be added: at most once a minute, so that
   * a joiner asking with two invites cannot make this agent commit each time.
   */
  mayEnd(): boolean {
    const now = this.#context.now()
    if (now < this.#endAgainAt) return false
    this.#endAgainAt = now + RETRY_MS
    return true
  }

  /**
   * Claims agents for this agent's next commit. Resolves when the claim is in the log.
   *
   * @throws {StaticError} the reason why it cannot be sent
   */
  async claim(claims: readonly Claim[]): Promise<void> {
    const messageId = newMessageId(this.#context)
    const id = toHex(messageId)
    const passed = this.#expect(id, claims)
    const sealed = (): void => this.#write(id, claims)
    this.#channel.sender.send('claim', encodeClaims(claims), {}, { messageId, sealed }).catch((error: unknown) => {
      // The channel was closed, or the message will not be sent. Only the latter is permanent.
      if (StaticError.from(error).code !== 'closed' && this.#sent.delete(id)) this.#rewrite()
      passed.reject(error)
    })
    await passed.promise
  }

  #expect(id: string, claims: readonly Claim[]): PromiseWithResolvers<void> {
    const passed = Promise.withResolvers<void>()
    passed.promise.catch(() => {})
    const [oldest] = this.#sent.keys()
    if (this.#sent.size >= MOST_SENT && oldest !== undefined) this.#sent.delete(oldest)
    this.#sent.set(id, { claims, passed })
    return passed
  }

  /** A message of this agent is in the log. */
  passed(messageId: Uint8Array): void {
    if (this.#sent.size === 0) return
    const sent = this.#sent.get(toHex(messageId))
    if (!sent) return
    this.#sent.delete(toHex(messageId))
    this.#own = sent.claims
    this.#byMember.set(this.#context.agentId, sent.claims)
    this.#rewrite()
    sent.passed.resolve()
  }

  /** Another epoch begins, in which these agents were added. Members that have not committed yet claim again. */
  clear(added: readonly AgentId[]): void {
    if (this.#byMember.size > 0) {
      this.#byMember.clear()
      this.#rewrite()
    }
    this.#own = []
    for (const agent of added) {
      this.#leftTo.delete(agent)
      this.#tried.delete(agent)
    }
  }

  #put(by: AgentId, claims: readonly Claim[]): void {
    this.#byMember.set(by, claims)
    this.#write(by, claims)
  }

  /** Writes the remaining claims: those of this epoch, and those on their way. */
  #rewrite(): void {
    const { listedInvites, id: channel } = this.#channel
    listedInvites.record({ type: 'dropClaims', id: channel })
    for (const [by, claims] of this.#byMember) this.#write(by, claims)
    for (const [id, { claims }] of this.#sent) this.#write(id, claims)
  }

  #write(by: string, claims: readonly Claim[]): void {
    const { listedInvites, id } = this.#channel
    listedInvites.record({ type: 'putClaim', id, claim: { by, claims: encodeClaims(claims) } })
  }

  end(error: StaticError): void {
    for (const { passed } of this.#sent.values()) passed.reject(error)
  }
}

export function encodeClaims(claims: readonly Claim[]): Uint8Array {
  return fromHex(claims.map(({ invite, agent }) => invite + agent).join(''))
}

/** Decodes claims; undefined for anything that an honest member would not send. */
export function decodeClaims(bytes: Uint8Array): readonly Claim[] | undefined {
  const length = bytes.length / CLAIM_BYTES
  if (!Number.isInteger(length) || length < 1 || length > MOST_CLAIMED) return undefined
  return Array.from({ length }, (_, n) => {
    const claim = toHex(bytes.subarray(n * CLAIM_BYTES, (n + 1) * CLAIM_BYTES))
    return { invite: claim.slice(0, 2 * INVITE_ID_BYTES), agent: claim.slice(2 * INVITE_ID_BYTES) }
  })
}
