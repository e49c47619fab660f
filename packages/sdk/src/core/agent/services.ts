/** The services of an agent for calls with more than one step. Each call takes those it needs. */
import type { Snapshot } from '../../ports.ts'
import type { AgentContext } from './context.ts'
import type { KeyPackages } from './key-packages.ts'
import type { Memberships } from './memberships.ts'
import type { Requests } from './requests.ts'
import type { Timers } from './timers.ts'

/** The services of an agent. */
export interface AgentServices {
  readonly context: AgentContext
  readonly memberships: Memberships
  readonly requests: Requests
  readonly timers: Timers
  readonly keyPackages: KeyPackages
  /** Whether the agent is a guest, that is, acts for no account. */
  readonly isGuest: boolean
  /** Invites on disk when the agent started. */
  readonly stored: Pick<Snapshot, 'invites' | 'joiners' | 'attempts'>
}
