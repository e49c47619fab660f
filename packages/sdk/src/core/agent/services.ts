/** What an agent offers to calls that take more than one step. Each takes what it needs of it. */
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
  /** Whether the agent acts for no account. */
  readonly isGuest: boolean
  /** Invites as they were on disk when the agent started. */
  readonly stored: Pick<Snapshot, 'invites' | 'joiners' | 'attempts'>
}
