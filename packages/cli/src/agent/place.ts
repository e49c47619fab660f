/** The agent that a command uses, and its directory. */
import type { Command } from 'commander'
import { userPlaces } from '@static/sdk/account'
import { agentDirectory, defaultIdentity } from './identity.ts'

/** Flags that name an agent. */
export interface PlaceFlags {
  readonly as?: string
  readonly dataDir?: string
}

export function addPlaceFlags(command: Command): Command {
  return command
    .option(
      '--as <identity>',
      'identity of the agent to use (default: STATIC_IDENTITY, then a random name kept for you)',
    )
    .option('--data-dir <dir>', "the agent's directory (default: STATIC_DATA_DIR, then one per identity)")
}

/** The agent from flags and environment. */
export function agentPlace({ as, dataDir }: PlaceFlags): { readonly identity: string; readonly dataDir: string } {
  const identity = as ?? defaultIdentity()
  const given = dataDir ?? (process.env['STATIC_DATA_DIR'] || undefined)
  return { identity, dataDir: given ?? agentDirectory(userPlaces().agents, identity) }
}
