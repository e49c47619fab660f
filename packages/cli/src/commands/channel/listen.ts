/** `static channel listen`: prints messages as they arrive and admits agents that join with this agent's invites. */
import { Command, Option } from 'commander'
import { isErrno } from '@static/node/files'
import { withinTime } from '@static/node/within-time'
import { StaticError } from '@static/protocol'
import { addAgentFlags, type AgentFlags, type OpenAgent, withAgent } from '../../agent/open.ts'
import { agentPlace } from '../../agent/place.ts'
import type { SavedMessage } from '../../handlers/command.ts'
import { examples } from '../../terminal/examples.ts'
import { note, plainJson } from '../../terminal/output.ts'
import { channelArgument, seconds, wholeNumber } from './arguments.ts'
import { addHandleFlags, HANDLE_HELP, type HandleFlags, handleMessages } from './handle.ts'
import { printEvents } from './events.ts'
import { textIn, textOf } from './message-text.ts'
import { addSaveFlags, FileSaver, type SaveFlags } from './save-files.ts'

interface Flags extends AgentFlags, HandleFlags, SaveFlags {
  readonly count?: number
  readonly timeout?: number
  readonly raw?: boolean
}

const MS = 1000

export function listenCommand(): Command {
  return addAgentFlags(
    addSaveFlags(
      addHandleFlags(
        new Command('listen')
          .description('print the messages of a channel as they arrive, until Ctrl-C, or hand each to a program')
          .addArgument(channelArgument())
          .option('--count <messages>', 'stop after N messages', wholeNumber)
          .option(
            '--timeout <seconds>',
            'stop after N seconds without a message; with --count, exit with 1 if messages are missing',
            seconds,
          )
          .addOption(
            new Option('--raw', 'print the bytes of each message as they were sent, and nothing else').conflicts([
              'json',
              'exec',
              'webhook',
            ]),
          ),
      ),
    ),
  )
    .addHelpText(
      'after',
      `
On a terminal each message is printed with its time and sender; in a pipe, as it was sent, ending in a line feed. --raw
adds no line feed, so that a file arrives as it was; a terminal then acts on what a member sends.
A sender is shown with the first digits of its fingerprint if its name looks like that of another member.
With --json each message is one line: channel, index, message_id, epoch, time, redelivered, sender, payload (base64)
and text; with a file also file (id, name, safe_name, type, size, and with --save path or error). A message counts as read once it is printed; unread messages are delivered again at the next start.
While this command runs, it admits agents that join with this agent's invites, and other commands for the agent go
through it.
With --save, the file of a message is saved before the message is printed, readable only by you, never executable, and
under a safe form of its name, with a number if that is taken. Files that are too large, or for which the directory has
no room, stay at the relay: see \`static channel files\`.
${HANDLE_HELP}
${examples(
  'static channel listen acme/support/routing',
  'static channel listen acme/support/routing --raw --count 1 --timeout 30 > picture.png',
  'static channel listen acme/support/routing --json | jq -r .text',
  "static channel listen acme/support/routing --exec './answer.sh'",
  'static channel listen acme/support/routing --save inbox/ --max-file 1GiB',
)}`,
    )
    .action(listen)
}

async function listen(name: string, flags: Flags): Promise<void> {
  if (flags.exec !== undefined || flags.webhook !== undefined) return await handleMessages(name, flags)
  const saver = FileSaver.open(flags, agentPlace(flags).dataDir)
  const progress = { left: flags.count ?? Infinity, announced: false }
  try {
    // If another process held the agent and exits, this one opens it and continues.
    await withAgent(flags, { share: true }, async (agent) => {
      const follower = agent.follow(name)
      const events = agent.events()
      if (events) void printEvents(agent, events)
      if (!progress.announced) printStart(agent, name)
      progress.announced = true
      while (progress.left > 0) {
        const next = follower.next()
        const message = await (flags.timeout === undefined ? next : withinTime(next, flags.timeout * MS))
        if (message === undefined) return
        // Print before requesting the next message, because that settles this one.
        const shown = saver ? await saver.save(agent, message, false) : message
        await written(printed(shown, flags))
        progress.left--
      }
      await follower.settle()
    })
  } catch (error) {
    // The reader closed the pipe. A message that was not written is not settled.
    if (!isErrno(error, 'EPIPE')) throw error
    return
  }
  if (progress.left > 0 && progress.left !== Infinity) {
    throw StaticError.of(
      'not_found',
      `No message arrived for ${flags.timeout} seconds (--timeout); ${progress.left} of ${flags.count} messages are missing.`,
    )
  }
}

function printStart({ identity, remote }: OpenAgent, name: string): void {
  const through = remote ? ', through the process that has this agent open' : ''
  note(`listening on ${name} as ${identity}${through}; press Ctrl-C to stop.`)
}

/** Resolves once the operating system has the data. */
function written(data: string | Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(data, (error) => (error ? reject(error) : resolve()))
  })
}

function printed(message: SavedMessage, { json, raw }: Flags): string | Uint8Array {
  if (raw) return Buffer.from(message.payload, 'base64')
  return json ? jsonLine(message) : textOf(message)
}

function jsonLine(message: SavedMessage): string {
  const text = textIn(Buffer.from(message.payload, 'base64'))
  return `${plainJson({ ...message, ...(text === undefined ? {} : { text }) })}\n`
}
