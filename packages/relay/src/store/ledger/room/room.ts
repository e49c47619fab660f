/**
 * Room for entries: how full a channel is against its own limits and the disk of its owner's account, when senders must
 * slow down, and which entries a full channel may drop. A sender's own entries count a third more, and so does a
 * channel within its account: one alone can fill three quarters, and `k` that take all they can leave `1 / (1 + 3k)` of
 * the room for the others.
 */
import type { Account, AgentId, Done, Laggard, Pressure, Refusal, StoreRequest } from '../../../ports.ts'
import { type Context, touch } from '../context.ts'
import {
  type AccountRecord,
  type Channel,
  type Holdings,
  type Lag,
  type Member,
  type Sender,
  isVouched,
  roster,
  unawaited,
} from '../state.ts'

/** Extra weight of a sender's own entries in its channel, and of a channel in its account. */
const OWN_WEIGHT = 1 / 3
/**
 * Share of the limit that a full channel drops beyond what is needed, so that the next message need not drop entries
 * again.
 */
const SLACK = 1 / 16
/** Share of an account's disk limit reserved beyond it, for commits that a full channel must accept. */
const RESERVE = 1 / 8
/** From this level on, senders must slow down, and answers name lagging members. */
const PRESSING = 3 / 4
/** Pause between two messages of a sender in a nearly full channel. Ten messages a second are always possible. */
const MAX_WAIT_MS = 100
/** Maximum number of lagging members named in an answer. */
const MAX_NAMED = 8
/**
 * Maximum number of entries that one search for room visits, because other operations wait for it. Even if they are
 * empty, dropping that many makes room for the largest message.
 */
const MAX_VISITED = 4096

/** One limit, and how much of it is used. */
interface Gauge {
  readonly of: 'bytes' | 'entries' | 'disk'
  readonly held: number
  readonly limit: number
  /** How much some entries count towards it. */
  readonly weigh: (found: Holdings) => number
}

/** Adds to the size of a channel and of its account; `bytes` may be negative. */
export function hold(context: Context, channel: Channel, bytes: number): void {
  // Must come first: loading the account sums up its channels, and that must not include this change yet.
  const account = context.rows.accounts.get(channel.account)
  account.bytes += bytes
  channel.bytes += bytes
  touch(context, channel)
}

/** Stores the limits of a plan as reported by the API. Ignores a report older than the stored one. */
export function allot(
  { rows }: Context,
  { account, channelBytes, accountBytes, fileBytes, at }: StoreRequest<'allot'>,
): Done {
  const record = rows.accounts.get(account)
  const isSame =
    channelBytes === record.channelBytes && accountBytes === record.accountBytes && fileBytes === record.fileBytes
  if (isSame || at < record.reportedAt) return { done: true }
  Object.assign(record, { channelBytes, accountBytes, fileBytes, reportedAt: at })
  rows.accounts.put(record)
  return { done: true }
}

/**
 * The index up to which a channel must be cut to make room for an entry; the base if there already is room. Refuses
 * with `queue_full` if the entries that may be dropped are not enough, or if it must continue in the next call because
 * it has visited its maximum. Changes nothing that is stored. Without a sender, no share is checked.
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

  const { reach: lagReach } = (channel.lag ??= findLag(channel))
  const kept = keptForOwner(context, channel)
  const reach = Math.min(lagReach, kept - 1)
  const searcher = sender ?? channel
  const stuck = searcher.stuck && searcher.stuck.through <= reach ? searcher.stuck : undefined
  // The range of an earlier search was not enough: continue after it.
  const known = stuck && !isEnough(stuck.found, gauges) ? stuck : undefined
  const found: Holdings = known ? { ...known.found } : { bytes: 0, entries: 0, ownBytes: 0, ownEntries: 0 }
  const free = unawaited(channel)
  let through = known?.through ?? base
  let slack = false
  let visited = 0
  for (const { index, size: held, sender: agent } of context.rows.log.weights(channel, through, reach)) {
    if (index > free) {
      if (isEnough(found, gauges, slack)) break
      slack = true
    }
    if (visited++ === MAX_VISITED) break
    through = index
    found.bytes += held
    found.entries += 1
    if (agent !== sender?.agent) continue
    found.ownBytes += held
    found.ownEntries += 1
  }
  if (isEnough(found, gauges)) return through
  searcher.stuck = { through, found }
  const isKept = kept <= lagReach
  return {
    refused: 'queue_full',
    message: fullText(channel, sender, first, isKept),
    lagging: blocking(channel, isKept),
  }
}

/**
 * Must be called when the log is cut: subtracts the dropped entries, so that earlier searches stay valid. Otherwise,
 * while a member acknowledges little by little, every refused message would search all entries again.
 */
export function keepSearches(
  channel: Channel,
  through: number,
  dropped: ReadonlyMap<AgentId, Pick<Holdings, 'bytes' | 'entries'>>,
): void {
  let [bytes, entries] = [0, 0]
  for (const each of dropped.values()) {
    bytes += each.bytes
    entries += each.entries
  }
  const owners: (Channel | Sender)[] = [channel, ...channel.senders.values()]
  for (const owner of owners) {
    if (!owner.stuck) continue
    if (owner.stuck.through <= through) {
      delete owner.stuck
      continue
    }
    const { found } = owner.stuck
    const own = 'agent' in owner ? dropped.get(owner.agent) : undefined
    owner.stuck = {
      through: owner.stuck.through,
      found: {
        bytes: found.bytes - bytes,
        entries: found.entries - entries,
        ownBytes: found.ownBytes - (own?.bytes ?? 0),
        ownEntries: found.ownEntries - (own?.entries ?? 0),
      },
    }
  }
}

