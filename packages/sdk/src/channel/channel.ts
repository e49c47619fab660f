/**
 * This agent in one channel. Its parts send (sender.ts), commit (committer.ts), receive (intake.ts), follow the log
 * (follower.ts) and deliver to the application (inbox.ts). They share the group, which is held here, and the turn
 * (turn.ts). Changes are made in memory and written at the end of the turn (channel-writer.ts); only then is anything
 * sent to the relay (`#written`).
 */
import {
  type ChannelName,
  fromHex,
  HASH_BYTES,
  identityWithFingerprint,
  parseChannelName,
  shortFingerprint,
  StaticError,
  toHex,
} from '@static/protocol'
import type { Epoch, Joined } from '../mls/index.ts'
import type { AgentId, ChannelId, ChannelRecord, EpochPlace, StoredChannel } from '../ports/index.ts'
import type { AgentContext } from '../agent/context.ts'
import { Admissions } from '../admitting/admissions.ts'
import { Asks } from './asking/asks.ts'
import { ReceivedRequests } from './asking/received-requests.ts'
import { ChannelWriter } from './channel-writer.ts'
import { loadPending, type Pending } from './members/commits.ts'
import { Committer } from './members/committer.ts'
import { GroupState, NO_EPOCH } from './group-state.ts'
import type { ChannelView } from './part.ts'
import { Intake } from './receiving/intake.ts'
import { Follower } from './log/follower.ts'
import { Forks } from './log/forks.ts'
import { History } from './log/history.ts'
import { inboxHostOf } from './receiving/inbox-host.ts'
import { Inbox } from './receiving/inbox.ts'
import { Poison } from './receiving/poison.ts'
import { Sender } from './sending/sender.ts'
import { type PartsHost, partsHostOf } from './parts-host.ts'
import { receiptsHostOf } from './receipts/host.ts'
import { Receipts } from './receipts/receipts.ts'
import { Roster } from './members/roster.ts'
import { channelError, Standing, type StandingRecord } from './standing.ts'
import { ChannelTurn } from './turn.ts'
import { Upkeep } from './members/upkeep.ts'

export class AgentChannel implements ChannelView {
  readonly id: ChannelId
  readonly channelId: Uint8Array
  readonly name: ChannelName
  readonly owner: AgentId
  readonly inbox: Inbox
  readonly poison: Poison
  readonly receipts: Receipts
  readonly requests: ReceivedRequests
  readonly asks: Asks
  readonly admissions: Admissions
  readonly intake: Intake
  readonly sender: Sender
  readonly committer: Committer
  readonly roster: Roster
  readonly upkeep: Upkeep
  readonly #context: AgentContext
  readonly #follower: Follower
  readonly #standing: Standing
  readonly #writer: ChannelWriter
  readonly #turn: ChannelTurn
  readonly #forks: Forks
  #history: History
  #group: GroupState | undefined
  #welcome: Uint8Array | undefined
  /** Called when the membership has ended and everything in it is read. */
  readonly #ended: () => void

