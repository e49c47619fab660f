/** Rows that a batch of calls will need: locked and read before the ledger decides, in few round trips. */
import { createHash } from 'node:crypto'
import { toHex } from '@static/protocol'
import type { Account, AgentId, ChannelId, StoreOperation, Time } from '../../ports.ts'
import type { Call } from '../call.ts'
import type { JoinKey } from '../ledger/rows/joins.ts'
import { purgeDropped } from './dropped.ts'
import type { PostgresRows } from './rows.ts'
import { LOCKS } from './schema.ts'
import { statement } from './session.ts'
import type { Acting } from './tables/channels.ts'
import type { ChannelIdKey } from './tables/ids.ts'
import type { ChannelName } from './tables/names.ts'
import { ask } from './write.ts'

export const READING: ReadonlySet<StoreOperation> = new Set<StoreOperation>([
  'read',
  'resume',
  'welcomes',
  'invite',
  'owned',
  'heads',
  'notices',
  'fileStatus',
  'admitPart',
  'findPart',
  'dueFiles',
  'knownFiles',
])
/**
 * Operations that share a transaction with no others: they access many channels, or must not see what their own
 * transaction writes.
 */
export const ALONE: ReadonlySet<StoreOperation> = new Set<StoreOperation>(['sweep', 'owned', 'notices'])

export type Append = Extract<Call, { readonly name: 'append' }>

const CHANGING_ROSTERS = new Set<StoreOperation>(['commit', 'leave', 'welcome', 'reject', 'vouch', 'resetRoster'])

const LOCK_KEYS = statement('SELECT key FROM locks WHERE key = ANY($1::int[]) ORDER BY key FOR UPDATE')

/** The rows that a batch needs. */
class Needs {
  /** Keys that are locked before the channels: for names of accounts, Welcomes of agents, and ids of new invites. */
  readonly keys = new Set<string>()
  readonly channels: ChannelId[] = []
  readonly acting: Acting[] = []
  /** Channels in which any member may change: cursors that other nodes have moved must be known. */
  readonly rosters = new Set<ChannelId>()
  readonly ids: ChannelIdKey[] = []
  /** Invites whose channels must be locked. */
  readonly invites: string[] = []
  /** Invites that are only read. */
  readonly used: string[] = []
  /** Join requests that may be answered or replaced. */
  readonly joins: JoinKey[] = []
  readonly nonces: { readonly nonce: Uint8Array; readonly until: Time }[] = []
  readonly accounts: Account[] = []
  readonly names: ChannelName[] = []
  /** Channels whose pending Welcomes may be replaced or deleted, and for whom new ones come. */
  readonly welcomed = new Map<ChannelId, AgentId[]>()
  readonly glances: { readonly ids: readonly ChannelId[]; readonly agent: AgentId; readonly receipts: number }[] = []
  readonly resets: { readonly channel: ChannelId; readonly agents: readonly AgentId[] }[] = []
  newChannels = 0
  newJoins = 0
  newWelcomes = 0
  purges = false

  add(call: Call): void {
    const { name, request } = call
    if (name === 'append' || name === 'commit') this.#send(call)
    else if (name === 'create') this.#create(request)
    else if (name === 'ack' || name === 'read') this.#position(call)
    else if (name === 'registerInvite') this.#invite(request.invite.channel, request.invite.id)
    else if (name === 'revokeInvite' || name === 'invite') this.invites.push(request.id)
    else if (name === 'answerJoin') this.#answer(request)
    else if (name === 'requestJoin') this.#join(request)
    else if (name === 'useNonce') this.nonces.push(request)
    else if (name === 'allot') this.accounts.push(request.account)
    else if (name === 'resume') this.#resume(request)
    else if (name === 'sweep') this.purges = true
    else if (name === 'beginFile') this.#file(request)
    else if ('channel' in request && request.channel !== undefined) this.channels.push(request.channel)
    if (CHANGING_ROSTERS.has(name)) this.rosters.add((request as { channel: ChannelId }).channel)
    if (name === 'welcome') this.#welcome(request.channel, [request.welcome])
    if (name === 'resetRoster') this.resets.push(request)
    if (name === 'resetRoster' || name === 'reject')
      this.welcomed.set(request.channel, this.#welcomedIn(request.channel))
  }

  #send({ name, request }: Extract<Call, { name: 'append' | 'commit' }>): void {
    const { channel, actor, messageId } = request
    this.channels.push(channel)
    const kind = name === 'append' ? 'message' : 'commit'
    this.ids.push({ channel, key: { kind, agent: actor.agent, id: messageId } })
    if (name !== 'commit') return
    this.#welcome(channel, request.welcomes)
    // It may become the channel's account: no other channel takes its name there meanwhile.
    if (actor.account && request.declaration.owner?.length) this.#owns(actor.account)
  }

