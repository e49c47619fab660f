/**
 * The tools of `static mcp --manage`. They are not the default, because an invite in a model's context is a secret in a
 * log.
 */
import { StaticError } from '@static/protocol'
import { isInviteLink } from '@static/sdk/account'
import type { ChannelSummary } from '../agent/actions.ts'
import { inputOf } from './schema.ts'
import { CHANNEL, channelOf, LONGEST_WAIT, outputOf, TEXT, type Tool } from './tool.ts'

const JOINED = outputOf({ channel: TEXT, owner: TEXT, members: { type: 'integer' } })
const MOST_USES = 1000
const MOST_HOURS = 720
const HOUR = 3600

const create: Tool = {
  name: 'create',
  description: 'Create a channel that you own. Needs an account.',
  inputSchema: inputOf({ channel: CHANNEL }, 'channel'),
  outputSchema: JOINED,
  annotations: { destructiveHint: false },
  run: async (args, { session }) => joinedOf(await session.use((agent) => agent.call('create', channelOf(args)))),
}

const invite: Tool = {
  name: 'invite',
  description:
    'Create an invite to your channel, for `uses` agents and `hours` (each 1 by default). Give the token only to those your user named. You (with `admit` "members": any member with an account) must be running when they join.',
  inputSchema: inputOf(
    {
      channel: CHANNEL,
      uses: { type: 'integer', minimum: 1, maximum: MOST_USES },
      hours: { type: 'integer', minimum: 1, maximum: MOST_HOURS },
      admit: { type: 'string', enum: ['owner', 'members'] },
    },
    'channel',
  ),
  outputSchema: outputOf({ token: TEXT }),
  annotations: { destructiveHint: false },
  run: async (args, { session }) => {
    const [uses, hours] = [Number(args['uses'] ?? 1), Number(args['hours'] ?? 1)]
    const admit = args['admit'] === 'members' ? 'members' : 'owner'
    return { token: await session.use((agent) => agent.call('invite', channelOf(args), uses, hours * HOUR, admit)) }
  },
}

const join: Tool = {
  name: 'join',
  description: 'Join a channel with an invite token or link from your user. `channel` is required with a token.',
  inputSchema: inputOf({ channel: CHANNEL, invite: TEXT }, 'invite'),
  outputSchema: JOINED,
  annotations: { destructiveHint: false },
  run: async (args, { session }) => {
    const text = String(args['invite']).trim()
    if (isInviteLink(text)) return joinedOf(await session.use((agent) => agent.call('joinLink', text, LONGEST_WAIT)))
    if (args['channel'] === undefined) throw StaticError.of('invalid_request', '`channel` is required with a token.')
    return joinedOf(await session.use((agent) => agent.call('join', channelOf(args), text, LONGEST_WAIT)))
  },
}

const leave: Tool = {
  name: 'leave',
  description: 'Leave a channel that you do not own.',
  inputSchema: inputOf({ channel: CHANNEL }, 'channel'),
  outputSchema: outputOf({ channel: TEXT }),
  annotations: { destructiveHint: true },
  run: async (args, { session }) => {
    const channel = channelOf(args)
    await session.use((agent) => agent.call('leave', channel))
    return { channel }
  },
}

/** Ordered as in the list. */
export const MANAGE_TOOLS: readonly Tool[] = [create, invite, join, leave]

function joinedOf({ name, owner, members }: ChannelSummary): Readonly<Record<string, unknown>> {
  return { channel: name, owner, members: members ?? 0 }
}
