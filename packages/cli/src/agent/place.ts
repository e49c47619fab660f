/** The agent that a command uses, and its directory. */
import type { Command } from 'commander'
import { StaticError } from '@static/protocol'
import { userPlaces } from '@static/sdk/account'
import { clientFlag } from '../account/client-flag.ts'
import { commandLine, shellWord } from '../terminal/output.ts'
import { agentDirectory, agentsIn, defaultIdentity } from './identity.ts'
import { slotsOf } from './key.ts'

/** An agent of this user. */
export interface ExistingAgent {
  /** Undefined for a long name, whose directory is named by a hash. */
  readonly identity: string | undefined
  readonly directory: string
  /** The types of its key slots. */
  readonly slots: readonly string[]
}

/** Maximum number of agents that an error names. */
const MOST_NAMES = 10

/** Flags that name an agent. */
export interface PlaceFlags {
  readonly as?: string
  readonly dataDir?: string
}

export function addPlaceFlags(command: Command): Command {
  return command
    .addOption(clientFlag('identity', '--as <identity>', 'identity of the agent to use', 'a random name kept for you'))
    .addOption(clientFlag('dataDir', '--data-dir <dir>', "the agent's directory", 'one per identity'))
}

/** The agent from flags and environment. */
export function agentPlace({ as, dataDir }: PlaceFlags): { readonly identity: string; readonly dataDir: string } {
  const identity = as ?? defaultIdentity()
  const given = dataDir ?? (process.env['STATIC_DATA_DIR'] || undefined)
  return { identity, dataDir: given ?? agentDirectory(userPlaces().agents, identity) }
}

/** The agents of this user that exist, with their directories and the types of their key slots. */
export async function existingAgents(): Promise<readonly ExistingAgent[]> {
  const agents = await Promise.all(
    agentsIn(userPlaces().agents).map(async (agent) => ({
      ...agent,
      slots: (await slotsOf(agent.directory)).map(({ type }) => type),
    })),
  )
  return agents.filter(({ slots }) => slots.length > 0)
}

/** Whether there is an agent in this directory. */
export async function exists(directory: string): Promise<boolean> {
  return (await slotsOf(directory)).length > 0
}

/** Whether flags or environment name an agent. Otherwise commands use the default one. */
export function isNamed({ as, dataDir }: PlaceFlags): boolean {
  return [as, dataDir, process.env['STATIC_IDENTITY'], process.env['STATIC_DATA_DIR']].some(Boolean)
}

/**
 * Checks that an agent exists.
 *
 * @throws {StaticError} `not_found`, which names those that exist
 */
export async function checkExists(flags: PlaceFlags): Promise<void> {
  if (await exists(agentPlace(flags).dataDir)) return
  const missing = await whyMissing(flags)
  const given = Object.entries({ as: flags.as, 'data-dir': flags.dataDir })
  const words = given.map(([name, value]) => (value === undefined ? '' : ` --${name} ${shellWord(value)}`))
  const create = commandLine(`agent create${words.join('')}`)
  const hint = `Create it with \`${create}\`; \`channel create\` and \`channel join\` create it as well.`
  throw StaticError.of('not_found', `${missing} ${hint}`)
}

/** Says that an agent does not exist, and which ones do. */
export async function whyMissing(flags: PlaceFlags): Promise<string> {
  const { identity, dataDir } = agentPlace(flags)
  const existing = await existingAgents()
  const names = existing.flatMap(({ identity: name }) => (name === undefined ? [] : [name]))
  const isPlaced = flags.dataDir !== undefined || Boolean(process.env['STATIC_DATA_DIR'])
  const missing = isPlaced
    ? `There is no agent in ${dataDir}.`
    : isNamed(flags)
      ? `There is no agent ${JSON.stringify(identity)} on this machine.`
      : 'Your default agent does not exist yet.'
  const others =
    names.length === 0
      ? ''
      : ` Agents on this machine: ${names.slice(0, MOST_NAMES).join(', ')}${names.length > MOST_NAMES ? ', …' : ''}.`
  return `${missing}${others}`
}
