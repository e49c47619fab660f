/** Which agent a command means, and where it lives. */
import type { Command } from 'commander'
import { userPlaces } from '@static/sdk/account'
import { agentDirectory, defaultIdentity } from './identity.ts'

/** Flags that name an agent. */
export interface PlaceFlags {
  readonly as?: string
  readonly dataDir?: string
}

/** Adds the flags to a command. */
export function addPlaceFlags(command: Command): Command {
  return command
    .option('--as <identity>', 'which agent acts (STATIC_IDENTITY; default: user@host)')
    .option('--data-dir <dir>', "the agent's own directory (STATIC_DATA_DIR; default: by its identity)")
}

/** The agent that flags and environment mean. */
export function agentPlace({ as, dataDir }: PlaceFlags): { readonly identity: string; readonly dataDir: string } {
  const identity = as ?? defaultIdentity()
  const given = dataDir ?? (process.env['STATIC_DATA_DIR'] || undefined)
  return { identity, dataDir: given ?? agentDirectory(userPlaces().agents, identity) }
}
