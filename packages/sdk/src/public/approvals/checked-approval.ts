/** Checking the record of an approval, without the channel and without an account. */
import { StaticError, toHex } from '@static/protocol'
import { checkRecord } from '../../approvals/record.ts'
import type { AgentId } from '../../ports/index.ts'
import { parseAgentId } from '../fingerprint.ts'
import { actionBytes } from '../options/approval-options.ts'

/** What you expect of a record. Nothing of it is taken from the record. */
export interface ExpectedApproval {
  /** Agent ids of those whose approval counts. */
  readonly from: readonly AgentId[]
  /** How many of them must have approved. */
  readonly need: number
  /** What is to be executed, as for `Channel.requestApproval`. */
  readonly action: unknown
}

/** A record that permits an action. */
export interface CheckedApproval {
  /** SHA-256 of the request, 64 hexadecimal digits: use it once. */
  readonly id: string
  readonly channelId: string
  /** Who has asked. The record does not prove that it was this agent. */
  readonly asker: AgentId
  readonly title: string
  readonly deadline: Date
  /** The expected agents that approved; the times are by their clocks. */
  readonly by: readonly { readonly agentId: AgentId; readonly decidedAt: Date; readonly attended: boolean }[]
}

/**
 * Checks that a record (`Approval.record`) permits an action: that enough of the agents that you expect have signed an
 * approval of exactly these bytes, before the deadline. It does not know whether the permission was used.
 *
 * @throws {StaticError} `not_allowed` with what is missing; `invalid_request` if it is not a record
 */
export function checkApproval(record: string, { from, need, action }: ExpectedApproval): CheckedApproval {
  const agents = from.map((agent) => parseAgentId(agent))
  if (!Number.isSafeInteger(need) || need < 1)
    throw StaticError.of('invalid_request', `\`need\` is ${need}. It must be a whole number from 1.`)
  const { hash, request, approvals } = checkRecord(record, { from: agents, need, action: actionBytes(action) })
  return {
    id: toHex(hash),
    channelId: toHex(request.channelId),
    asker: request.asker,
    title: request.title,
    deadline: new Date(request.deadline),
    by: approvals.map(({ agent, time, attended }) => ({ agentId: agent, decidedAt: new Date(time), attended })),
  }
}
