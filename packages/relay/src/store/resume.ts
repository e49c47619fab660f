/** Resume and Ack: where an agent stands, and what it has. */
import type { AgentId, ChannelId, Done, Request, Result, Standing, StoredWelcome } from '../ports.ts'
import { type Context, touchMember } from './context.ts'
import { positionAt } from './log.ts'
import { letGo } from './retention.ts'
import type { Channel, Member } from './state.ts'

const MAX_WELCOME_BYTES = 4_194_304
const WELCOME_OVERHEAD = 500

/** Where an agent stands in its channels, and the Welcomes that wait for it. */
export function resume({ rows }: Context, { agent, channels }: Request<'resume'>): Result<'resume'> {
  const held = rows.channelsOf(agent)
  return {
    standings: (channels ?? held).map((id) => standing(rows.channel(id), id, agent)),
    welcomes: firstOf(rows.welcomesOf(agent)),
    member: held.length > 0,
  }
}

/** As many as a session can take at once: anybody may add any agent, so many can wait. The rest comes another time. */
function firstOf(welcomes: Iterable<StoredWelcome>): StoredWelcome[] {
  const taken: StoredWelcome[] = []
  let bytes = 0
  for (const welcome of welcomes) {
    taken.push(welcome)
    bytes += welcome.welcome.length + WELCOME_OVERHEAD
    if (bytes > MAX_WELCOME_BYTES) break
  }
  return taken
}

function standing(channel: Channel | undefined, id: ChannelId, agent: AgentId): Result<'resume'>['standings'][number] {
  const member = channel?.members.get(agent)
  if (!channel || !member) return { channel: id, refused: 'not_found' }
  const { ended, cursor } = member
  if (ended && cursor.index >= ended.position.index) return { channel: id, refused: 'removed' }
  return describe(channel, member)
}

function describe(channel: Channel, { agent, ended, cursor }: Member): Standing {
  const sender = channel.senders.get(agent)
  const end = ended?.position ?? channel.last
  return {
    channel: channel.id,
    name: channel.name,
    owner: channel.owner,
    head: end.slot,
    lastIndex: end.index,
    lastCounter: sender?.counter ?? 0,
    cursor,
    barred: sender?.barred ?? false,
    guestLimit: channel.guestLimit,
    payer: channel.account,
    removed: ended !== undefined,
  }
}

/** Moves an agent's cursors forward and forgets the Welcomes that it has used. */
export function ack(context: Context, { agent, positions }: Request<'ack'>): Done {
  for (const { channel: id, index } of positions) {
    const channel = context.rows.channel(id)
    const member = channel?.members.get(agent)
    if (!channel || !member) continue
    if (member.welcome !== undefined && index >= member.welcome) {
      context.rows.dropWelcome(channel, agent)
      member.welcome = undefined
      touchMember(context, channel, member)
    }
    moveCursor(context, channel, member, index)
  }
  return { done: true }
}

function moveCursor(context: Context, channel: Channel, member: Member, index: number): void {
  const before = member.cursor.index
  const end = member.ended?.position ?? channel.last
  const target = Math.min(index, end.index)
  if (target <= before) return
  // Inside of what was let go meanwhile the position is not known any more. The cursor stays: at the base it would
  // hide the rest of the gap from the agent.
  const position = target === end.index ? end : positionAt(context, channel, target)
  if (!position) return
  member.cursor = position
  touchMember(context, channel, member)
  if (!member.ended && before <= channel.acked) letGo(context, channel)
}
