/** `static agent list|export-fingerprint|delete`: the agents on this machine. */
import { Command } from 'commander'
import { StaticError } from '@static/protocol'
import { userPlaces } from '@static/sdk/account'
import { ownId } from '../../agent/agent-id.ts'
import { HostClient } from '../../agent/host-client.ts'
import { addKeyFlags, type KeyFlags } from '../../agent/key.ts'
import { addPlaceFlags, agentPlace, existingAgents, type PlaceFlags } from '../../agent/place.ts'
import { confirm } from '../../terminal/ask.ts'
import { examples } from '../../terminal/examples.ts'
import { note, print, printJson, table } from '../../terminal/output.ts'

interface Flags extends PlaceFlags {
  readonly json?: boolean
}

interface DeleteFlags extends Flags {
  readonly yes?: boolean
}

export function listCommand(): Command {
  return new Command('list')
    .description('list the agents on this machine')
    .option('--json', 'print JSON')
    .addHelpText('after', examples('static agent list', 'static agent list --json'))
    .action(list)
}

export function exportFingerprintCommand(): Command {
  return addPlaceFlags(
    addKeyFlags(
      new Command('export-fingerprint').description(
        "print an agent's fingerprint, for others to compare; works without a relay",
      ),
    ),
  )
    .option('--json', 'print JSON')
    .addHelpText('after', examples('static agent export-fingerprint --as billing'))
    .action(exportFingerprint)
}

export function deleteCommand(): Command {
  return addPlaceFlags(
    new Command('delete')
      .description('delete an agent from this machine, with its keys and unread messages')
      .option('--yes', 'skip the confirmation prompt'),
  )
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      `
Deleting an agent does not leave its channels: the other members still see it, and a channel that it owns can no longer
admit or remove anyone. Leave or delete its channels first. No key is required.
${examples('static agent delete --as billing')}`,
    )
    .action(deleteOne)
}

async function list({ json }: Flags): Promise<void> {
  const found = await Promise.all(
    (await existingAgents()).map(async ({ identity, directory, slots }) => {
      const held = await HostClient.connect(directory)
      held?.close()
      return {
        identity: identity ?? null,
        directory,
        running: held !== undefined,
        slots,
      }
    }),
  )
  if (json) return printJson({ agents: found })
  if (found.length === 0) return note(`there are no agents in ${userPlaces().agents}.`)
  const rows = found.map(({ identity, directory, running, slots }) => [
    identity ?? '(long name)',
    running ? 'running' : '',
    [...new Set(slots)].join(', '),
    directory,
  ])
  print(table(['IDENTITY', 'STATE', 'UNLOCKED BY', 'DIRECTORY'], rows))
}

async function exportFingerprint(flags: Flags & KeyFlags): Promise<void> {
  const { dataDir } = agentPlace(flags)
  const { agent_id: id, fingerprint } = await ownId(dataDir, flags)
  if (flags.json) printJson({ agent_id: id, fingerprint })
  else print(fingerprint)
}

async function deleteOne(flags: DeleteFlags): Promise<void> {
  // Requires even the default agent to be named: deleting must not depend on a forgotten environment variable.
  if (flags.as === undefined && flags.dataDir === undefined)
    throw StaticError.of('invalid_request', 'No agent is named. Pass --as or --data-dir.')
  const { identity, dataDir } = agentPlace(flags)
  const shown = flags.dataDir === undefined ? `agent ${identity} (${dataDir})` : `the agent in ${dataDir}`
  const { deleteAgent, listKeySlots } = await import('@static/sdk')
  // Checked before asking, because there may be nothing to delete.
  listKeySlots(dataDir)
  if (!flags.yes)
    await confirm(`Delete ${shown}, its keys and its unread messages, permanently? Its channels are not left.`)
  deleteAgent(dataDir)
  if (flags.json) printJson({ directory: dataDir, deleted: true })
  else print(`Deleted ${shown}.`)
}
