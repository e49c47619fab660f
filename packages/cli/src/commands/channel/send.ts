/** `static channel send`: messages from arguments or stdin. */
import { Argument, Command, Option } from 'commander'
import { identityWithFingerprint, MAX_PAYLOAD_BYTES, shortFingerprint, StaticError } from '@static/protocol'
import type { ReceiptLevel } from '@static/sdk'
import type { SentMessage } from '../../agent/actions.ts'
import { addAgentFlags, type AgentFlags, type OpenAgent, withAgent } from '../../agent/open.ts'
import type { ReachedSummary } from '../../agent/receipt-actions.ts'
import { readInput } from '../../terminal/ask.ts'
import { examples } from '../../terminal/examples.ts'
import { exitCodeOf } from '../../terminal/exit-codes.ts'
import { note, print, printJson } from '../../terminal/output.ts'
import { withProgress } from '../../terminal/progress.ts'
import { warnOfArgument } from '../../terminal/secrets.ts'
import { channelArgument, seconds } from './arguments.ts'
import { printDelays } from './events.ts'

interface Flags extends AgentFlags {
  readonly lines?: boolean
  readonly timeout?: number
  readonly wait?: ReceiptLevel
}

/**
 * The maximum number of lines in one request to the host socket; their total size is limited to one maximum payload.
 */
const MAX_LINES = 64

export function sendCommand(): Command {
  return addAgentFlags(
    new Command('send')
      .description('send a message; returns once the relay has stored it on disk')
      .addArgument(channelArgument())
      .addArgument(new Argument('[text...]', 'the message, visible in the process list; prefer stdin'))
      .option('--lines', 'send each line of stdin as a message, as it arrives (default: all of stdin is one message)')
      .addOption(
        new Option('--wait <level>', 'then wait until every other member has signed that it has the message').choices([
          'delivered',
          'settled',
        ]),
      )
      .option(
        '--timeout <seconds>',
        'fail if a message takes longer; the error says whether it may still arrive',
        seconds,
      ),
  )
    .addHelpText(
      'after',
      examples(
        'echo hello | static channel send acme/support/routing',
        'static channel send acme/support/routing < picture.png',
        'tail -f app.log | static channel send acme/support/routing --lines',
        'echo deploy | static channel send acme/support/routing --wait settled --timeout 30',
      ),
    )
    .action(send)
}

async function send(name: string, words: readonly string[], flags: Flags): Promise<void> {
  if (words.length > 0 && flags.lines) {
    throw StaticError.of(
      'invalid_request',
      'Both a text argument and --lines are given. Pass the text as arguments, or use --lines with stdin.',
    )
  }
  if (flags.wait && flags.lines) {
    throw StaticError.of('invalid_request', 'Both --wait and --lines are given. Wait for one message at a time.')
  }
  const result = flags.lines
    ? { sent: await sendLines(name, flags) }
    : { sent: 1, ...(await sendOne(name, words, flags)) }
  if (flags.json) printJson({ channel: name, ...result })
}

async function sendOne(
  name: string,
  words: readonly string[],
  flags: Flags,
): Promise<(SentMessage & Partial<ReachedSummary>) | undefined> {
  const payload = words.length > 0 ? argument(words) : await wholeInput()
  if (payload.length === 0)
    throw StaticError.of('invalid_request', 'The message is empty. Pass the text as arguments or on stdin.')
  if (payload.length > MAX_PAYLOAD_BYTES) throw tooLarge('message', payload.length)
  const { wait } = flags
  let isTaken = false
  try {
    return await withAgent(flags, { share: false }, async (agent) => {
      isTaken = true
      const [sent] = await sendAll(agent, name, [payload], flags)
      return sent && wait ? { ...sent, ...(await confirmed(agent, name, sent, { ...flags, wait })) } : sent
    })
  } catch (error) {
    throw isTaken ? error : notKept(error, 'The message was not kept: send it again')
  }
}

/** Waits until the members have confirmed a message, and prints who has not. */
async function confirmed(
  agent: OpenAgent,
  name: string,
  { message_id: id, index }: SentMessage,
  { wait, timeout = 0, json }: Flags & Required<Pick<Flags, 'wait'>>,
): Promise<ReachedSummary> {
  const reached = await withProgress('Waiting for receipts', agent.call('reached', name, id, index, wait, timeout))
  if (json) return reached
  const names = new Map((await agent.call('members', name)).map(({ agent_id: of, identity }) => [of, identity]))
  const shown = (agentId: string): string => {
    const identity = names.get(agentId)
    return identity === undefined ? shortFingerprint(agentId) : identityWithFingerprint({ agentId, identity })
  }
  print(`${wait === 'settled' ? 'Settled' : 'Delivered'}: ${reached.reached.length} member(s).`)
  for (const { agent_id: of, reason } of reached.unreached) {
    print(`${shown(of)}: ${REASONS[reason]}.`)
  }
  return reached
}