  constructor(context: AgentContext, stored: StoredChannel, ended: () => void) {
    const { record, welcome, senders, chain, leavers, poison } = stored
    this.#context = context
    this.id = record.id
    this.channelId = fromHex(record.id)
    this.name = parseChannelName(record.name)
    this.owner = record.owner
    this.#history = new History(record.position, senders, chain)
    const unstorable = (cause: unknown): void => this.#unstorable(cause)
    const written = (): void => this.#turn.attempt(() => this.#written())
    const writerHost = { record: () => this.#record(), written, unstorable }
    this.#writer = new ChannelWriter(context.journal, this, writerHost, record)
    this.#standing = new Standing(
      record,
      () => this.#writer.touch(),
      (member) => this.#nameOf(member),
    )
    this.#welcome = welcome
    this.#ended = ended
    const standing = this.#standing
    this.#turn = new ChannelTurn(context, this, standing, (error) => this.#break(error))
    const pending = this.#load(stored)
    const forked: PartsHost['forked'] = (member, difference) => this.#forks.found(member, difference)
    const host = partsHostOf(this, this.#turn, this.#writer, {
      take: (entry) => this.#follower.take(entry),
      break: (error) => this.#break(error),
      adopt: (epoch, by, added, removed, left) => {
        this.#adopt(epoch, by)
        this.#changed(by, added, removed, left)
      },
      committed: (own) => this.#committed(own),
      forked,
    })
    const unreadable = (error: StaticError): void => this.#unreadable(error)
    const inboxHost = inboxHostOf(context, this, this.#writer, 'inbox', unreadable)
    const { givenUpTo } = record
    this.inbox = new Inbox(record.id, inboxHost, { ...stored.inbox, givenUpTo })
    const { inbox } = this
    this.receipts = new Receipts(context, this, receiptsHostOf(this, this.#writer, forked), stored)
    const { receipts } = this
    const aside = (index: number): void => receipts.putAside(index)
    this.poison = new Poison(context, record.id, { inbox, aside, touch: () => this.#writer.touchPart() }, poison)
    this.sender = new Sender(context, this, host, standing, stored)
    const stop = (error: StaticError): void => {
      this.sender.refuse(error)
      // Nobody waits for a claim that the relay has deferred.
      this.admissions.end(error)
    }
    const over = (): void => {
      // What a fork has put off: the removal of those that have left, and a list of invites.
      this.roster.resume()
      this.admissions.resume()
    }
    this.#forks = new Forks(context, this, standing, { stop, over })
    const memberSince = (agent: AgentId): number => receipts.memberSince(agent)
    const requestsHost = { ...inboxHostOf(context, this, this.#writer, 'requests', unreadable), memberSince }
    this.requests = new ReceivedRequests(context, this, requestsHost, this.sender, stored)
    this.asks = new Asks(context, this, inboxHost, this.sender, stored)
    this.intake = new Intake(context, this, host, { inbox, requests: this.requests.inbox, standing }, record)
    this.committer = new Committer(context, this, host, standing, pending)
    this.roster = new Roster(context, this, this.committer, leavers)
    this.admissions = new Admissions(context, this, this.sender, () => this.#writer.touchPart(), stored)
    const { intake, sender, committer, admissions } = this
    this.upkeep = new Upkeep(context, this, { intake, sender, committer, standing, receipts, admissions })
    this.#follower = new Follower(context, this, host, this)
    if (stored.ownReceipt) this.receipts.loaded()
    if (!this.failure) return
    this.intake.end(this.failure)
    this.inbox.end(this.failure)
    this.requests.end(this.failure)
    this.asks.end(this.failure)
  }

  // ---- State ----

  get state(): ChannelRecord['state'] {
    return this.#standing.record.state
  }

  get history(): History {
    return this.#history
  }

  get group(): GroupState | undefined {
    return this.#group
  }

  /** A member as errors name it. */
  #nameOf(agentId: AgentId): string {
    const identity = this.#group?.members.get(agentId)?.identity
    if (!identity) return `Agent ${shortFingerprint(agentId)}`
    return identityWithFingerprint({ agentId, identity: new TextDecoder().decode(identity) })
  }

  /** The pending Welcome, or the hash of the used one. */
  get welcome(): Uint8Array | undefined {
    return this.#welcome
  }

  /** Why the channel cannot continue, if so. */
  get failure(): StaticError | undefined {
    return this.#standing.failure
  }

  /** Whether the owner has sent something since this agent joined, in its group as it is here. */
  get isConfirmed(): boolean {
    return this.#standing.record.confirmed || this.#group?.place.hasHeardOwner === true
  }

  /** The standing, as stored. */
  get standing(): StandingRecord {
    return this.#standing.record
  }

  // ---- Actions of the agent and the application ----

  /** Continues although a member has seen a different history. */
  acceptFork(): void {
    this.#forks.accept()
    this.#turn.work()
  }

  /** Stores a Welcome until it is used. */
  keepWelcome(welcome: Uint8Array): void {
    this.#welcome = welcome
    this.#writer.touch({ type: 'putWelcome', id: this.id, welcome })
  }

  /** Enters the group with a Welcome and follows the log from now on. */
  enter(
    joined: Joined,
    state: 'founding' | 'joining' | 'joined',
    position: ChannelRecord['position'],
    used: Uint8Array,
  ): void {
    this.#history = new History(position)
    const hasHeardOwner = toHex(joined.signer.agentId) === this.owner
    this.#group = this.#begin(joined, { isProven: false, hasHeardOwner, leftOutBefore: [] })
    this.intake.start(position.index)
    this.receipts.start(position.index)
    this.#writer.touchEpoch()
    this.keepWelcome(used)
    const confirmed = hasHeardOwner || this.owner === this.#context.agentId
    const leafKeys = [this.#group.leafKey]
    this.#standing.set({ state, rekeyedAt: this.#context.now(), rekeyDeferredAt: 0, leafKeys, confirmed })
    this.roster.enter()
  }

  /** Changes the state on behalf of the application. */
  become(state: ChannelRecord['state'], rekeyDue: boolean = this.#standing.record.rekeyDue): void {
    this.#standing.set({ state, rekeyDue })
    if (state === 'joined') this.#forks.joined()
    this.#turn.work()
  }

  /** The session is lost. */
  lose(): void {
    this.intake.lose()
    this.sender.lose()
    this.committer.lose()
    this.receipts.lose()
  }

  /** The agent closes: others learn what was processed, as far as it is on disk. */
  signOff(): void {
    const receipt = this.receipts.next(true)
    if (receipt) this.intake.sendReceipt(receipt)
  }

  /** Ends the membership. Received messages can still be read. */
  over(code: 'removed' | 'not_found' = 'removed'): void {
    // Leaving ends the membership itself, without an event.
    if (this.state === 'ended' || this.state === 'leaving') return
    const error = channelError(code, this.name)
    this.#group?.wipe()
    this.#group = undefined
    this.#writer.touchEpoch()
    this.#standing.set({ state: 'ended', broken: code })
    this.end(error, error)
    this.#context.emit({ type: 'channel_failed', channel: this.name, error })
  }

  /** Ends all activity: pending calls get `error`; readers get `forReaders` or, without one, the end. */
  end(error: StaticError, forReaders: StaticError | undefined): void {
    this.#standing.end(error)
    this.sender.fail(error)
    this.committer.fail(error)
    this.roster.stop()
    this.receipts.end(error)
    this.intake.end(error)
    this.inbox.end(forReaders)
    this.requests.end(forReaders)
    this.asks.end(error)
    this.admissions.end(error)
  }

  /** The agent stops: nothing more is delivered to the application. */
  seal(): void {
    this.inbox.seal()
    this.requests.inbox.seal()
    this.asks.seal()
  }

  /** Ends the iterators of the application. */
  stopReaders(): void {
    this.inbox.stop()
    this.requests.inbox.stop()
  }

  /** Deletes everything about the channel. */
  drop(error: StaticError | undefined): void {
    this.end(error ?? StaticError.of('closed', `This agent has left channel ${this.name}.`), error)
    this.seal()
    this.#group?.wipe()
    this.#group = undefined
    this.#writer.drop()
  }

  /** Resolves when no task holds the group. */
  async idle(): Promise<void> {
    await this.#turn.idle()
  }

  // ---- The turn ----

  #written(): void {
    this.sender.written()
    this.committer.written()
    this.receipts.written()
    this.intake.acknowledge(this.receipts.next())
    this.#turn.transmit()
    this.inbox.written()
    this.requests.inbox.written()
    this.intake.unpause()
    this.#confirm()
    if (this.state === 'ended' && this.inbox.isEmpty && this.poison.isEmpty) this.#ended()
  }

  // ---- Findings in the log ----

  /** The application learns that the owner is in this group. */
  #confirm(): void {
    if (this.#standing.record.confirmed || !this.isConfirmed) return
    this.#standing.set({ confirmed: true })
    this.#context.emit({ type: 'confirmed', channel: this.name })
  }

  #adopt(epoch: Epoch, by: AgentId): void {
    this.#confirm()
    const old = this.#group
    const leftOutBefore = old?.isOwner === true ? old.allLeftOut : []
    this.#group = this.#begin(epoch, { isProven: true, hasHeardOwner: by === this.owner, leftOutBefore })
    if (by === this.owner) this.#group.confirm()
    old?.wipe(epoch.group)
    this.#writer.touchEpoch()
    this.#standing.set({ leafKeys: [this.#group.leafKey] })
  }

  /** Begins an epoch at the last entry. */
  #begin(epoch: Epoch, known: Pick<EpochPlace, 'isProven' | 'hasHeardOwner' | 'leftOutBefore'>): GroupState {
    const { index } = this.#history.position
    const place = { ...NO_EPOCH, index, counter: this.sender.counter, ...known }
    return new GroupState(this.#context.engine, epoch, place)
  }

  #committed({ next, purpose, request, job, welcomes }: Pending): void {
    const context = this.#context
    const { adds = [], removes = [], leaveNotices = [], vouches = [] } = request.declaration ?? {}
    const { state, rekeyDue } = this.#standing.record
    this.#adopt(next, context.agentId)
    this.sender.sentSinceRekey = 0
    this.#standing.set({
      state: state === 'founding' ? 'joined' : state,
      rekeyedAt: context.now(),
      rekeyDeferredAt: 0,
      rekeyDue: purpose.rekeyDue || (rekeyDue && !purpose.rekeys),
    })
    if (purpose.rekeys) context.emit({ type: 'rekeyed', channel: this.name })
    const [added, removed] = [adds.map(toHex), removes.map(toHex)]
    this.#changed(context.agentId, added, removed, leaveNotices.length, vouches.map(toHex))
    for (const joiner of purpose.joiners) context.invites?.admitted(this.id, joiner)
    // Before anything else in the new epoch.
    this.upkeep.retry()
    job?.done({ welcomes })
  }

  #changed(
    by: AgentId,
    added: readonly AgentId[],
    removed: readonly AgentId[],
    left: number,
    vouched?: readonly AgentId[],
  ): void {
    for (const agent of [...removed, ...added]) this.#history.forget(agent)
    this.receipts.change(added, removed, vouched)
    this.roster.change(by, added, removed)
    this.admissions.change(by, added, removed, left)
    this.requests.removed(removed)
    this.asks.removed(removed)
    // Last, because it sends what is due by then.
    this.#forks.removed(removed)
  }

  /** Ends a channel that cannot continue. Received messages can still be read, and the agent can leave. */
  #break(error: StaticError): void {
    if (this.failure) return
    this.#standing.set({ broken: error.code })
    this.end(error, error)
    this.#context.emit({ type: 'channel_failed', channel: this.name, error })
  }

