/** The context that the channels of an agent share. */
import type { ReceiptMode, StaticError } from '@static/protocol'
import type { MlsEngine, SignatureKeyPair } from '../mls/index.ts'
import type { AgentId, RelaySession, Time } from '../ports/index.ts'
import type { Journal } from '../channel/journal.ts'
import type { FollowTurns } from '../channel/log/follow-turns.ts'
import type { AgentFiles } from '../files/agent-files.ts'
import type { Deliveries } from './deliveries.ts'
import type { AgentEvent } from './events.ts'
import type { HandlerFailure } from './log/handler-log.ts'
import type { InviteHandler } from './invite-handler.ts'
import type { Keeping } from '../channel/keeping/keeping.ts'
import type { Pins } from './pins.ts'
import type { ProofDesk } from '../proofs/desk.ts'

/** The agent as its channels see it. */
export interface AgentContext {
  readonly agentId: AgentId
  readonly key: SignatureKeyPair
  sign(bytes: Uint8Array): Uint8Array
  readonly engine: MlsEngine
  readonly journal: Journal
  /** Undefined if no other agent shares this agent's thread. */
  readonly turns: Pick<FollowTurns, 'wait'> | undefined
  readonly pins: Pins
  /** Undefined for an agent that neither shows nor checks proofs. */
  readonly proofs: ProofDesk | undefined
  /** Whether messages are kept once they are settled or sent. */
  readonly keeping: Keeping
  /** The level that this agent's receipts report to others. */
  readonly receipts: ReceiptMode
  readonly session: Pick<RelaySession, 'request'>
  /** Why there is no session, if that is known. */
  readonly offline: StaticError | undefined
  readonly deliveries: Pick<Deliveries, 'acknowledge' | 'resume' | 'queued'>
  /** Undefined for an agent that neither sends nor fetches files. */
  readonly files: AgentFiles | undefined
  /** Undefined for an agent that does not handle invites. */
  readonly invites: Omit<InviteHandler, 'opened' | 'refused' | 'failed' | 'dropped' | 'stop'> | undefined
  now(): Time
  random(bytes: number): Uint8Array
  /** Between 0 and 1. */
  chance(): number
  /** Runs an action after a delay. Returns a function that cancels it. */
  later(milliseconds: number, action: () => void): () => void
  /** `failure`: what the event's handler threw. */
  emit(event: AgentEvent, failure?: HandlerFailure): void
}
