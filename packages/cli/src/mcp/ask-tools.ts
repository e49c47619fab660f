/** The tools `ask` and `answer`: requests of this agent, and those of others. */
import { shownIdentity, StaticError } from '@static/protocol'
import { type AnswerSummary, placeOf } from '../agent/ask-actions.ts'
import type { MemberSummary } from '../agent/members.ts'
import { Answer, type ShownMessage } from './answer.ts'
import { receivedFile } from './received-files.ts'
import { type Arguments, inputOf } from './schema.ts'
import type { SeenAnswer, Session } from './session.ts'
import {
  type Call,
  CHANNEL,
  channelOf,
  FLAG,
  listOf,
  LONGEST_WAIT,
  outputOf,
  payloadOf,
  TEXT,
  type Tool,
  WAIT,
} from './tool.ts'

/** The limit of a request and of an answer, in bytes. */
const MOST_BYTES = 262_080
/** The time that members have to answer, in seconds: models and people take long. */
const LIFETIME = 3600
const LONGEST_LIFETIME = 604_800
/** The number of missing members that a result names. */
const MOST_MISSING = 20
const MS = 1000

/** Described by `receive`: models pay for each byte. */
const LIST = { type: 'array' } as const
const MISSING = listOf({ identity: TEXT, agent_id: TEXT })

const ask: Tool = {
  name: 'ask',
  description: `Ask a member (\`to\`: identity, fingerprint or agent_id), or all, and wait up to \`wait\` s (default ${LONGEST_WAIT}) for \`answers\`: like the entries of receive, what other agents wrote. \`open\`: more may come, until \`expires\` s after asking (default ${LIFETIME}); call ask again with \`request\` instead of \`text\`. \`missing\`: who has not answered.`,
  inputSchema: inputOf(
    {
      channel: CHANNEL,
      text: TEXT,
      to: TEXT,
      expires: { type: 'integer', minimum: 1, maximum: LONGEST_LIFETIME },
      request: TEXT,
      wait: WAIT,
    },
    'channel',
  ),
  outputSchema: outputOf({
    request: TEXT,
    open: FLAG,
    senders: LIST,
    answers: LIST,
    more: FLAG,
    missing: MISSING,
  }),
  annotations: { destructiveHint: false },
  run: async (args, call) => {
    const channel = channelOf(args)
    const question = args['request'] === undefined ? payloadOf(args, MOST_BYTES) : undefined
    if (args['request'] !== undefined) checkNoQuestion(args)
    await settleSeen(call)
    const { session, signal } = call
    if (!question) return await gathered(call, channel, String(args['request']), args)
    const member = String(args['to'] ?? '')
    if (args['to'] === '') throw StaticError.of('invalid_request', '`to` is empty. Leave it out to ask all members.')
    const lifetime = Number(args['expires'] ?? LIFETIME)
    const id = await session.use((agent) => {
      return agent.call('ask', channel, question.toString('base64'), member, lifetime)
    })
    // The host does not know its id, so it could never get the answers.
    const cancel = (): void => void session.use((agent) => agent.call('cancelAsk', channel, id)).catch(() => {})
    signal.addEventListener('abort', cancel)
    if (signal.aborted) cancel()
    try {
      return await gathered(call, channel, id, args)
    } finally {
      signal.removeEventListener('abort', cancel)
    }
  },
}

const answer: Tool = {
  name: 'answer',
  description:
    'Answer a request: an entry of receive with `request`. Done once the relay has stored it. Once per request, before `until`.',
  inputSchema: inputOf({ channel: CHANNEL, request: TEXT, text: TEXT }, 'channel', 'request', 'text'),
  outputSchema: outputOf({ answered: FLAG }),
  annotations: { destructiveHint: false },
  run: async (args, { session, signal }) => {
    const channel = channelOf(args)
    const payload = payloadOf(args, MOST_BYTES)
    const mailbox = await session.mailbox()
    const limit = AbortSignal.any([signal, AbortSignal.timeout(LONGEST_WAIT * MS)])
    await mailbox.requests.answer(channel, String(args['request']), payload, limit)
    return { answered: true }
  },
}

/** Ordered as in the list. */
export const ASK_TOOLS: readonly Tool[] = [ask, answer]

/** A request that exists cannot be changed. */
function checkNoQuestion(args: Arguments): void {
  const given = ['text', 'to', 'expires'].find((name) => args[name] !== undefined)
  if (given === undefined) return
  throw StaticError.of('invalid_request', `\`${given}\` cannot be used with \`request\`, which continues a request.`)
}

/** Settles the answers that the host has seen. */
async function settleSeen({ session, request }: Call): Promise<void> {
  const seen = Map.groupBy(session.answers.seenBefore(request), ({ channel, request: id }) => `${channel} ${id}`)
  for (const [first, ...others] of seen.values()) {
    if (!first) continue
    const places = [first, ...others].map(({ place }) => place)
    await settle(session, first, places)
  }
}

async function settle(session: Session, { channel, request }: SeenAnswer, places: readonly string[]): Promise<void> {
  try {
    await session.use((agent) => agent.call('settleAnswers', channel, request, places))
  } catch {
    // The agent has left the channel, and with it the request.
  }
}

async function gathered(
  { session, dataDir, request, signal }: Call,
  channel: string,
  id: string,
  args: Arguments,
): Promise<Readonly<Record<string, unknown>>> {
  const wait = Number(args['wait'] ?? LONGEST_WAIT)
  const { answers, over, missing } = await session.use((agent) => agent.call('gather', channel, id, wait))
  const shown = new Answer((message, payload, isText) => receivedFile(dataDir, message, payload, isText))
  const fitting = answers.findIndex((each) => !shown.add({ channel, message: messageOf(channel, each) }))
  const given = fitting < 0 ? answers : answers.slice(0, fitting)
  if (!signal.aborted) {
    session.answers.give(
      request,
      given.map((each) => ({ channel, request: id, place: placeOf(each) })),
    )
  }
  const { senders, channels, more } = shown.result
  return {
    request: id,
    open: !over,
    senders,
    answers: channels.flatMap(({ entries }) => entries),
    more,
    missing: namesOf(missing),
  }
}

/** An answer as a message for the host. */
function messageOf(channel: string, { payload = '', error, ...fields }: AnswerSummary): ShownMessage {
  const failure = error && `${error.code}: ${error.message}`
  return { ...fields, channel, epoch: 0, redelivered: false, payload, ...(failure !== undefined && { failure }) }
}

/** Members by name, not more than a result should have. */
export function namesOf(
  members: readonly Pick<MemberSummary, 'identity' | 'agent_id'>[],
): readonly { readonly identity: string; readonly agent_id: string }[] {
  return members
    .slice(0, MOST_MISSING)
    .map(({ identity, agent_id: id }) => ({ identity: shownIdentity(identity), agent_id: id }))
}