  #create({ channel, name, actor: { account } }: Extract<Call, { name: 'create' }>['request']): void {
    this.channels.push(channel)
    this.names.push({ account, name })
    this.#owns(account)
    this.newChannels += 1
  }

  #owns(account: Account): void {
    this.keys.add(`account ${account.mode} ${account.id}`)
    this.accounts.push(account)
  }

  #position({ name, request }: Extract<Call, { name: 'ack' | 'read' }>): void {
    const positions = name === 'ack' ? request.positions : [request]
    for (const { channel } of positions) {
      this.channels.push(channel)
      this.acting.push({ channel, agent: request.agent })
    }
  }

  #resume({ channels = [], agent, receipts = 0 }: Extract<Call, { name: 'resume' }>['request']): void {
    this.glances.push({ ids: channels, agent, receipts })
  }

  #invite(channel: ChannelId, id: string): void {
    this.channels.push(channel)
    // Two channels have different locks, but only one of them may use this id.
    this.keys.add(`invite ${id}`)
    this.used.push(id)
  }

  #file({ channel }: Extract<Call, { name: 'beginFile' }>['request']): void {
    this.channels.push(channel)
    // The room of an account and the open files of an agent span channels, and the account is not known yet.
    this.keys.add('files')
  }

  #answer({ invite, agent }: Extract<Call, { name: 'answerJoin' }>['request']): void {
    this.invites.push(invite)
    this.joins.push({ invite, agent })
  }

  #join({ join: { channel, invite, agent } }: Extract<Call, { name: 'requestJoin' }>['request']): void {
    this.channels.push(channel)
    this.joins.push({ invite, agent })
    this.newJoins += 1
    this.used.push(invite)
  }

  #welcome(channel: ChannelId, welcomes: readonly { readonly agent: AgentId; readonly inviteId: Uint8Array }[]): void {
    const agents = this.#welcomedIn(channel)
    this.welcomed.set(channel, agents)
    for (const { agent, inviteId } of welcomes) {
      agents.push(agent)
      this.keys.add(`agent ${agent}`)
      this.newWelcomes += 1
      if (inviteId.length === 0) continue
      const invite = toHex(inviteId)
      this.used.push(invite)
      this.joins.push({ invite, agent })
    }
  }

  #welcomedIn(channel: ChannelId): AgentId[] {
    return this.welcomed.get(channel) ?? []
  }
}

/**
 * Prepares from the cache what messages need, and reads the rest without locks, in one round trip. The sender's account
 * is usually the channel's; any other unknown account is read afterwards.
 */
export async function assume({ channels, ids, accounts }: PostgresRows, calls: readonly Append[]): Promise<void> {
  const needs = new Needs()
  for (const call of calls) needs.add(call)
  ids.assumeNew(needs.ids)
  const unknown = new Set(channels.assumeCurrent(needs.channels))
  if (unknown.size === 0) return
  const theirs = calls.filter(({ request }) => unknown.has(request.channel))
  const likely = theirs.flatMap(({ request: { actor } }) => actor.account ?? [])
  await settled([channels.read([...unknown]), accounts.assumeKnown(likely)])
}

/** Locks and reads what the calls need. Called again after a rewind; known rows are not read twice. */
export async function prefetch(rows: PostgresRows, calls: readonly Call[]): Promise<void> {
  const needs = new Needs()
  for (const call of calls) needs.add(call)
  const { transaction, channels, names, invites, ids, welcomes, accounts, transient } = rows
  const locks = lockKeys(needs.keys)
  const waiting: Promise<unknown>[] = []
  const start = (promise: Promise<unknown>): void => {
    // Awaited below with all others; until then a failure must not count as unhandled.
    promise.catch(() => {})
    waiting.push(promise)
  }
  if (transaction.locks && locks.length > 0) start(ask(transaction, LOCK_KEYS, [locks]))
  if (needs.purges) start(purgeDropped(transaction).then((purged) => purged && accounts.forget()))
  if (needs.nonces.length > 0) start(transient.useNonces(needs.nonces))
  if (needs.invites.length > 0) await invites.fetch(needs.invites)
  const invited = needs.invites.flatMap((id) => invites.channelOf(id) ?? [])
  // An invite that is only read needs no channel.
  const locked = transaction.locks ? [...needs.channels, ...invited] : needs.channels
  // Channels that a rewind has forgotten are read again together.
  waiting.push(channels.fetch([...locked, ...channels.seen], needs), ids.fetch(needs.ids))
  waiting.push(names.fetch(needs.names), channels.reserve(needs.newChannels), welcomes.reserve(needs.newWelcomes))
  for (const { ids: asked, agent, receipts } of needs.glances) {
    waiting.push(...channels.fetchGlances(asked, agent, receipts))
  }
  await settled(waiting)
  // Rows read before the lock may have changed.
  await settled([
    invites.fetch(needs.invites, transaction.locks),
    invites.fetch(needs.used),
    transient.joins.reserve(needs.newJoins),
    transient.joins.fetch(needs.joins),
    accounts.fetch([...needs.accounts, ...channels.accounts()]),
    ...followUp(rows, needs),
  ])
}

/** Reads what depends on the channels. */
function followUp({ channels, welcomes, slots }: PostgresRows, needs: Needs): Promise<unknown>[] {
  const waiting: Promise<unknown>[] = []
  const pending: number[] = []
  for (const [id, agents] of needs.welcomed) {
    const channel = channels.find(id)
    if (!channel) continue
    pending.push(channel.number)
    waiting.push(welcomes.fetchOthers(channel.account, agents))
  }
  for (const { channel: id, agent } of needs.acting) {
    const channel = channels.find(id)
    if (channel?.members.get(agent)?.welcome !== undefined) pending.push(channel.number)
  }
  for (const { channel: id, agents } of needs.resets) {
    const channel = channels.find(id)
    if (channel) waiting.push(slots.fetchTurns(channel, agents))
  }
  return [...waiting, welcomes.fetchPending(pending)]
}

/** Waits for all, so that no promise fails later unhandled. */
async function settled(waiting: readonly Promise<unknown>[]): Promise<void> {
  const results = await Promise.allSettled(waiting)
  const failed = results.find(({ status }) => status === 'rejected')
  if (failed?.status === 'rejected') throw failed.reason
}

function lockKeys(keys: ReadonlySet<string>): number[] {
  return [...keys].map((key) => createHash('sha256').update(key).digest().readUInt32BE(0) % LOCKS)
}
