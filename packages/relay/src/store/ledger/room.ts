/**
 * Room for entries: what a channel holds against its own limit and the disk of its owner's account, when its senders are
 * asked to slow down, and what a full channel may let go. What a sender holds itself counts for a third more, and so does
 * what a channel holds of its account: alone it fills three quarters, and `k` that take all they can leave `1 / (1 + 3k)`
 * of the room to the others.
 */
import type { Done, Laggard, Pressure, Refusal, StoreRequest } from '../../ports.ts'
import { type Context, touch } from './context.ts'
import {
  type Channel,
  type Holdings,
  type Lag,
  type Member,
  type Sender,
  isConfirmed,
  roster,
  unawaited,
} from './state.ts'

/** What counts again of a sender's own entries in its channel, and of a channel in its account. */
const OWN_WEIGHT = 1 / 3
/** What is let go of a full channel beyond need, so that the next message does not meet the same. */
const SLACK = 1 / 16
/** What the disk of an account has beyond its limit, for commits that a full channel takes. */
const RESERVE = 1 / 8
/** From this level on senders slow down and hear who lags. */
const PRESSING = 3 / 4
/** Between two messages of a sender in a channel that is all but full. Ten a second always pass. */
const MAX_WAIT_MS = 100
/** Members that an answer names. */
const MAX_NAMED = 8

/** One limit, and what is held against it. */
interface Gauge {
  readonly of: 'bytes' | 'entries' | 'disk'
  readonly held: number
  readonly limit: number
  /** What some entries count for in it. */
  readonly weigh: (found: Holdings) => number
}

/** Counts what a channel holds more, or less, for it and for its account. */
export function hold(context: Context, channel: Channel, bytes: number): void {
  // First: what it has summed up must be from before the change.
  const account = context.rows.account(channel.account)
  account.bytes += bytes
  channel.bytes += bytes
  touch(context, channel)
}

/** What a plan allows, as the API has told. What it told before does not come back. */
export function allot({ rows }: Context, { account, channelBytes, accountBytes, at }: StoreRequest<'allot'>): Done {
  const record = rows.account(account)
  const isSame = channelBytes === record.channelBytes && accountBytes === record.accountBytes
  if (isSame || at < record.toldAt) return { done: true }
  Object.assign(record, { channelBytes, accountBytes, toldAt: at })
  rows.putAllotment(record)
  return { done: true }
}

/**
 * Up to which index a channel must be cut so that an entry has room; the base when there is room already. Refuses with
 * `queue_full` when what may be let go is not enough. Changes nothing. Without a sender its share is not looked at.
 */
export function findRoom(
  context: Context,
  channel: Channel,
  sender: Sender | undefined,
  size: number,
): number | Refusal {
  const base = channel.base.index
  const gauges = gaugesOf(context, channel, sender, size).filter(({ held, limit }) => held > limit)
  const [first] = gauges
  if (!first) return base

  const { reach } = (channel.lag ??= findLag(channel))
  const owner = sender ?? channel
  const stuck = owner.stuck?.base === base && owner.stuck.reach <= reach ? owner.stuck : undefined
  // What an earlier search looked at is not enough: this one goes on behind it.
  const known = stuck && !isEnough(stuck.found, gauges) ? stuck : undefined
  const found: Holdings = known ? { ...known.found } : { bytes: 0, entries: 0, ownBytes: 0, ownEntries: 0 }
  const free = unawaited(channel)
  let through = known?.reach ?? base
  let slack = false
  for (const { index, size: held, sender: agent } of context.rows.weights(channel, through, reach)) {
    if (index > free) {
      if (isEnough(found, gauges, slack)) break
      slack = true
    }
    through = index
    found.bytes += held
    found.entries += 1
    if (agent !== sender?.agent) continue
    found.ownBytes += held
    found.ownEntries += 1
  }
  if (isEnough(found, gauges)) return through
  owner.stuck = { base, reach, found }
  return { refused: 'queue_full', message: fullText(channel, sender, first), lagging: blocking(channel) }
}

/**
 * Whether there is room for what a full channel takes, too: the disk of an account has a reserve for it, so that its owner
 * can remove whoever does not read, and fills the relay's disk by no means.
 */
export function hasReserve({ rows, retention }: Context, channel: Channel, size: number): boolean {
  return rows.account(channel.account).bytes + size <= (1 + RESERVE) * retention.accountBytes
}

