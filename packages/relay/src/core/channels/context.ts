/** Shared by the handlers of channel requests. */
import { ENVELOPE_LIMITS } from '@static/protocol'
import type { Actor, AgentId, Refusal } from '../../ports.ts'
import type { Settings } from '../../settings.ts'
import type { Delivery } from '../delivery.ts'
import type { Effects } from '../effects.ts'
import type { CoreCrypto, Outcome } from '../io.ts'
import type { PendingRequest } from '../requests/pending-request.ts'
import type { Presence } from '../accounts/presence.ts'
import { refusalOf } from '../server-messages.ts'
import type { OtherNodes } from './other-nodes.ts'

/** The dependencies of every handler. */
export interface ChannelContext {
  readonly effects: Effects
  readonly crypto: CoreCrypto
  readonly settings: Settings
  readonly delivery: Delivery
  readonly presence: Presence
  /** The other nodes; undefined if there is only this one. */
  readonly cluster: () => OtherNodes | undefined
}

/** The sender of a request, for the store. */
export function actorOf({ caller: { agent, account } }: PendingRequest): Actor {
  return { agent, account }
}

/** The store's result; undefined if it refused, in which case the request has been answered. */
export function accepted<Value extends object>(
  request: PendingRequest,
  outcome: Outcome<Value | Refusal>,
): Exclude<Value, Refusal> | undefined {
  if (!outcome.ok) request.refuse(refusalOf(outcome.error))
  else if ('refused' in outcome.value) request.refuse(outcome.value)
  else return outcome.value as Exclude<Value, Refusal>
  return undefined
}

/** Members may send longer envelopes. */
export function allowMemberEnvelopes({ delivery, effects }: ChannelContext, agent: AgentId): void {
  const session = delivery.session(agent)
  if (session) effects.limit(session.stream.id, ENVELOPE_LIMITS.member)
}
