/** Resume, Welcomes and Ack: an agent's standings, its pending Welcomes, and its cursors. */
import type { AgentId, ChannelId, Done, StoreRequest, StoreResult, Standing, StoredWelcome } from '../../../ports.ts'
import { type Context, touchMember } from '../context.ts'
import { positionAt } from './log.ts'
import { letGo } from '../room/retention.ts'
import { readableStay } from '../members/roster.ts'
import type { Glance } from '../rows/channels.ts'
import type { Rows } from '../rows/rows.ts'
import { WELCOME_OVERHEAD } from '../rows/welcomes.ts'
import { type Channel, type Member, findMember, isUnwelcomed, onRoster } from '../state.ts'
import { dropWelcome } from '../members/welcomes.ts'

/** An agent's standings in its channels. */
export function resume({ rows }: Context, request: StoreRequest<'resume'>): StoreResult<'resume'> {
  const { agent, channels, after, limit, receipts = 0 } = request
  const found = channels ?? rows.channels.of(agent, after, limit + 1)
  const asked = channels ?? found.slice(0, limit)
  return {
    standings: asked.map((id) => standing(rows, id, agent, receipts)),
    more: found.length > asked.length,
    member: rows.channels.of(agent, undefined, 1).length > 0,
  }
}

function standing(
  rows: Rows,
  id: ChannelId,
  agent: AgentId,
  receipts: number,
): StoreResult<'resume'>['standings'][number] {
  const glance = rows.channels.glance(id, agent)
  const member = glance && stayOf(rows, id, glance.member)
  if (!glance || !member) return { channel: id, refused: 'not_found' }
  const { ended, cursor } = member
  // It has read everything it may see; dropped entries would show as a gap first.
  if (ended && cursor.index >= ended.position.index) return { channel: id, refused: 'removed' }
  // A removed member gets no receipts: it cannot tell which senders are still members.
  const standing = describe({ ...glance, member })
  return receipts > 0 && !ended ? { ...standing, receipts: rows.channels.receipts(id, agent, receipts) } : standing
}

/** Loads the rest of the channel only for an agent that was added without a Welcome. */
function stayOf(rows: Rows, id: ChannelId, member: Member): Member | undefined {
  if (!isUnwelcomed(member)) return member
  const channel = rows.channels.get(id)
  return channel && readableStay(rows, channel, member)
}

function describe({ channel, member: { ended, cursor, from, welcome }, sender }: Glance): Standing {
  const end = ended?.position ?? channel.last
  return {
    channel: channel.id,
    name: channel.name,
    owner: channel.owner,
    head: end.slot,
    lastIndex: end.index,
    lastCounter: sender?.counter ?? 0,
    cursor,
    addedIndex: from,
    welcome: welcome !== undefined,
    barred: sender?.barred ?? false,
    guestLimit: channel.guestLimit,
    payer: channel.account,
    removed: ended !== undefined,
  }
}

/** The Welcomes pending for an agent, up to `maxBytes` but at least one. */
export function welcomes(
  { rows }: Context,
  { agent, after, maxBytes }: StoreRequest<'welcomes'>,
): StoreResult<'welcomes'> {
  const taken: StoredWelcome[] = []
  let bytes = 0
  for (const { sequence, size } of rows.welcomes.of(agent, after)) {
    bytes += size + WELCOME_OVERHEAD
    if (taken.length > 0 && bytes > maxBytes) return { welcomes: taken, more: true }
    taken.push(rows.welcomes.get(sequence))
  }
  return { welcomes: taken, more: false }
}

/** Advances an agent's cursors, keeps its receipts, and deletes the Welcomes that it has used. */
export function ack(context: Context, { agent, positions }: StoreRequest<'ack'>): Done {
  for (const { channel: id, index, from, receipt } of positions) {
    const channel = context.rows.channels.get(id)
    const member = channel && findMember(channel, agent)
    if (!channel || !member || isUnwelcomed(member)) continue
    // It has returned to an earlier membership, of which it has read less.
    if (from !== undefined && from !== member.from) continue
    if (member.welcome !== undefined && index >= member.welcome) {
      dropWelcome(context, channel, agent)
      member.welcome = undefined
      touchMember(context, channel, member)
      if (member.earlier !== undefined) {
        member.earlier = undefined
        letGo(context, channel)
      }
    }
    moveCursor(context, channel, member, index)
    if (receipt && onRoster(member)) {
      // Copied: the bytes are a view of a whole batch.
      member.receipt = Uint8Array.from(receipt)
      touchMember(context, channel, member)
    }
    context.rows.settle()
  }
  return { done: true }
}

function moveCursor(context: Context, channel: Channel, member: Member, index: number): void {
  const before = member.cursor.index
  const end = member.ended?.position ?? channel.last
  const target = Math.min(index, end.index)
  if (target <= before) return
  // If the entry was dropped in the meantime, its position is no longer known. The cursor stays: moving it to the base
  // would hide the rest of the gap from the agent.
  const position = target === end.index ? end : positionAt(context, channel, target)
  if (!position) return
  member.cursor = position
  channel.lag = undefined
  touchMember(context, channel, member)
  if (member.ended) channel.awaited = undefined
  if (member.ended || before <= channel.acked) letGo(context, channel)
}