/**
 * Whether there is room for an entry that even a full channel accepts. The account's disk has a limited reserve for
 * such entries, so that the owner can remove members that do not read, but cannot fill the relay's disk.
 */
export function hasReserve(context: Context, channel: Channel, size: number): boolean {
  const account = context.rows.accounts.get(channel.account)
  return account.bytes + size <= (1 + RESERVE) * diskLimit(context, account)
}

/** Whether an account has room for so many bytes more. */
export function hasRoom(context: Pick<Context, 'rows' | 'retention'>, account: Account, bytes: number): boolean {
  const record = context.rows.accounts.get(account)
  return record.bytes + bytes <= diskLimit(context, record)
}

/** The plan's limit for all channels of an account, capped by the relay's own. */
function diskLimit({ retention }: Pick<Context, 'retention'>, { accountBytes }: AccountRecord): number {
  return Math.min(accountBytes ?? Infinity, retention.accountBytes)
}

/** Which members lag and how long the sender should wait, once a channel is three quarters full; undefined before. */
export function pressureOn(context: Context, channel: Channel, sender: Sender): Pressure | undefined {
  const level = Math.max(...gaugesOf(context, channel, sender, 0).map(({ held, limit }) => held / limit))
  if (level < PRESSING) return undefined
  const rise = (Math.min(1, level) - PRESSING) / (1 - PRESSING)
  const { order } = (channel.lag ??= findLag(channel))
  const half = (channel.base.index + channel.last.index) / 2
  const lagging = order.filter(({ cursor }) => cursor.index < half)
  return { waitMs: Math.max(1, Math.ceil(MAX_WAIT_MS * rise)), lagging: named(channel, lagging) }
}

/** Every limit of a channel, with its use after one more entry of `size`, or its current use if `size` is 0. */
function gaugesOf(context: Context, channel: Channel, sender: Sender | undefined, size: number): Gauge[] {
  const { retention, rows } = context
  const account = rows.accounts.get(channel.account)
  const entries = channel.last.index - channel.base.index
  const more = size > 0 ? 1 : 0
  const own = sender ? OWN_WEIGHT : 0
  return [
    {
      of: 'bytes',
      held: channel.bytes + size + own * ((sender?.bytes ?? 0) + size),
      // The plan's limit, capped by the relay's own.
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
      limit: diskLimit(context, account),
      weigh: ({ bytes }) => bytes * (1 + OWN_WEIGHT),
    },
  ]
}

function isEnough(found: Holdings, gauges: readonly Gauge[], slack = false): boolean {
  return gauges.every(({ held, limit, weigh }) => weigh(found) >= held - limit + (slack ? SLACK * limit : 0))
}

/**
 * How far a full channel may be cut. Only members that the owner vouches for count, because anyone can bring in members
 * that acknowledge nothing, or everything. Among three or more, entries are dropped that fewer than half of them still
 * need, or only one of them, so that one alone never keeps the channel full. Nothing that one of two needs is dropped.
 * In a channel of two, both count. A commit that the owner has not read stays (`keptForOwner`).
 */
function findLag(channel: Channel): Lag {
  const order = roster(channel).sort(byCursor)
  const audience = order.length > 2 ? order.filter(isVouched) : order
  const waiting = audience.length > 2 ? Math.max(Math.ceil(audience.length / 2) - 1, 1) : 0
  return { reach: audience[waiting]?.cursor.index ?? channel.base.index, order, audience }
}

/**
 * The index of the first commit that the owner has not read; infinite if there is none, or if the owner has lost one
 * and cannot follow the later ones anyway. A full channel keeps it until it expires: no one can add the owner again, so
 * without it the channel would lose its owner for good. Looks it up only for a cut beyond what the owner has read.
 */
function keptForOwner({ rows }: Context, channel: Channel): number {
  const { base, last, lag } = channel
  const owner = channel.members.get(channel.owner)
  if (!owner || !lag || lag.reach <= owner.cursor.index) return Infinity
  const { slot } = owner.cursor
  if (slot < base.slot || slot === last.slot) return Infinity
  return (lag.kept ??= rows.slots.get(channel, slot)?.position.index ?? base.index + 1)
}

function byCursor(one: Member, other: Member): number {
  return one.cursor.index - other.cursor.index || (one.agent < other.agent ? -1 : 1)
}

/** The members that must read before a full channel accepts anything: only the owner if a commit is kept for it. */
function blocking(channel: Channel, isKept: boolean): readonly Laggard[] {
  const { reach, audience } = (channel.lag ??= findLag(channel))
  return named(
    channel,
    audience.filter(({ agent, cursor }) => (isKept ? agent === channel.owner : cursor.index <= reach)),
  )
}

function named(channel: Channel, members: readonly Member[]): readonly Laggard[] {
  return members.slice(0, MAX_NAMED).map(({ agent, cursor }) => ({ agent, waiting: channel.last.index - cursor.index }))
}

function fullText(channel: Channel, sender: Sender | undefined, { of, limit }: Gauge, isKept: boolean): string {
  const what = isKept
    ? 'The owner has not fetched a change to the group, which is kept for it until it expires. Retry once it has.'
    : 'Members have not fetched their messages. Retry once they have, or ask the owner to remove them.'
  if (of === 'disk') {
    return `The disk of the owner's account is full: all its channels together may hold ${limit} bytes, and this one holds ${channel.bytes}. ${what} You can also delete a channel or choose a larger plan.`
  }
  const bytes = of === 'bytes'
  const all = bytes ? channel.bytes : channel.last.index - channel.base.index
  const own = sender ? ` (${bytes ? sender.bytes : sender.entries} from this sender, which count a third more)` : ''
  return `The channel is full: it holds ${all} of ${limit} ${of}${own}. ${what}`
}
