/** `static channel send`: messages from arguments or stdin. */
import { type Stats, statSync } from 'node:fs'
import { basename, resolve } from 'node:path'
import { Argument, Command, Option } from 'commander'
import {
  filePartBytes,
  filePartCount,
  identityWithFingerprint,
  MAX_FILE_BYTES,
  MAX_PAYLOAD_BYTES,
  paddedFileBytes,
  shortFingerprint,
  StaticError,
} from '@static/protocol'
import type { ReceiptLevel } from '@static/sdk'
import type { SentMessage } from '../../agent/actions.ts'
import { addAgentFlags, type AgentFlags, type OpenAgent, withAgent } from '../../agent/open.ts'
import { byteText, followTransfer } from '../../agent/transfer.ts'
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
  readonly file?: string
  readonly type?: string
  readonly fileName?: string
}

/**
 * The maximum number of lines in one request to the host socket; their total size is limited to one maximum payload.
 */
const MAX_LINES = 64
const MS = 1000

export function sendCommand(): Command {
  return addAgentFlags(
    new Command('send')
      .description('send a message or a file; returns once the relay has stored it on disk')
      .addArgument(channelArgument())
      .addArgument(new Argument('[text...]', 'the message, visible in the process list; prefer stdin'))
      .option('--lines', 'send each line of stdin as a message, as it arrives (default: all of stdin is one message)')
      .option('--file <path>', 'send a file of any size, with the text, if any, beside it')
      .option('--file-name <name>', 'the name that receivers see (default: that of the path)')
      .option('--type <media type>', 'the media type of the file, such as image/png')
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
      `
A file costs one message for each MiB, and one more; it takes room of its own until all members have saved it, 7 days at
most. Both are printed before it is sent. If the command is interrupted, the same command continues.
${examples(
  'echo hello | static channel send acme/support/routing',
  'static channel send acme/support/routing < picture.png',
  "static channel send acme/support/routing --file build.tar.gz 'the build of today'",
  'tail -f app.log | static channel send acme/support/routing --lines',
  'echo deploy | static channel send acme/support/routing --wait settled --timeout 30',
)}`,
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
  checkFileFlags(flags)
  const result = flags.lines
    ? { sent: await sendLines(name, flags) }
    : { sent: 1, ...(await sendOne(name, words, flags)) }
  if (flags.json) printJson({ channel: name, ...result })
}

function checkFileFlags({ file, fileName, type, lines }: Flags): void {
  const alone = type === undefined ? fileName && '--file-name' : '--type'
  if (file === undefined && alone !== undefined)
    throw StaticError.of('invalid_request', `${alone} is given without --file. Name the file to send.`)
  if (file !== undefined && lines)
    throw StaticError.of(
      'invalid_request',
      'Both --file and --lines are given. Send the file with a command of its own.',
    )
}

async function sendOne(
  name: string,
  words: readonly string[],
  flags: Flags,
): Promise<(SentMessage & Partial<ReachedSummary>) | undefined> {
  if (flags.file !== undefined) return await sendFile(name, flags.file, words.join(' '), flags)
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

/** What a file costs and takes, printed before it is sent. */
interface FileCost {
  readonly file: string
  readonly size: number
  readonly parts: number
  /** One for each part, and one for the message that names it. */
  readonly messages: number
  /** What it takes of the room for files, until it is deleted. */
  readonly room: number
}

async function sendFile(
  name: string,
  path: string,
  text: string,
  flags: Flags,
): Promise<SentMessage & FileCost & Partial<ReachedSummary>> {
  if (text !== '') warnOfArgument('message', 'send it on stdin, as a message of its own')
  const { wait, timeout, fileName = '', type = '' } = flags
  const absolute = resolve(path)
  const cost = costOf(absolute, path)
  const limit = timeout === undefined ? {} : { signal: AbortSignal.timeout(timeout * MS) }
  return await withAgent(flags, { share: false }, async (agent) => {
    if (!flags.json) {
      const { size, parts, messages, room } = cost
      const counted = parts === 1 ? '1 part' : `${parts} parts`
      note(
        `${path}: ${byteText(size)} in ${counted}; costs ${messages} messages and ${byteText(room)} of the room for files.`,
      )
    }
    const id = await agent.call('startSend', name, absolute, fileName, type, text)
    const done = await followTransfer(agent, id, { doing: 'Sending', ...limit })
    if (!('file_id' in done)) throw StaticError.of('internal_error')
    const sent = { ...done, ...cost }
    if (!flags.json) print(`Sent ${basename(path)} as file ${done.file_id}.`)
    return wait ? { ...sent, ...(await confirmed(agent, name, done, { ...flags, wait })) } : sent
  })
}

/** Throws `invalid_request` if the path is not a file that can be sent. */
function costOf(path: string, given: string): FileCost {
  let found: Stats | undefined
  try {
    found = statSync(path, { throwIfNoEntry: false })
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw StaticError.of('invalid_request', `${given} cannot be read (${code}). Pass the path of a file.`, { cause })
  }
  if (!found?.isFile()) {
    const problem = found ? 'is not a regular file' : 'does not exist'
    throw StaticError.of('invalid_request', `${given} ${problem}. Pass the path of a file.`)
  }
  const padded = paddedFileBytes(found.size)
  if (padded > MAX_FILE_BYTES) {
    throw StaticError.of('too_large', `${given} has ${found.size} bytes; the limit is ${MAX_FILE_BYTES}. Split it.`)
  }
  const parts = filePartCount(padded)
  const room = Array.from({ length: parts }, (_, part) => filePartBytes(padded, part)).reduce(
    (sum, one) => sum + one,
    0,
  )
  return { file: given, size: found.size, parts, messages: parts + 1, room }
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
  return StaticError.of('too_large', what === 'line' ? `${problem} Split it.` : `${problem} Send it with --file.`)
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