const REASONS: Readonly<Record<ReachedSummary['unreached'][number]['reason'], string>> = {
  left: 'left the channel',
  removed: 'was removed',
  missed: 'missed it',
  aside: 'put it or a later message aside',
  off: 'sends no such receipts',
  not_member: 'was not a member',
}

function argument(words: readonly string[]): Buffer {
  warnOfArgument('message', 'send it on stdin')
  return Buffer.from(words.join(' '))
}

function tooLarge(what: 'message' | 'line', bytes?: number): StaticError {
  const limit = MAX_PAYLOAD_BYTES.toLocaleString('en-US')
  const excess = bytes === undefined ? '' : `: ${bytes.toLocaleString('en-US')} bytes`
  const problem = `The ${what} is larger than ${limit} bytes, the limit${excess}.`
  return StaticError.of('too_large', `${problem} Split it, or send it out of band.`)
}

async function wholeInput(): Promise<Buffer> {
  if (process.stdin.isTTY) note('type the message, then press Ctrl-D on an empty line.')
  return await readInput(MAX_PAYLOAD_BYTES, () => tooLarge('message'))
}

/** Sends lines as they arrive, batching those that are already available. */
async function sendLines(name: string, flags: Flags): Promise<number> {
  const batches = linesOf(process.stdin as AsyncIterable<Buffer>)
  let sent = 0
  let batch = await batches.next()
  if (batch.done) return sent
  let isTaken = false
  try {
    await withAgent(flags, { share: true }, async (agent) => {
      // Restarts here if the process that holds the agent exits: that batch was not started.
      while (!batch.done) {
        isTaken = true
        await sendAll(agent, name, batch.value, flags)
        sent += batch.value.length
        batch = await batches.next()
      }
    })
  } catch (error) {
    throw isTaken ? error : notKept(error, 'No line was kept: send them again')
  }
  return sent
}

/** Adds to an error from before the agent had the message that nothing sends it later. */
function notKept(error: unknown, consequence: string): unknown {
  if (!(error instanceof StaticError) || exitCodeOf(error) !== 4) return error
  return StaticError.of(error.code, `${error.message} ${consequence} when the server can be reached.`, { cause: error })
}

async function* linesOf(input: AsyncIterable<Buffer>): AsyncGenerator<readonly Buffer[], void, undefined> {
  let rest: Buffer = Buffer.alloc(0)
  for await (const chunk of input) {
    const lines = split(Buffer.concat([rest, chunk]))
    rest = lines.pop() ?? Buffer.alloc(0)
    while (lines.length > 0) yield lines.splice(0, batchSize(lines))
    if (rest.length > MAX_PAYLOAD_BYTES) throw tooLarge('line')
  }
  if (rest.length > 0) yield [rest]
}

/** Splits at line feeds; the last element is the incomplete line. */
function split(bytes: Buffer): Buffer[] {
  const lines: Buffer[] = []
  let start = 0
  for (let end = bytes.indexOf(0x0a); end >= 0; end = bytes.indexOf(0x0a, start)) {
    lines.push(bytes.subarray(start, bytes[end - 1] === 0x0d && end > start ? end - 1 : end))
    start = end + 1
  }
  return [...lines, bytes.subarray(start)]
}

/** How many of the lines go into the next batch. */
function batchSize(lines: readonly Buffer[]): number {
  let bytes = 0
  let count = 0
  for (const line of lines.slice(0, MAX_LINES)) {
    if (line.length > MAX_PAYLOAD_BYTES) throw tooLarge('line', line.length)
    bytes += line.length
    if (bytes > MAX_PAYLOAD_BYTES) break
    count++
  }
  return count
}

async function sendAll(
  agent: OpenAgent,
  name: string,
  payloads: readonly Buffer[],
  { timeout = 0 }: Flags,
): Promise<readonly SentMessage[]> {
  const events = agent.events()
  if (events) void printDelays(agent, events)
  const encoded = payloads.map((payload) => payload.toString('base64'))
  try {
    return await withProgress('Sending', agent.call('send', name, encoded, timeout))
  } finally {
    await events?.return?.()
  }
}
