/** `static channel history`: the messages that an agent has kept, without a connection. */
import { Command } from 'commander'
import { ShownNames } from '@static/protocol'
import type { HistoryMessage } from '@static/sdk'
import { withHistory } from '../../agent/history.ts'
import { addKeyFlags, type KeyFlags } from '../../agent/key.ts'
import { addPlaceFlags, agentPlace, type PlaceFlags } from '../../agent/place.ts'
import { confirm } from '../../terminal/ask.ts'
import { examples } from '../../terminal/examples.ts'
import { commandLine, note, print, printJson, styled } from '../../terminal/output.ts'
import { withProgress } from '../../terminal/progress.ts'
import { channelArgument, wholeNumber } from './arguments.ts'
import { lineOf, textIn } from './message-text.ts'

interface Flags extends PlaceFlags, KeyFlags {
  readonly limit: number
  readonly before?: number
  readonly erase?: boolean
  readonly yes?: boolean
  readonly json?: boolean
}

const LIMIT = 100

export function historyCommand(): Command {
  return addPlaceFlags(
    addKeyFlags(
      new Command('history')
        .description('show the messages of a channel that the agent has kept; works without a relay')
        .addArgument(channelArgument())
        .option('--limit <messages>', 'show the last N messages, at most 1000', wholeNumber, LIMIT)
        .option('--before <index>', 'show messages before this index', wholeNumber)
        .option('--erase', 'permanently delete the history of the channel')
        .option('--yes', 'skip the confirmation prompt of --erase'),
    ),
  )
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      `
An agent keeps messages only if it is told to: \`static agent history --days 30\`. It shows what was read and what the agent
has sent, the newest last. Each sender is shown with the first digits of its fingerprint. Stop the agent first.
With --json, each message has index, message_id, time, kind (payload, file, request or answer), own (sent by this agent),
sender, payload (base64) and text; a file also file (name, safe_name, type, size), an answer request (an id).
${examples(
  'static channel history acme/support/routing --as ada',
  'static channel history acme/support/routing --limit 20 --before 1042 --json',
  'static channel history acme/support/routing --erase',
)}`,
    )
    .action(history)
}

async function history(name: string, flags: Flags): Promise<void> {
  if (flags.erase) return await erase(name, flags)
  const { limit, before } = flags
  const { days, messages } = await withHistory(flags, async (stored) => ({
    days: stored.days,
    messages: stored.page(name, { limit, ...(before !== undefined && { before }) }).toReversed(),
  }))
  if (flags.json) return printJson({ channel: name, days: days ?? null, messages: messages.map(jsonOf) })
  let day: string | undefined
  for (const message of messages) {
    const today = dayOf(message.time)
    if (today !== day) print(styled('dim', today))
    day = today
    process.stdout.write(textOf(message))
  }
  if (messages.length >= limit) note(`earlier messages: --before ${messages[0]?.index}.`)
  if (messages.length > 0) return
  if (days !== undefined) return note(`no messages of ${name} are kept${before === undefined ? '' : ' before that'}.`)
  const words = commandLine('agent history --days 30')
  note(`agent ${agentPlace(flags).identity} keeps no messages; \`${words}\` changes that.`)
}

async function erase(name: string, flags: Flags): Promise<void> {
  if (!flags.yes) await confirm(`The history of ${name} will be deleted, permanently. Continue?`)
  await withHistory(flags, (stored) => withProgress('Deleting the history', stored.erase(name)))
  if (flags.json) printJson({ channel: name, erased: true })
  else print(`Deleted the history of ${name}.`)
}

/** No members are known here to compare names with, so each comes with its fingerprint. */
const NAMES = new ShownNames([])

function jsonOf({ sender, messageId, time, payload, own, kind, index, request, file }: HistoryMessage): object {
  const { agentId, fingerprint } = sender
  const identity = Buffer.from(sender.identity).toString()
  const text = textIn(Buffer.from(payload))
  return {
    index,
    message_id: messageId,
    time: time.toISOString(),
    kind,
    own,
    sender: { agent_id: agentId, fingerprint, identity, name: NAMES.of({ agentId, identity }) },
    payload: Buffer.from(payload).toString('base64'),
    ...(text !== undefined && { text }),
    ...(request !== undefined && { request }),
    ...(file && { file: { name: file.name, safe_name: file.safeName, type: file.type, size: file.size } }),
  }
}

function textOf({ sender, payload, time, kind, file }: HistoryMessage): string {
  const { agentId, fingerprint } = sender
  const identity = Buffer.from(sender.identity).toString()
  const shown = NAMES.of({ agentId, identity })
  const name = kind === 'request' || kind === 'answer' ? `${shown} [${kind}]` : shown
  return lineOf({
    payload: Buffer.from(payload).toString('base64'),
    time: time.toISOString(),
    sender: { agent_id: agentId, fingerprint, identity, name },
    file,
  })
}

function dayOf(time: Date): string {
  const [year, month, day] = [time.getFullYear(), time.getMonth() + 1, time.getDate()]
  return [year, month, day].map((part) => String(part).padStart(2, '0')).join('-')
}
