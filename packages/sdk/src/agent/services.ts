/** The services of an agent for calls with more than one step. Each call takes those it needs. */
import type { StaticError } from '@static/protocol'
import type { FilesPlace, Snapshot } from '../ports/index.ts'
import type { AgentContext } from './context.ts'
import type { HeldWelcomes } from '../joining/welcome.ts'
import type { KeyPackages } from './key-packages.ts'
import type { AgentChannels } from './channels.ts'
import type { RelayRequests } from './relay-requests.ts'
import type { Timers } from './timers.ts'

export interface AgentServices {
  readonly context: AgentContext
  readonly channels: AgentChannels
  readonly requests: RelayRequests
  readonly timers: Timers
  readonly keyPackages: KeyPackages
  /** Welcomes waiting for the end of an earlier membership. */
  readonly held: HeldWelcomes
  /** Whether the agent has a session that acts for an account: not offline, and not as a guest. */
  readonly hasAccountSession: boolean
  /** Whether the agent can get tokens of an account, even while it is offline. */
  readonly hasTokens: boolean
  /** Where the relay of the current or last session takes and gives the parts of files. */
  readonly filesPlace: FilesPlace | undefined
  /** The invites on disk when the agent started. */
  readonly stored: Pick<Snapshot, 'invites' | 'joiners' | 'attempts'>
  /** Stops the agent, because something it needs can be neither created nor stored. */
  fail(error: StaticError): void
}
