/** The actions of commands on the receipts of a channel. */
import { StaticError } from '@static/protocol'
import type { MemberReceipt, ReceiptLevel, StaticChannelManager, UnreachedReason } from '@static/sdk'
import { membersOf } from './members.ts'

/** How far a member has processed a channel. */
export interface ReceiptSummary {
  readonly agent_id: string
  readonly fingerprint: string
  readonly identity: string
  readonly mode: MemberReceipt['mode']
  readonly delivered: number
  readonly settled: number
  readonly since: number
  readonly aside: number
  /** When the receipt arrived; null if there is none. */
  readonly at: string | null
}

/** The members that have a message, and those not waited for. */
export interface ReachedSummary {
  readonly reached: readonly string[]
  readonly unreached: readonly { readonly agent_id: string; readonly reason: UnreachedReason }[]
}

/** Members that have not confirmed a message yet. */
export interface MissingSummary {
  readonly missing: readonly { readonly agent_id: string; readonly identity: string }[]
}

/** How far the other members have processed a channel. */
export async function receiptsOf(manager: StaticChannelManager, name: string): Promise<readonly ReceiptSummary[]> {
  const receipts = await manager.client.channel(name).receipts()
  return receipts.map(({ agentId, fingerprint, identity, mode, delivered, settled, since, aside, at }) => ({
    agent_id: agentId,
    fingerprint,
    identity: Buffer.from(identity).toString(),
    mode,
    delivered,
    settled,
    since,
    aside,
    at: at?.toISOString() ?? null,
  }))
}

/** Resolves once every other member has confirmed a message. `timeout` 0: no limit. */
export async function reachedBy(
  manager: StaticChannelManager,
  name: string,
  sent: { readonly messageId: string; readonly index: number },
  level: ReceiptLevel,
  timeout: number,
): Promise<ReachedSummary> {
  const limit = timeout > 0 ? { timeout } : {}
  const { reached, unreached } = await manager.client.channel(name).reached(sent, level, limit)
  return { reached, unreached: unreached.map(({ agentId, reason }) => ({ agent_id: agentId, reason })) }
}

/** Like `reachedBy`, but resolves to the members that are missing after `timeout`: over the socket, errors have no details. */
export async function reachedOrMissing(
  manager: StaticChannelManager,
  name: string,
  sent: { readonly messageId: string; readonly index: number },
  level: ReceiptLevel,
  timeout: number,
): Promise<ReachedSummary | MissingSummary> {
  try {
    return await reachedBy(manager, name, sent, level, timeout)
  } catch (error) {
    if (!(error instanceof StaticError) || error.code !== 'cancelled') throw error
    const missing = error.details.missing ?? []
    const members = membersOf(manager, manager.client.channel(name)).filter(({ agent_id: id }) => missing.includes(id))
    return { missing: members.map(({ agent_id, identity }) => ({ agent_id, identity })) }
  }
}
