/** `static channel listen`: follows a channel, and lets in those who join by the agent's invites. */
import { Command } from 'commander'
import { isErrno } from '@static/node/files'
import { StaticError } from '@static/protocol'
import type { Message } from '../../agent/actions.ts'
import { addAgentFlags, type AgentFlags, type OpenAgent, withAgent } from '../../agent/open.ts'
import { examples } from '../../terminal/examples.ts'
import { printable, note, styled } from '../../terminal/output.ts'
import { channelArgument, seconds, wholeNumber } from './arguments.ts'
import { printEvents } from './events.ts'

interface Flags extends AgentFlags {
  readonly count?: number
  readonly timeout?: number
}

const MS = 1000

export function listenCommand(): Command {
  return addAgentFlags(
    new Command('listen')
      .description('print the messages of a channel as they come, until Ctrl-C')
      .addArgument(channelArgument())
      .option('--count <messages>', 'end after so many messages', wholeNumber)
      .option('--timeout <seconds>', 'end when none has come for so long; with --count that is exit code 1', seconds),
  )
    .addHelpText(
      'after',
      `
On a terminal each message has its time and sender; in a pipe it is printed as it was sent, with a line feed after it.
With --json each is one line: channel, index, message_id, epoch, time, redelivered, sender, payload (base64) and text.
A message counts as read when it is printed; what was not comes again at the next start.
While it runs, those who join by this agent's invites are let in, and other commands on the agent go through it.
${examples(
  'static channel listen acme/support/routing',
  'static channel listen acme/support/routing --count 1 --timeout 30 > message',
  'static channel listen acme/support/routing --json | jq -r .text',
)}`,
    )
    .action(listen)
}

async function listen(name: string, flags: Flags): Promise<void> {
  const progress = { left: flags.count ?? Infinity, announced: false }
  try {
    // If another process held the agent and ends, this one opens it and goes on.
    await withAgent(flags, { share: true }, async (agent) => {
      const follower = agent.follow(name)
      const events = agent.events()
      if (events) void printEvents(agent, events)
      if (!progress.announced) printStart(agent, name)
      progress.announced = true
      while (progress.left > 0) {
        const message = await withinTime(follower.next(), flags.timeout)
        if (message === undefined) return
        // Only then is the next one asked for, by which this one is settled.
        await written(flags.json ? jsonLine(message) : textOf(message))
        progress.left--
      }
      await follower.settle()
    })
  } catch (error) {
    // Whoever read this has enough; what was not written is not settled.
    if (!isErrno(error, 'EPIPE')) throw error
    return
  }
  if (progress.left > 0 && progress.left !== Infinity) {
    throw StaticError.of('not_found', `No message has come for ${flags.timeout} seconds.`)
  }
}

function printStart({ identity, remote }: OpenAgent, name: string): void {
  const through = remote ? ', through the program that holds this agent' : ''
  note(`listening on ${name} as ${identity}${through}; Ctrl-C ends it.`)
}

async function withinTime<Result>(promise: Promise<Result>, limit: number | undefined): Promise<Result | undefined> {
  if (limit === undefined) return await promise
  const late = Promise.withResolvers<undefined>()
  const timer = setTimeout(() => late.resolve(undefined), limit * MS)
  try {
    return await Promise.race([promise, late.promise])
  } finally {
    clearTimeout(timer)
  }
}

/** Fulfilled when the system has it. */
function written(data: string | Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(data, (error) => (error ? reject(error) : resolve()))
  })
}

function jsonLine(message: Message): string {
  const text = textIn(Buffer.from(message.payload, 'base64'))
  return `${JSON.stringify({ ...message, ...(text === undefined ? {} : { text }) })}\n`
}

/** For a person, or the bytes as they are for a program. */
function textOf({ payload, sender, time }: Message): string | Uint8Array {
  const bytes = Buffer.from(payload, 'base64')
  if (!process.stdout.isTTY) return bytes.at(-1) === 0x0a ? bytes : Buffer.concat([bytes, Buffer.from('\n')])
  const text = textIn(bytes) ?? `${bytes.length} bytes that are no text`
  const clock = new Date(time).toTimeString().slice(0, 8)
  const lines = text.replace(/\n+$/, '').split('\n').map(printable).join('\n    ')
  return `${styled('dim', clock)} ${styled('cyan', printable(sender.identity))}: ${lines}\n`
}

function textIn(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}
