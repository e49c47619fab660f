/** Receipts, as the application gets them. */
import { CHANNEL_ID_BYTES, type ReceiptMode, StaticError } from '@static/protocol'
import type { ReachedQuestion } from '../channel/receipts/receipts.ts'
import type { Judgement, ReceiptLevel, UnreachedReason } from '../channel/receipts/reached.ts'
import type { SentMessage } from '../channel/sending/outbox.ts'
import { type ChannelMember, memberOf } from './received/member.ts'
import { parseAgentId } from './fingerprint.ts'
import type { AgentId, StayRecord } from '../ports/index.ts'

/** How far a member has processed the channel, according to its signed receipt. Numbers are positions in the log. */
export interface MemberReceipt extends ChannelMember {
  /**
   * The level the member reports: `settled`, only `delivered`, `off` for nothing, or `unknown` before its first
   * receipt.
   */
  readonly mode: ReceiptMode | 'unknown'
  /** The member has received everything after `since` up to here. */
  readonly delivered: number
  /** Its application has settled all messages after `since` and `aside` up to here, as far as it has reported. */
  readonly settled: number
  /**
   * The entry that added the member, or the last one it missed: deleted before it arrived, or unreadable for the
   * member.
   */
  readonly since: number
  /** The last message that the member put aside because its handler failed too often; 0 if none. */
  readonly aside: number
  /** When this agent received the receipt. */
  readonly at: Date | undefined
}

/** The members that have a message, and those not waited for. */
export interface Reached {
  /** The members whose receipts say that they have it. */
  readonly reached: readonly AgentId[]
  /**
   * The others, with the reason: they `left` or were `removed`, `missed` it, put it or a later message `aside`, have
   * receipts (of this kind) `off`, or were `not_member` when it was sent.
   */
  readonly unreached: readonly { readonly agentId: AgentId; readonly reason: UnreachedReason }[]
}

/** Options of `Channel.reached`. */
export interface ReachedOptions {
  /** The agent ids of the members to wait for. Default: everyone who was a member when the message was sent. */
  readonly by?: readonly AgentId[]
  /** Ends the wait when it is aborted. */
  readonly signal?: AbortSignal
  /** In seconds. Default: no limit. */
  readonly timeout?: number
}

const LEVELS: readonly string[] = ['delivered', 'settled']
const MESSAGE_ID = new RegExp(`^[0-9a-f]{${2 * CHANNEL_ID_BYTES}}$`, 'u')

/** @internal The public view of the members' stays. */
export function memberReceipts(
  stays: readonly StayRecord[],
  members: ReadonlyMap<AgentId, { readonly identity: Uint8Array }>,
): MemberReceipt[] {
  return stays.map((stay) => memberReceiptOf(stay, members.get(stay.agent)?.identity ?? new Uint8Array()))
}

function memberReceiptOf({ agent, receipt }: StayRecord, identity: Uint8Array): MemberReceipt {
  const { mode = 'unknown', index = 0, settled = 0, since = 0, aside = 0, heardAt } = receipt ?? {}
  const at = heardAt === undefined ? undefined : new Date(heardAt)
  return { ...memberOf(agent, identity), mode, delivered: index, settled, since, aside, at }
}

/** @internal The public view of a judgement. */
export function reachedOf({ reached, unreached }: Judgement): Reached {
  return { reached: [...reached], unreached: [...unreached].map(([agentId, reason]) => ({ agentId, reason })) }
}

/** @internal Checks the question of the application. */
export function questionOf(
  sent: SentMessage,
  level: ReceiptLevel,
  by: readonly AgentId[] | undefined,
  own: AgentId,
): ReachedQuestion {
  const { messageId, index } = sent ?? {}
  if (typeof messageId !== 'string' || !MESSAGE_ID.test(messageId) || !Number.isSafeInteger(index)) {
    throw StaticError.of('invalid_request', '`sent` must be what `send` returned: `messageId` and `index`.')
  }
  if (!LEVELS.includes(level)) {
    throw StaticError.of('invalid_request', `The level is ${level}. It must be delivered or settled.`)
  }
  const named = by && [...new Set(by.map(parseAgentId))]
  if (named?.includes(own)) throw StaticError.of('invalid_request', '`by` names this agent. Name other members.')
  return { sent: { messageId, index }, level, by: named }
}