/** Whom a channel waits for and how long its sender should, once it is three quarters full; undefined before. */
export function pressureOn(context: Context, channel: Channel, sender: Sender): Pressure | undefined {
  const level = Math.max(...gaugesOf(context, channel, sender, 0).map(({ held, limit }) => held / limit))
  if (level < PRESSING) return undefined
  const rise = (Math.min(1, level) - PRESSING) / (1 - PRESSING)
  const { order } = (channel.lag ??= findLag(channel))
  const half = (channel.base.index + channel.last.index) / 2
  const lagging = order.filter(({ cursor }) => cursor.index < half)
  return { waitMs: Math.max(1, Math.ceil(MAX_WAIT_MS * rise)), lagging: named(channel, lagging) }
}

/** Every limit of a channel, with what would be held after one more entry of a size; of none, as it is. */
function gaugesOf(context: Context, channel: Channel, sender: Sender | undefined, size: number): Gauge[] {
  const { retention, rows } = context
  const account = rows.account(channel.account)
  const entries = channel.last.index - channel.base.index
  const more = size > 0 ? 1 : 0
  const own = sender ? OWN_WEIGHT : 0
  return [
    {
      of: 'bytes',
      held: channel.bytes + size + own * ((sender?.bytes ?? 0) + size),
      // By the plan, and no more than the relay is set to.
      limit: Math.min(account.channelBytes ?? Infinity, retention.channelBytes),
      weigh: ({ bytes, ownBytes }) => bytes + own * ownBytes,
    },
    {
      of: 'entries',
      held: entries + more + own * ((sender?.entries ?? 0) + more),
      limit: retention.channelEntries,
      weigh: (found) => found.entries + own * found.ownEntries,
    },
    {
      of: 'disk',
      held: account.bytes + size + OWN_WEIGHT * (channel.bytes + size),
      limit: Math.min(account.accountBytes ?? Infinity, retention.accountBytes),
      weigh: ({ bytes }) => bytes * (1 + OWN_WEIGHT),
    },
  ]
}

function isEnough(found: Holdings, gauges: readonly Gauge[], slack = false): boolean {
  return gauges.every(({ held, limit, weigh }) => weigh(found) >= held - limit + (slack ? SLACK * limit : 0))
}

/**
 * How far a full channel may be cut: entries up to there are waited for by fewer than half of the confirmed members. Only
 * those count, because made-up members that acknowledge nothing would keep it full. But one member, the owner or another,
 * never does: among three or more, what a single confirmed one waits for goes as far as another has it.
 */
function findLag(channel: Channel): Lag {
  const order = roster(channel).sort(byCursor)
  const confirmed = order.filter((member) => isConfirmed(member, channel.ownerCommit))
  const waiting = Math.max(Math.ceil(confirmed.length / 2) - 1, order.length > 2 ? 1 : 0)
  const next = confirmed[waiting] ?? order.at(-1)
  return { reach: next?.cursor.index ?? channel.base.index, order }
}

function byCursor(one: Member, other: Member): number {
  return one.cursor.index - other.cursor.index || (one.agent < other.agent ? -1 : 1)
}

/** Those that must read on before a full channel takes anything. */
function blocking(channel: Channel): readonly Laggard[] {
  const { reach, order } = (channel.lag ??= findLag(channel))
  return named(
    channel,
    order.filter(({ cursor }) => cursor.index <= reach),
  )
}

function named(channel: Channel, members: readonly Member[]): readonly Laggard[] {
  return members.slice(0, MAX_NAMED).map(({ agent, cursor }) => ({ agent, waiting: channel.last.index - cursor.index }))
}

function fullText(channel: Channel, sender: Sender | undefined, { of, limit }: Gauge): string {
  const what = `Members have not fetched their messages. Retry once they have, or let the owner remove them.`
  if (of === 'disk') {
    return `The disk of the owner's account is full: all its channels together may hold ${limit} bytes, and this one holds ${channel.bytes}. ${what} Or delete a channel, or choose a larger plan.`
  }
  const bytes = of === 'bytes'
  const all = bytes ? channel.bytes : channel.last.index - channel.base.index
  const own = sender ? ` (${bytes ? sender.bytes : sender.entries} of this sender, which count a third more)` : ''
  return `The channel is full: it holds ${all} of ${limit} ${of}${own}. ${what}`
}
