/**
 * One channel as this agent holds it, whether it is a member, is creating or joining it, or was offered it: its ids,
 * its group, its place in the log, its standing, and its parts.
 *
 * Log entries arrive at `intake`. `follower` follows them in order and passes their effects to the other parts.
 * Everything changes in memory first. The end of the turn (turn.ts) writes it in one transaction, and only then is
 * anything sent to the relay or given to the application (`written`).
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
import { ListedInvites } from '../admitting/listed-invites.ts'
import type { AgentContext } from '../agent/context.ts'
import { Approvals } from './approving/approvals.ts'
import { type Epoch, isSameOwnership, type Joined } from '../mls/index.ts'
import type { AgentId, ChannelId, ChannelRecord, EpochPlace, StoredChannel } from '../ports/index.ts'
import { Asks } from './asking/asks.ts'
import { ReceivedRequests } from './asking/received-requests.ts'
import { ChannelFiles } from '../files/channel-files.ts'
import { GroupState, NO_EPOCH } from './group-state.ts'
import { Follower } from './log/follower.ts'
import { Forks } from './log/forks.ts'
import { KeptMessages } from './keeping/kept-messages.ts'
import { History } from './log/history.ts'
import { loadPending, type Pending } from './members/commits.ts'
import { Committer } from './members/committer.ts'
import { Roster } from './members/roster.ts'
import { Upkeep } from './members/upkeep.ts'
import type { Part, RosterChange } from './part.ts'
import { Proving } from './proving/proving.ts'
import { Receipts } from './receipts/receipts.ts'
import { Inbox } from './receiving/inbox.ts'
import { payloadTable } from './receiving/inbox-table.ts'
import { Intake } from './receiving/intake.ts'
import { Poison } from './receiving/poison.ts'
import { Sender } from './sending/sender.ts'
import { channelError, Standing } from './standing.ts'
import { ChannelTurn } from './turn.ts'

/** The member that may make itself the owner of a channel. */
export interface Standby {
  readonly agent: AgentId
  /** Whether the owner wants it to. */
  readonly offered: boolean
}

/** A channel of this agent. */
export class AgentChannel {
  readonly id: ChannelId
  readonly channelId: Uint8Array
  readonly name: ChannelName
  /** The agent's standing in this channel, as recorded. */
  readonly standing: Standing
  /** Decides what happens next, and writes all changes. */
  readonly turn: ChannelTurn
  /** The channel's state with the relay: delivered, acknowledged and missing entries. */
  readonly intake: Intake
  readonly follower: Follower
  readonly sender: Sender
  readonly committer: Committer
  readonly receipts: Receipts
  readonly roster: Roster
  readonly upkeep: Upkeep
  readonly inbox: Inbox
  readonly poison: Poison
  readonly listedInvites: ListedInvites
  readonly requests: ReceivedRequests
  readonly asks: Asks
  readonly proving: Proving
  readonly files: ChannelFiles
  readonly approvals: Approvals
  readonly forks: Forks
  /** The history that the agent keeps for its user. */
  readonly kept: KeptMessages
  /**
   * All parts, in the order in which each is asked (part.ts). Intake comes first, so that nothing more arrives once a
   * session is lost or a channel ends. Receipts come before the roster, which reports a change of members, so that they
   * know the members by then. Forks come last: once a fork is over, they let other parts send what is due.
   */
  readonly parts: readonly Part[]
  readonly #context: AgentContext
  #owner: AgentId
  #history: History
  #group: GroupState | undefined
  /** As on disk: after use, the hash takes the place of the Welcome. */
  #welcome: Uint8Array | undefined
  /** Called when the membership has ended and everything in it has been read. */
  readonly #ended: () => void

