/** `static channel ask` and `static channel serve`: requests to members and answers to theirs. */
import { Argument, Command } from 'commander'
import { StaticError } from '@static/protocol'
import type { Message } from '../../agent/actions.ts'
import type { AnswerSummary } from '../../agent/ask-actions.ts'
import { addAgentFlags, type AgentFlags, type OpenAgent, openAgent, type Served, withAgent } from '../../agent/open.ts'
import { agentPlace } from '../../agent/place.ts'
import { answerOfCommand, parseCommand } from '../../handlers/command.ts'
import { readInput } from '../../terminal/ask.ts'
import { examples } from '../../terminal/examples.ts'
import { untilInterrupted } from '../../terminal/interrupt.ts'
import { note, plainJson } from '../../terminal/output.ts'
import { warnOfArgument } from '../../terminal/secrets.ts'
import { channelArgument, seconds } from './arguments.ts'
import { printEvents } from './events.ts'
import { textOf } from './message-text.ts'

interface AskFlags extends AgentFlags {
  readonly to?: string
  readonly timeout?: number
}

interface ServeFlags extends AgentFlags {
  readonly exec: string
}

const TIMEOUT = 300
/** The limit of a request and of an answer, in bytes. */
const MOST_BYTES = 262_080

export function askCommand(): Command {
  return addAgentFlags(
    new Command('ask')
      .description('ask a member, or all, and print the answers as they arrive')
      .addArgument(channelArgument())
      .addArgument(new Argument('[text...]', 'the request, visible in the process list; prefer stdin'))
      .option('--to <member>', 'identity, fingerprint, or at least the first 8 digits of one (default: all members)')
      .option('--timeout <seconds>', `how long to wait for answers (default: ${TIMEOUT})`, seconds),
  )
    .addHelpText(
      'after',
      `
On a terminal each answer is printed with its time and sender; in a pipe, as it was sent, ending in a line feed; with
--json as one line: index, message_id, time, sender, and payload (base64) or error (code, message). Exits with 1 if a
member answers with an error, or if the asked member, or of all members none, answers in time.
${examples('echo status | static channel ask acme/support/routing --to bob', 'static channel ask acme/support/routing --json who is there')}`,
    )
    .action(ask)
}

export function serveCommand(): Command {
  return addAgentFlags(
    new Command('serve')
      .description('answer the requests of a channel with a program, until Ctrl-C')
      .addArgument(channelArgument())
      .requiredOption('--exec <command>', 'run a shell command for each request; its output is the answer'),
  )
    .addHelpText(
      'after',
      `
The request is the command's input, with the variables of \`static channel listen --exec\`. An exit code other than 0
answers with an error. A request whose answer was not stored by the relay is served again (STATIC_REDELIVERED).
${examples("static channel serve acme/support/routing --exec './answer.sh'")}`,
    )
    .action(serve)
}

async function ask(name: string, words: readonly string[], flags: AskFlags): Promise<void> {
  if (words.length > 0) warnOfArgument('request', 'send it on stdin')
  const payload = words.length > 0 ? Buffer.from(words.join(' ')) : await readInput(MOST_BYTES, tooLarge)
  if (payload.length > MOST_BYTES) throw tooLarge()
  const failures: AnswerSummary[] = []
  let answers = 0
  await withAgent(flags, { share: true }, async (agent) => {
    const { to = '', timeout = TIMEOUT } = flags
    const id = await agent.call('ask', name, payload.toString('base64'), to, timeout)
    for (;;) {
      const answer = await agent.call('nextAnswer', name, id)
      if (!answer) break
      answers++
      if (answer.error) failures.push(answer)
      printAnswer(answer, flags)
    }
    if (answers === 0) throw await unanswered(agent, name, timeout)
  })
  const [first] = failures
  if (first?.error) {
    const { code, message } = first.error
    throw StaticError.of('ask_failed', `${first.sender.name} answered with the error ${code}: ${message}`)
  }
}

/** The error when all members were asked and none has answered. */
async function unanswered(agent: OpenAgent, name: string, timeout: number): Promise<StaticError> {
  const members = await agent.call('knownMembers', name)
  if (members.length === 1) return StaticError.of('not_found', `${name} has no other member that could answer.`)
  return StaticError.of('ask_timeout', `No member answered within ${timeout} seconds (--timeout).`)
}

function tooLarge(): StaticError {
  return StaticError.of(
    'too_large',
    `The request is larger than ${MOST_BYTES.toLocaleString('en-US')} bytes, the limit.`,
  )
}

function printAnswer(answer: AnswerSummary, { json }: AskFlags): void {
  const { payload } = answer
  if (json) process.stdout.write(`${plainJson({ ...answer })}\n`)
  else if (payload !== undefined) process.stdout.write(textOf({ ...answer, payload }))
}

async function serve(name: string, flags: ServeFlags): Promise<void> {
  const line = parseCommand(flags.exec)
  const stop = new AbortController()
  const place = agentPlace(flags)
  const agent = await openAgent(flags, { share: true })
  const handler = async (request: Message, served: Served): Promise<Uint8Array> => {
    const signal = AbortSignal.any([served.signal, stop.signal])
    return await answerOfCommand(line, request, place, { signal, most: MOST_BYTES })
  }
  try {
    const events = agent.events()
    if (events) void printEvents(agent, events)
    const serving = agent.serve(name, handler)
    if (!agent.remote) note(`answering requests in ${name} as ${agent.identity}; press Ctrl-C to stop.`)
    await untilInterrupted(serving)
  } finally {
    // A request in progress will be served again.
    await agent.close()
    stop.abort()
  }
}
