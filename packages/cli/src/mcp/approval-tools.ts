/**
 * The tool that asks people before a model acts. There is none that decides, or shows a model what others ask: models do
 * not decide.
 */
import { StaticError } from '@static/protocol'
import type { ApprovalProgress } from '../agent/approval-actions.ts'
import { runBy } from '../agent/members.ts'
import { type Arguments, inputOf } from './schema.ts'
import { type Call, CHANNEL, channelOf, INTEGER, LONGEST_WAIT, TEXT, type Tool } from './tool.ts'

/** How long people have, in seconds. */
const TIMEOUT = 900
const ID = /^[0-9a-f]{64}$/
const MS = 1000

export const requestApproval: Tool = {
  name: 'request_approval',
  description: `Ask people before you act, waiting up to ${LONGEST_WAIT} s. \`action\`: exactly what you will execute; \`from\`: who decides, separated by commas; \`need\`: how many of them. Only \`decision\` "approved" is permission, to execute the returned \`action\` once. "pending": call again with \`approval\` alone.`,
  inputSchema: inputOf(
    {
      channel: CHANNEL,
      title: TEXT,
      text: TEXT,
      risk: TEXT,
      action: TEXT,
      from: TEXT,
      need: INTEGER,
      timeout: INTEGER,
      approval: TEXT,
    },
    'channel',
  ),
  outputSchema: {
    type: 'object',
    properties: {
      approval: TEXT,
      decision: { enum: ['pending', 'approved', 'denied', 'expired'] },
      by: { type: 'array' },
      action: TEXT,
    },
    required: ['decision'],
  },
  annotations: { destructiveHint: false },
  run: async (args, call) => {
    const channel = channelOf(args)
    const id = args['approval'] === undefined ? await asked(args, channel, call) : knownId(args)
    const over = await followed(channel, id, call)
    if (!over) return { approval: id, decision: 'pending' }
    const { decision, by, action } = over
    return {
      approval: id,
      decision,
      by: by.map(({ member: { name, fingerprint, proof }, attended }) => ({
        identity: name,
        fingerprint,
        ...runBy(proof),
        attended,
      })),
      ...(action !== undefined && { action: Buffer.from(action, 'base64').toString() }),
    }
  },
}

function knownId(args: Arguments): string {
  const { channel: _channel, approval, ...rest } = args
  const [other] = Object.keys(rest)
  if (other !== undefined)
    throw StaticError.of('invalid_request', `\`approval\` goes on with a request, so \`${other}\` cannot be given.`)
  if (ID.test(String(approval))) return String(approval)
  throw StaticError.of('invalid_request', '`approval` must be that of an earlier result: 64 hexadecimal digits.')
}

async function asked(args: Arguments, channel: string, { session }: Call): Promise<string> {
  const missing = ['title', 'action', 'from', 'need'].find((name) => args[name] === undefined)
  if (missing !== undefined) throw StaticError.of('invalid_request', `\`${missing}\` is required.`)
  const from = String(args['from'])
    .split(',')
    .map((word) => word.trim())
  const [title, text, risk] = [args['title'], args['text'] ?? '', args['risk'] ?? ''].map(String)
  const action = Buffer.from(String(args['action'])).toString('base64')
  const [need, timeout] = [Number(args['need']), Number(args['timeout'] ?? TIMEOUT)]
  return await session.use((agent) =>
    agent.call('startApproval', channel, title ?? '', text ?? '', risk ?? '', action, from, need, timeout),
  )
}

/** The end of a request; undefined if there is none for as long as hosts wait. */
async function followed(channel: string, id: string, { session, signal }: Call): Promise<ApprovalProgress['over']> {
  const until = performance.now() + LONGEST_WAIT * MS
  for (let known = 0; ;) {
    const seconds = (until - performance.now()) / MS
    if (seconds <= 0 || signal.aborted) return undefined
    const from = known
    const { decisions, over } = await session.use((agent) =>
      agent.call('followApproval', channel, id, from, Math.min(seconds, 5)),
    )
    if (over) return over
    known = decisions.length
  }
}