  constructor(context: AgentContext, stored: StoredChannel, ended: () => void) {
    const { record, welcome, senders, chain } = stored
    this.#context = context
    this.id = record.id
    this.channelId = fromHex(record.id)
    this.name = parseChannelName(record.name)
    this.#owner = record.owner
    this.#history = new History(record.position, senders, chain)
    this.#welcome = welcome
    this.#ended = ended
    this.turn = new ChannelTurn(context, this, record)
    this.standing = new Standing(this, record)
    this.kept = new KeptMessages(context, this.id)
    const { pending, unreadable } = this.#load(stored)
    this.intake = new Intake(context, this, record)
    this.sender = new Sender(context, this, stored)
    this.committer = new Committer(context, this, pending)
    this.receipts = new Receipts(context, this, stored)
    this.roster = new Roster(context, this, stored)
    this.upkeep = new Upkeep(context, this)
    this.inbox = new Inbox(this, payloadTable(context, this), { ...stored.inbox, givenUpTo: record.givenUpTo })
    this.poison = new Poison(context, this, stored)
    this.listedInvites = new ListedInvites(context, this, stored)
    this.requests = new ReceivedRequests(context, this, stored)
    this.asks = new Asks(context, this, stored)
    this.proving = new Proving(context, this, stored)
    this.files = new ChannelFiles(context, this, stored)
    this.approvals = new Approvals(context, this, stored)
    this.forks = new Forks(context, this)
    this.follower = new Follower(context, this)
    this.parts = [
      this.intake,
      this.sender,
      this.committer,
      this.receipts,
      this.roster,
      this.upkeep,
      this.inbox,
      this.poison,
      this.listedInvites,
      this.requests,
      this.asks,
      this.proving,
      this.files,
      this.approvals,
      this.forks,
    ]
    // Only now: parts that read from disk make the journal write, and it would write this channel as well.
    if (unreadable) {
      this.standing.end(unreadable)
      this.standing.set({ broken: record.broken ?? 'mls_error' })
    }
    if (stored.ownReceipt) this.receipts.loaded()
    const { failure } = this
    if (!failure) return
    // Requests nothing from the relay. Readers get what is on disk.
    for (const part of [this.intake, this.inbox, this.requests, this.asks, this.approvals]) part.end(failure, failure)
  }

  // ---- State ----

  get state(): ChannelRecord['state'] {
    return this.standing.record.state
  }

  /** The agent that owns the channel: the one that the group names. */
  get owner(): AgentId {
    return this.#owner
  }

  /** The member that may take the channel over, and whether the owner has offered it. */
  get standby(): Standby | undefined {
    const { standby, offered = false } = this.#group?.facts.context ?? {}
    return standby && { agent: toHex(standby), offered }
  }

  get history(): History {
    return this.#history
  }

  get group(): GroupState | undefined {
    return this.#group
  }

  /** A member's name in errors. */
  nameOf(agentId: AgentId): string {
    const identity = this.#group?.members.get(agentId)?.identity
    if (!identity) return `Agent ${shortFingerprint(agentId)}`
    return identityWithFingerprint({ agentId, identity: new TextDecoder().decode(identity) })
  }

  /** The Welcome that this agent has not entered the group with: of an offer, or of a channel that it is creating. */
  get pendingWelcome(): Uint8Array | undefined {
    return this.usedWelcomeHash ? undefined : this.#welcome
  }

  /** The SHA-256 of the Welcome that this agent has entered the group with. */
  get usedWelcomeHash(): Uint8Array | undefined {
    // No Welcome is that short.
    return this.#welcome?.length === HASH_BYTES ? this.#welcome : undefined
  }

  /** Why the channel cannot continue, if it cannot. */
  get failure(): StaticError | undefined {
    return this.standing.failure
  }

