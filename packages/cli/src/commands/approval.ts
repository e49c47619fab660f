/** `static approval check`: whether a record permits an action, without a channel and without an account. */
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Command } from 'commander'
import { createFile } from '@static/node/files'
import { StaticError } from '@static/protocol'
import { examples } from '../terminal/examples.ts'
import { print, printJson } from '../terminal/output.ts'
import { readShort } from '../terminal/short-file.ts'
import { wholeNumber } from './channel/arguments.ts'

interface Flags {
  readonly from: string
  readonly need: number
  readonly action: string
  readonly channel?: string
  readonly spend?: string
  readonly json?: boolean
}

/** The limit of a record, which is longer than any action. */
const MOST_BYTES = 131_072

export function approvalCommand(): Command {
  return new Command('approval').addCommand(checkCommand())
}

function checkCommand(): Command {
  return new Command('check')
    .description('check that a signed record permits an action; exits with 0 only if it does')
    .argument('<file>', 'the record, as `static channel request-approval --out` has written it')
    .requiredOption('--from <fingerprints>', 'whose approval counts: agent ids or fingerprints, separated by commas')
    .requiredOption('--need <count>', 'how many of them must have approved', wholeNumber)
    .requiredOption('--action <file>', 'what you will execute')
    .option('--channel <id>', 'refuse a record of another channel; --json shows the id')
    .option('--spend <directory>', 'permit it once: refuse a record that is noted in this directory, and note it')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      `
Only what you pass counts, never what the record says of itself. Without --channel, the same action approved in another
channel is accepted; without --spend, the same record is accepted again.
Keep the directory of --spend where it is not restored from old copies.
${examples('static approval check record.json --from "$ADA,$BEN,$CY" --need 2 --action plan.json --spend /var/lib/deploys')}`,
    )
    .action(check)
}

async function check(file: string, { from, need, action, channel, spend, json }: Flags): Promise<void> {
  const { checkApproval } = await import('@static/sdk')
  const [record, bytes] = await Promise.all([readShort(file, MOST_BYTES), readShort(action, MOST_BYTES)])
  const agents = from.split(',').map((word) => word.trim())
  const found = checkApproval(record.toString(), { from: agents, need, action: bytes })
  const { id, channelId, title, asker, by } = found
  if (channel !== undefined && channel.toLowerCase() !== channelId)
    throw StaticError.of(
      'not_allowed',
      `The record does not permit the action. It is for channel ${channelId}, not ${channel}.`,
    )
  if (spend !== undefined) await note(spend, id)
  const approvals = by.map(({ agentId, decidedAt, attended }) => ({
    agent_id: agentId,
    time: decidedAt.toISOString(),
    attended,
  }))
  if (json) printJson({ id, channel_id: channelId, title, asker, by: approvals, spent: spend !== undefined })
  else print(`The record permits the action: ${by.length} of the expected agents have approved it.`)
}

/** Notes on disk, before anything is executed, that an approval is used. */
async function note(directory: string, id: string): Promise<void> {
  const found = await stat(directory).catch(() => undefined)
  if (!found?.isDirectory())
    throw StaticError.of('invalid_request', `${directory} is not a directory. Create it, and keep it, for --spend.`)
  if (createFile(join(directory, id), `${new Date().toISOString()}\n`, 0o600)) return
  throw StaticError.of('not_allowed', `The approval is used: ${join(directory, id)} exists. Ask for a new one.`)
}