  /** Ends this channel alone, because its rows on disk cannot be read. They stay there, and a restart tries again. */
  #unreadable(error: StaticError): void {
    if (this.failure) return
    this.end(error, error)
    this.#context.emit({ type: 'channel_failed', channel: this.name, error })
  }

  /** Breaks this channel alone, because its state cannot be serialized. The disk keeps its last written state. */
  #unstorable(cause: unknown): void {
    const error = StaticError.of('mls_error', `The state of channel ${this.name} cannot be stored.`, { cause })
    const { broken } = this.#standing.record
    if (this.failure) this.#standing.set({ broken: broken ?? error.code })
    else this.#break(error)
    // The last entries are not on disk, so they must not be acknowledged.
    this.intake.lose()
  }

  // ---- Internals ----

  /** Loads the group and the pending commit. If that fails, only this channel is broken, and it can be left. */
  #load({ record, epoch, pending }: StoredChannel): Pending | undefined {
    const { engine, key } = this.#context
    const { hash } = record.position
    try {
      if (epoch && hash.length !== HASH_BYTES)
        throw StaticError.of('store_corrupt', `The stored chain hash has ${hash.length} bytes, not ${HASH_BYTES}.`)
      this.#group = epoch && GroupState.load(engine, epoch, key, record.epoch)
      return pending && loadPending(this.#context, pending)
    } catch (cause) {
      this.#group = undefined
      this.#standing.end(StaticError.of('mls_error', undefined, { cause }))
      this.#standing.set({ broken: record.broken ?? 'mls_error' })
      return undefined
    }
  }

  #record(): ChannelRecord {
    const { counter, ownHash, sentSinceRekey } = this.sender
    const { position } = this.#history
    const given = {
      givenUpTo: this.inbox.boundAt(position.index),
      servedUpTo: this.requests.inbox.boundAt(position.index),
    }
    const standing = { ...this.#standing.record, confirmed: this.isConfirmed }
    const { removalSlot } = this.admissions
    const { id, name, owner } = this
    const epoch = this.#group?.place ?? NO_EPOCH
    return { id, name, owner, ...standing, position, epoch, counter, ownHash, sentSinceRekey, ...given, removalSlot }
  }
}