  /** Whether the owner has sent something since this agent joined, in the group as this agent knows it. */
  get isConfirmed(): boolean {
    const { confirmed, takenUnconfirmed } = this.standing.record
    return confirmed || (!takenUnconfirmed && this.#group?.place.hasHeardOwner === true)
  }

  // ---- Actions of the agent and the application ----

  /** Continues even though a member has seen a different history. */
  acceptFork(): void {
    this.forks.accept()
    this.turn.work()
  }

  /** Stores a Welcome until it is used, or the hash of a used one in its place. */
  keepWelcome(welcome: Uint8Array): void {
    this.#welcome = welcome
    this.turn.touch({ type: 'putWelcome', id: this.id, welcome })
  }

  /** Enters the group with a Welcome and follows the log from now on. */
  enter(
    joined: Joined,
    state: 'founding' | 'joining' | 'joined',
    position: ChannelRecord['position'],
    welcomeHash: Uint8Array,
  ): void {
    this.#history = new History(position)
    const hasHeardOwner = toHex(joined.signer.agentId) === this.owner
    this.#group = this.#begin(joined, { isProven: false, hasHeardOwner, leftOutBefore: [] })
    this.intake.start(position.index)
    this.receipts.start(position.index)
    this.proving.start(position.index)
    this.turn.touchEpoch()
    this.keepWelcome(welcomeHash)
    const confirmed = hasHeardOwner || this.owner === this.#context.agentId
    const leafKeys = [this.#group.leafKey]
    this.standing.set({ state, rekeyedAt: this.#context.now(), rekeyDeferredAt: 0, leafKeys, confirmed })
    this.roster.enter()
  }

  /** Changes the state on behalf of the application. */
  become(state: ChannelRecord['state'], rekeyDue: boolean = this.standing.record.rekeyDue): void {
    this.standing.set({ state, rekeyDue })
    if (state === 'joined') {
      this.forks.joined()
      this.proving.showing.retry()
    }
    this.turn.work()
  }

  /** The session is lost. */
  lose(): void {
    for (const part of this.parts) part.lose()
  }

  /** The relay delivers this channel from now on. */
  resumed(): void {
    for (const part of this.parts) part.resumed()
    this.turn.work()
    this.turn.transmit()
  }

  /** The agent closes: tells the other members how far it has processed, as far as that is on disk. */
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
    this.turn.touchEpoch()
    this.standing.set({ state: 'ended', broken: code })
    this.end(error, error)
    this.#context.emit({ type: 'channel_failed', channel: this.name, error })
  }

  /** Ends all activity: pending calls get `error`; readers get `forReaders` or, without one, the end. */
  end(error: StaticError, forReaders: StaticError | undefined): void {
    this.standing.end(error)
    for (const part of this.parts) part.end(error, forReaders)
  }

  /** The agent stops: nothing more is delivered to the application. */
  seal(): void {
    for (const part of this.parts) part.seal()
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
    this.turn.drop()
  }

  /** Resolves when no task holds the group. */
  async idle(): Promise<void> {
    await this.turn.idle()
  }

  // ---- The turn ----

  /** Everything drained is on disk, so it may leave the process. */
  written(): void {
    for (const part of this.parts) part.written()
    this.intake.acknowledge(this.receipts.next())
    this.turn.transmit()
    // Only now, because readers may make the journal write again.
    this.inbox.serveWritten()
    this.requests.inbox.serveWritten()
    this.intake.unpause()
    this.#confirm()
    if (this.state === 'ended' && this.inbox.isEmpty && this.poison.isEmpty) this.#ended()
  }

  // ---- Findings in the log ----

  /** Tells the application that the owner is in this group. */
  #confirm(): void {
    if (this.standing.record.confirmed || !this.isConfirmed) return
    this.standing.set({ confirmed: true })
    this.#context.emit({ type: 'confirmed', channel: this.name })
  }

  /** Adopts the next epoch, from a commit by another member. */
  adopt(epoch: Epoch, change: Omit<RosterChange, 'formerOwner'>): void {
    const formerOwner = this.#adopt(epoch, change.by)
    this.#change({ ...change, formerOwner })
  }

  /** Returns the former owner, if the commit has changed it. */
  #adopt(epoch: Epoch, by: AgentId): AgentId | undefined {
    this.#confirm()
    const old = this.#group
    const former = this.#follow(epoch)
    const leftOutBefore = old && this.owner === this.#context.agentId ? old.allLeftOut : []
    this.#group = this.#begin(epoch, { isProven: true, hasHeardOwner: by === this.owner, leftOutBefore })
    if (by === this.owner) this.#group.confirm()
    old?.wipe(epoch.group)
    this.turn.touchEpoch()
    this.standing.set({ leafKeys: [this.#group.leafKey] })
    this.#announce(old, by)
    return former
  }

  /** Takes over from the next epoch who owns the channel. Returns the former owner, if that has changed. */
  #follow({ group }: Epoch): AgentId | undefined {
    const owner = toHex(this.#context.engine.facts(group).context.owner)
    if (owner === this.#owner) return undefined
    const former = this.#owner
    if (!this.isConfirmed) this.standing.set({ takenUnconfirmed: true })
    this.standing.set({ enteredUnder: this.standing.record.enteredUnder ?? former })
    this.#owner = owner
    return former
  }

  /** Tells the application of a change of the ownership. */
  #announce(old: GroupState | undefined, by: AgentId): void {
    const [before, now] = [old?.facts.context, this.#group?.facts.context]
    if (!before || !now || isSameOwnership(before, now)) return
    const { standby } = this
    const change = { owner: this.#owner, standby: standby?.agent, offered: standby?.offered === true }
    this.#context.emit({ type: 'ownership_changed', channel: this.name, by, ...change })
  }

  /** Begins an epoch at the last entry. */
  #begin(epoch: Epoch, known: Pick<EpochPlace, 'isProven' | 'hasHeardOwner' | 'leftOutBefore'>): GroupState {
    const { index } = this.#history.position
    const place = { ...NO_EPOCH, index, counter: this.sender.counter, ...known }
    return new GroupState(this.#context.engine, epoch, place)
  }

  /** Adopts the epoch of this agent's commit, which is now in the log. */
  committed({ next, purpose, request, job, welcomes }: Pending): void {
    const context = this.#context
    const { adds = [], removes = [], leaveNotices = [], vouches = [] } = request.declaration ?? {}
    const { state, rekeyDue } = this.standing.record
    const formerOwner = this.#adopt(next, context.agentId)
    this.sender.sentSinceRekey = 0
    this.standing.set({
      state: state === 'founding' ? 'joined' : state,
      rekeyedAt: context.now(),
      rekeyDeferredAt: 0,
      rekeyDue: purpose.rekeyDue || (rekeyDue && !purpose.rekeys),
    })
    if (purpose.rekeys) context.emit({ type: 'rekeyed', channel: this.name })
    this.#change({
      by: context.agentId,
      added: adds.map(toHex),
      removed: removes.map(toHex),
      left: leaveNotices.length,
      vouched: vouches.map(toHex),
      formerOwner,
      byInvite: request.welcomes.filter(({ inviteId }) => inviteId.length > 0).map(({ agentId }) => toHex(agentId)),
    })
    for (const joiner of purpose.joiners) context.invites?.admitted(this.id, joiner)
    // This must come first in the new epoch.
    this.upkeep.retry()
    job?.done({ welcomes })
  }

  #change(change: RosterChange): void {
    for (const agent of change.removed) {
      // A member that the same commit adds again, and that has not left, has only replaced its leaf.
      const isReplaced = change.added.includes(agent) && this.roster.notice(agent) === undefined
      if (isReplaced) this.#history.restart(agent)
      else this.#history.forget(agent)
    }
    for (const agent of change.added) if (!change.removed.includes(agent)) this.#history.forget(agent)
    for (const part of this.parts) part.change(change)
    if (change.formerOwner !== undefined) this.#context.invites?.ownerChanged(this.id, change.formerOwner)
  }

  /** Ends a channel that cannot continue. Received messages can still be read, and the agent can leave. */
  break(error: StaticError): void {
    if (this.failure) return
    this.standing.set({ broken: error.code })
    this.end(error, error)
    this.#context.emit({ type: 'channel_failed', channel: this.name, error })
  }

  /** Ends only this channel, because its rows on disk cannot be read. They stay there, and a restart tries again. */
  unreadable(error: StaticError): void {
    if (this.failure) return
    this.end(error, error)
    this.#context.emit({ type: 'channel_failed', channel: this.name, error })
  }

  /** Breaks only this channel, because its state cannot be serialized. The disk keeps its last written state. */
  unstorable(cause: unknown): void {
    const error = StaticError.of('mls_error', `The state of channel ${this.name} cannot be stored.`, { cause })
    const { broken } = this.standing.record
    if (this.failure) this.standing.set({ broken: broken ?? error.code })
    else this.break(error)
    // The last entries are not on disk, so they must not be acknowledged.
    this.intake.lose()
  }

  // ---- Internals ----

  /** Loads the group and the pending commit. A failure breaks only this channel, which can still be left. */
  #load({ record, epoch, pending }: StoredChannel): { pending?: Pending | undefined; unreadable?: StaticError } {
    const { engine, key } = this.#context
    const { hash } = record.position
    try {
      if (epoch && hash.length !== HASH_BYTES)
        throw StaticError.of('store_corrupt', `The stored chain hash has ${hash.length} bytes, not ${HASH_BYTES}.`)
      this.#group = epoch && GroupState.load(engine, epoch, key, record.epoch)
      return { pending: pending && loadPending(this.#context, pending) }
    } catch (cause) {
      this.#group = undefined
      return { unreadable: StaticError.of('mls_error', undefined, { cause }) }
    }
  }

  /** The channel's record as it is now. */
  record(): ChannelRecord {
    const { counter, ownHash, sentSinceRekey } = this.sender
    const { position } = this.#history
    const given = {
      givenUpTo: this.inbox.boundAt(position.index),
      servedUpTo: this.requests.inbox.boundAt(position.index),
    }
    const standing = { ...this.standing.record, confirmed: this.isConfirmed }
    const { removalSlot } = this.listedInvites
    const { id, name, owner } = this
    const epoch = this.#group?.place ?? NO_EPOCH
    return { id, name, owner, ...standing, position, epoch, counter, ownHash, sentSinceRekey, ...given, removalSlot }
  }
}
