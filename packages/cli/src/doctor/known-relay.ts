/** Checks that the relay is the one known to the agents on this machine. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ErrorDetails, StaticError } from '@static/protocol'
import { type AccountSettings, parseEndpoint } from '@static/sdk/account'
import { agentsIn } from '../agent/identity.ts'
import { slotsOf } from '../agent/key.ts'
import { commandLine } from '../terminal/output.ts'
import { type Finding, fix, ok } from './finding.ts'

const TIMEOUT_MS = 5_000

interface KnownRelay {
  readonly relayId: string
  readonly agents: readonly string[]
}

/** Reports nothing if no readable agent knows the relay, or if it does not answer. */
export async function checkKnownRelay(endpoint: string, account: AccountSettings): Promise<Finding[]> {
  const { serverName } = parseEndpoint(endpoint, { relayName: account.relayName })
  const known = await knownRelays(serverName, account.places.agents)
  const findings: Finding[] = []
  for (const relay of known) findings.push(...(await compare(endpoint, account, relay)))
  return findings
}

/** The relays that agents know by a name. Running agents, and agents locked with a passphrase, are skipped. */
async function knownRelays(name: string, directory: string): Promise<readonly KnownRelay[]> {
  const { readAgentIdentity } = await import('@static/sdk')
  const known = new Map<string, string[]>()
  for (const { directory: place, identity } of agentsIn(directory)) {
    const slots = await slotsOf(place).catch(() => [])
    if (!slots.some(({ type }) => type === 'file')) continue
    const found = await readAgentIdentity(place).catch(() => undefined)
    const relayId = found?.relays.find((relay) => relay.name === name)?.relayId
    if (relayId !== undefined) known.set(relayId, [...(known.get(relayId) ?? []), identity ?? place])
  }
  return [...known].map(([relayId, agents]) => ({ relayId, agents }))
}

/**
 * A temporary guest that accepts only the known relay learns which relay answers, and otherwise reveals nothing to it.
 */
async function compare(
  endpoint: string,
  { givenCa, relayName }: AccountSettings,
  known: KnownRelay,
): Promise<Finding[]> {
  const { StaticClient } = await import('@static/sdk')
  const directory = await mkdtemp(join(tmpdir(), 'static-doctor-'))
  try {
    const client = await StaticClient.connect({
      endpoint,
      apiKey: null,
      identity: 'doctor',
      dataDir: join(directory, 'agent'),
      connectTimeoutMs: TIMEOUT_MS,
      acceptRelay: known.relayId,
      ...(givenCa === undefined ? {} : { ca: givenCa }),
      ...(relayName === undefined ? {} : { relayName }),
    })
    await client.close()
    return [ok('known relay', `the same as before, for ${known.agents.join(', ')}`)]
  } catch (error) {
    const { code, details } = StaticError.from(error)
    return code === 'relay_changed' && details.relay ? [fix('known relay', changed(known, details.relay))] : []
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

function changed({ relayId, agents }: KnownRelay, { name, answering }: NonNullable<ErrorDetails['relay']>): string {
  const [first = ''] = agents
  return (
    `The relay at ${name} has changed: ${agents.join(', ')} cannot connect. They know relay ${relayId}, and relay ` +
    `${answering} answers. If the operator confirms that id, run \`${commandLine(`agent accept-relay --as ${first}`)}\`.`
  )
}
