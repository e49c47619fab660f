/**
 * This agent in one channel: what it sends (sender.ts), commits (committer.ts), follows (follower.ts) and gives to the
 * application (inbox.ts). Everything that changes is in memory first and on disk at the end of the turn (`drain`); only
 * then does the relay hear of it (`written`).
 */
import {
  type ChannelName,
  type ErrorCode,
  ERRORS,
  fromHex,
  type LeaveNoticeFields,
  parseChannelName,
  StaticError,
  toHex,
} from '@static/protocol'
import type { ChannelState } from '@static/protocol/relay'
import type { Epoch } from '../../mls/index.ts'
import type { AgentId, Change, ChannelId, ChannelRecord, StoredChannel, Time } from '../../ports.ts'
import { CatchUp } from './catch-up.ts'
import { Committer } from './committer.ts'
import { type CommitJob, type CommitResult, loadPending, type Pending, type WelcomeTag } from './commits.ts'
import { Follower, type LogEntry } from './follower.ts'
import { decodeFrame, type FrameKind } from './message-frame.ts'
import { GroupState } from './group-state.ts'
import { type Difference, History } from './history.ts'
import { Inbox, type Incoming } from './inbox.ts'
import type { Writer } from './journal.ts'
import { Roster } from './roster.ts'
import { Sender } from './sender.ts'
import { misfitOf } from './standing.ts'
import { Upkeep } from './upkeep.ts'
import type { World } from '../agent/context.ts'

/** How often entries that were left out are asked for again. */
const MOST_HOLES = 3

/** When a channel is asked for again that the relay does not deliver. */
const RESUME_AGAIN_MS = 5000

/** What is neither in the history nor with the sender. */
type Rest = Pick<ChannelRecord, 'state' | 'rekeyDue' | 'rekeyedAt' | 'fork' | 'broken'>

/** A membership. */
export class Membership implements Writer {
  readonly world: World
  readonly id: ChannelId
  readonly channelId: Uint8Array
  readonly name: ChannelName
  readonly owner: AgentId
  history: History
  readonly inbox: Inbox
  readonly sender: Sender
  readonly committer: Committer
  readonly roster: Roster
  readonly #follower: Follower
  readonly #upkeep: Upkeep
  readonly #catchUp = new CatchUp()
  #group: GroupState | undefined
  #rest: Rest
  #welcome: Uint8Array | undefined
  /** Entries that wait for those before them. */
  #inbound: LogEntry[] = []
  /** A task has the group to itself. */
  #locked = false
  #task: Promise<void> = Promise.resolve()
  /** The relay delivers, and takes what is sent. */
  #online = false
  /** How many answers to `resume` are still to come in this session. */
  #resumes = 0
  #resumedBefore = false
  /** The inbox is full: what comes is dropped, and asked for again later. */
  #paused = false
  #head = 0
  #holes = 0
  /** Entries up to this one may have been given to the application before. */
  #redeliveredUpTo: number
  #acknowledged: number
  /** What this session has brought: the relay takes no acknowledgement beyond, also of what an earlier one brought. */
  #delivered = 0
  #changes: Change[] = []
  #recordChanged = false
  #epochChanged = false
  readonly #sendersChanged = new Set<AgentId>()
  #dropped: 'due' | 'done' | false = false
  /** Nothing goes on here in this life of the agent. */
  #endedBy: StaticError | undefined
  /** Told when nothing of it is needed any more. */
  readonly #ended: () => void

  constructor(world: World, stored: StoredChannel, ended: () => void) {
    const { record, welcome, epoch, pending, senders, leavers, inboxBytes } = stored
    this.world = world
    this.id = record.id
    this.channelId = fromHex(record.id)
    this.name = parseChannelName(record.name)
    this.owner = record.owner
    this.history = new History(record.position, senders)
    const host = { touch: () => world.journal.touch(this), page: this.#page.bind(this) }
    this.inbox = new Inbox(record.id, host, inboxBytes)
    this.sender = new Sender(this, stored)
    this.roster = new Roster(this, leavers)
    this.#follower = new Follower(this)
    this.#upkeep = new Upkeep(this)
    this.#rest = record
    this.#welcome = welcome
    this.#redeliveredUpTo = record.position.index
    this.#acknowledged = record.position.index
    this.#ended = ended
    let unanswered: Pending | undefined
    try {
      this.#group = epoch && GroupState.load(world.engine, epoch, world.key)
      unanswered = pending && loadPending(world, pending)
    } catch (cause) {
      // This channel alone is broken, and the agent can leave it.
      this.#group = undefined
      this.#rest = { ...record, broken: record.broken ?? 'mls_error' }
      this.#endedBy = StaticError.of('mls_error', undefined, { cause })
      this.touch()
    }
    this.committer = new Committer(this, unanswered)
    if (this.failure) this.inbox.end(this.failure)
  }

  // ---- What it is ----

  get state(): ChannelRecord['state'] {
    return this.#rest.state
  }

  get group(): GroupState | undefined {
    return this.#group
  }

  get rekeyedAt(): Time {
    return this.#rest.rekeyedAt
  }

  get isOwn(): boolean {
    return this.owner === this.world.agentId
  }

  /** The Welcome that waits, or the hash of the one that was used. */
  get welcome(): Uint8Array | undefined {
    return this.#welcome
  }

  /** Whose account of the log differs. */
  get fork(): AgentId | undefined {
    return this.#rest.fork
  }

  /** A commit without change must follow before anybody is told of the last add. */
  get rekeyDue(): boolean {
    return this.#rest.rekeyDue
  }

  /** Why nothing goes on here, if so. */
  get failure(): StaticError | undefined {
    const { state, broken } = this.#rest
    if (this.#endedBy) return this.#endedBy
    if (broken !== undefined) return StaticError.of(Object.hasOwn(ERRORS, broken) ? (broken as ErrorCode) : 'mls_error')
    return state === 'ended' ? StaticError.of('removed') : undefined
  }

  /** Whether the relay is to deliver it. */
  get isDelivered(): boolean {
    return this.#group !== undefined && !this.#paused && !this.failure && this.state !== 'leaving'
  }

  /** The notice of an agent that has left and is still in the group. */
  leaveNotice(agent: AgentId): LeaveNoticeFields | undefined {
    return this.roster.notice(agent)
  }

  // ---- What the application does ----

  /** Sends; fulfilled when the relay has it durably. */
  async send(kind: FrameKind, payload: Uint8Array): Promise<void> {
    const error = this.failure ?? this.#forkError()
    if (error) throw error
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.sender.send(kind, payload, { resolve, reject })
    this.work()
    await promise
  }

  /** Commits; fulfilled when the commit is in the log and adopted here. */
  async commit(
    change: CommitJob['change'],
    options: {
      readonly urgent?: boolean
      readonly despiteFork?: boolean
      readonly tag?: WelcomeTag
      readonly joiner?: string
    } = {},
  ): Promise<CommitResult> {
    const error = this.failure ?? (options.despiteFork === true ? undefined : this.#forkError())
    if (error) throw error
    const { promise, resolve, reject } = Promise.withResolvers<CommitResult>()
    const { tag, joiner, urgent } = options
    this.committer.want({ change, tag, joiner, done: resolve, failed: reject }, urgent)
    this.work()
    return await promise
  }

  /** Fulfilled when everything is processed that the relay has now; without a session, that it has in the next one. */
  async catchUp(signal?: AbortSignal): Promise<void> {
    // The answer to a question from before this call does not tell what the relay has by now.
    if (this.#checkDelivered() && !this.#online) await this.#catchUp.wait(signal)
    if (!this.#checkDelivered()) return
    if (this.#online) this.resume()
    await this.#catchUp.wait(signal)
  }

  /** Replaces this agent's keys. */
  async rekey(): Promise<void> {
    await this.#upkeep.rekey()
  }

  /** Goes on although a member has seen another history. */
  acceptFork(): void {
    if (this.fork === undefined) return
    this.history.accept(this.fork)
    this.#sendersChanged.add(this.fork)
    this.#set({ fork: undefined })
    this.work()
  }

  /** Keeps a Welcome until it is used. */
  wait(welcome: Uint8Array): void {
    this.#welcome = welcome
    this.#changes.push({ type: 'putWelcome', id: this.id, welcome })
    this.touch()
  }

  /** A Welcome was used: from here on the log is followed. */
  enter(
    epoch: Epoch,
    state: 'founding' | 'joining' | 'joined',
    position: ChannelRecord['position'],
    used: Uint8Array,
  ): void {
    this.#group = new GroupState(this.world.engine, epoch)
    this.history = new History(position)
    this.#acknowledged = position.index
    // Nothing of it was ever given.
    this.#redeliveredUpTo = position.index
    this.#resumedBefore = true
    this.#epochChanged = true
    this.wait(used)
    this.#set({ state, rekeyedAt: this.world.now() })
    for (const member of this.#group.members.values()) this.roster.meet(member)
  }

  /** Another state, by the application's will. */
  become(state: ChannelRecord['state']): void {
    this.#set({ state })
    this.work()
  }

  /** Everything about it is deleted. */
  drop(error: StaticError | undefined): void {
    this.end(error ?? StaticError.of('closed', 'The channel was left.'), error)
    this.#group?.wipe()
    this.#group = undefined
    this.#dropped ||= 'due'
    this.touch()
  }

  /** Over here: what waits gets the error, readers theirs or, without one, just the end. */
  end(error: StaticError, forReaders: StaticError | undefined): void {
    this.#online = false
    this.#endedBy ??= error
    this.sender.fail(error)
    this.committer.fail(error)
    this.roster.stop()
    this.#catchUp.fail(error)
    this.inbox.end(forReaders)
    this.#forgetInbound()
  }

  // ---- What the relay does ----

  /** Asks the relay to deliver from here on. Nothing that comes before its answer counts: the two might not fit. */
  resume(): void {
    this.#resumes++
    this.#online = false
    this.#catchUp.forget()
    this.#forgetInbound()
    this.world.resume(this.id)
  }

  /** The answer to Resume: the relay delivers from here on. */
  resumed(state: ChannelState): void {
    this.#resumes = Math.max(0, this.#resumes - 1)
    // It was asked once more since then, or is no longer to be delivered.
    if (this.#resumes > 0 || !this.isDelivered) return
    const refused = state.error?.code
    if (refused !== undefined) {
      if (refused === 'removed' || refused === 'not_found') this.over(refused)
      else this.world.later(RESUME_AGAIN_MS, () => this.resume())
      return
    }
    const cursor = Number(state.cursor?.index ?? 0n)
    const misfit = misfitOf(state, this.history.position, this.sender.counter)
    if (misfit) return this.break(misfit)
    if (state.name !== this.name || toHex(state.owner) !== this.owner) {
      const detail = 'The relay says that the channel has another name or owner.'
      this.world.emit({ type: 'roster_lie', channel: this.name, detail })
    }
    if (!this.#resumedBefore) this.#redeliveredUpTo = Number(state.lastIndex)
    this.#resumedBefore = true
    this.#acknowledged = cursor
    this.#delivered = cursor
    this.#online = true
    this.#forgetInbound()
    // Not the highest that was ever told: a head that does not exist would hold everything up for good.
    this.#head = Number(state.head)
    this.#catchUp.expect(Number(state.lastIndex))
    this.#catchUp.reached(this.history.position.index)
    this.roster.resume()
    this.#upkeep.retry()
    this.work()
    this.#transmit()
  }

  /** An entry has come, or a notice of those that will not. */
  deliver(entry: LogEntry): void {
    if (!this.#online || this.failure) return
    if (this.#paused) {
      if (entry.case === 'deliverCommit') this.headIs(Number(entry.value.slot) + 1)
      return this.work()
    }
    this.#delivered = Math.max(this.#delivered, lastIndexOf(entry))
    this.#inbound.push(entry)
    this.world.queued(sizeOf(entry))
    this.#pump()
  }

  /** The session is over. */
  lose(): void {
    this.#online = false
    this.#resumes = 0
    this.#forgetInbound()
    this.#catchUp.forget()
    this.sender.lose()
    this.committer.lose()
  }

  /** Time has passed. */
  tick(now: Time): void {
    if (!this.#online || this.failure || this.state !== 'joined' || this.fork !== undefined) return
    this.#upkeep.tick(now)
  }

  // ---- The turn ----

  /** Goes on with whatever can go on. */
  work(): void {
    const group = this.#group
    const isBehind = this.history.position.slot < this.#head
    if (this.#paused && (isBehind || !this.#online)) {
      const error = inboxFull()
      this.sender.refuse(error)
      return this.committer.refuse(error)
    }
    // Of an epoch that the others have left behind, the relay would take nothing.
    if (!this.#online || this.#locked || !group || this.failure || isBehind) return
    if (this.committer.isBusy) return this.committer.transmit()
    if (this.committer.work(group)) return
    if (!this.#isTalking || this.fork !== undefined) return
    const { counter } = this.sender
    this.#attempt(() => this.sender.work(group))
    // Every message tells what was seen.
    if (this.sender.counter > counter) this.#upkeep.told()
    this.sender.transmit()
    this.#upkeep.check()
  }

  touch(): void {
    this.#recordChanged = true
    this.world.journal.touch(this)
  }

  touchLater(): void {
    this.#recordChanged = true
    this.world.journal.touchLater(this)
  }

  drain(): readonly Change[] {
    const { id } = this
    if (this.#dropped !== false) {
      // Once: the agent may have joined again when the last reader settles.
      const changes: Change[] = this.#dropped === 'due' ? [{ type: 'dropChannel', id }] : []
      this.#dropped = 'done'
      return changes
    }
    const changes: Change[] = []
    if (this.#recordChanged) changes.push({ type: 'putChannel', record: this.#record() })
    changes.push(...this.#changes)
    if (this.#epochChanged) changes.push({ type: 'putEpoch', id, epoch: this.#group?.record() })
    changes.push(...this.committer.drain(this.#epochChanged))
    if (this.#group) changes.push(...this.#group.drain(id))
    for (const agent of this.#sendersChanged) {
      const sender = this.history.sender(agent)
      changes.push(sender ? { type: 'putSender', id, sender } : { type: 'dropSender', id, agent })
    }
    changes.push(...this.roster.drain(), ...this.sender.drain(), ...this.inbox.drain())
    this.#changes = []
    this.#recordChanged = false
    this.#epochChanged = false
    this.#sendersChanged.clear()
    return changes
  }

  written(): void {
    if (this.#dropped !== false) return
    this.sender.written()
    this.committer.written()
    const index = Math.min(this.history.position.index, this.#delivered)
    if (this.#online && index > this.#acknowledged) {
      this.#acknowledged = index
      this.world.acknowledge(this.id, index)
    }
    this.#transmit()
    if (this.#paused && this.inbox.hasRoom) {
      this.#paused = false
      this.resume()
    }
    if (this.state === 'ended' && this.inbox.isEmpty) this.#ended()
  }

  headIs(head: number): void {
    this.#head = Math.max(this.#head, head)
  }

  exclusively(task: () => Promise<void>): void {
    this.#locked = true
    this.#task = task()
      .catch((error: unknown) => this.break(asMlsError(error)))
      .finally(() => {
        this.#locked = false
        this.#pump()
      })
  }

  /** Fulfilled when no task has the group to itself. */
  async idle(): Promise<void> {
    while (this.#locked) await this.#task
  }

  // ---- What is found in the log ----

  adopt(epoch: Epoch): void {
    const old = this.#group
    this.#group = new GroupState(this.world.engine, epoch)
    old?.wipe(epoch.group)
    this.#epochChanged = true
    this.touch()
  }

  committed({ purpose, request, job, welcomes }: Pending): void {
    const { adds = [], removes = [] } = request.declaration ?? {}
    this.sender.sentSinceRekey = 0
    this.#set({
      state: this.state === 'founding' ? 'joined' : this.state,
      rekeyedAt: this.world.now(),
      rekeyDue: purpose.rekeyDue || (this.rekeyDue && !purpose.rekeys),
    })
    if (purpose.rekeys) this.world.emit({ type: 'rekeyed', channel: this.name })
    this.changed(this.world.agentId, adds.map(toHex), removes.map(toHex))
    if (purpose.joiner !== undefined) this.world.admitted(this.id, purpose.joiner)
    // Next, before anything else in the new epoch.
    this.#upkeep.check()
    job?.done({ welcomes })
  }

  changed(by: AgentId, added: readonly AgentId[], removed: readonly AgentId[]): void {
    for (const agent of [...removed, ...added]) {
      this.history.forget(agent)
      this.#sendersChanged.add(agent)
    }
    if (this.fork !== undefined && removed.includes(this.fork)) this.#set({ fork: undefined })
    this.roster.change(by, added, removed)
  }

  heard(sender: AgentId): void {
    this.#sendersChanged.add(sender)
    this.#upkeep.heard()
  }

  arrived(incoming: Omit<Incoming, 'redelivered'>): void {
    this.inbox.arrive({ ...incoming, redelivered: incoming.record.index <= this.#redeliveredUpTo })
  }

  greeted(kind: 'hello' | 'greeting', sender: AgentId, payload: Uint8Array): void {
    this.world.greeted(this.id, kind, sender, payload)
  }

  saw(): void {
    this.#upkeep.saw()
  }

  forked(member: AgentId, difference: Difference): void {
    if (this.fork !== undefined) return
    this.#set({ fork: member })
    const detail = `The log that ${member} has seen differs (${difference}).`
    this.world.emit({ type: 'fork_detected', channel: this.name, member, detail })
    this.sender.refuse(StaticError.of('fork_detected', detail))
  }

  /** The relay is asked once more for what it left out; then it is not believed any longer. */
  missing(index: number): void {
    if (++this.#holes > MOST_HOLES) {
      return this.break(StaticError.of('mls_error', `The relay does not deliver entry ${index}.`))
    }
    this.resume()
  }

  repeated(index: number): void {
    this.#acknowledged = Math.min(this.#acknowledged, index)
    this.touch()
  }

  /** Membership is over. What was received can still be read. */
  over(code: 'removed' | 'not_found' = 'removed'): void {
    // Leaving ends it by itself, and quietly.
    if (this.state === 'ended' || this.state === 'leaving') return
    const error = StaticError.of(code, code === 'not_found' ? 'The channel was deleted.' : undefined)
    this.#group?.wipe()
    this.#group = undefined
    this.#epochChanged = true
    this.#set({ state: 'ended', broken: code })
    this.end(error, error)
    this.world.emit({ type: 'channel_failed', channel: this.name, error })
  }

  /** The channel cannot go on. What was received can still be read, and the agent can leave. */
  break(error: StaticError): void {
    if (this.failure) return
    this.#set({ broken: error.code })
    this.end(error, error)
    this.world.emit({ type: 'channel_failed', channel: this.name, error })
  }

  // ---- Inside ----

  /** Whether entries come; throws why they do not if that is no wish of the application. */
  #checkDelivered(): boolean {
    const error = this.failure ?? (this.#paused ? inboxFull() : undefined)
    if (error) throw error
    return this.isDelivered
  }

  #pump(): void {
    while (!this.#locked && !this.failure) {
      const entry = this.#inbound.shift()
      if (!entry) break
      this.world.queued(-sizeOf(entry))
      const { index } = this.history.position
      this.#attempt(() => this.#follower.take(entry))
      if (this.history.position.index > index) this.#holes = 0
      if (this.inbox.isFull) this.#pause()
    }
    this.#catchUp.reached(this.history.position.index)
    this.work()
  }

  #pause(): void {
    this.#paused = true
    this.#forgetInbound()
    this.#catchUp.forget()
    this.#catchUp.fail(inboxFull())
    this.world.emit({ type: 'inbox_full', channel: this.name })
  }

  #forgetInbound(): void {
    for (const entry of this.#inbound) this.world.queued(-sizeOf(entry))
    this.#inbound = []
  }

  /** Whether messages go out. One who joins by an invite says hello before it is in. */
  get #isTalking(): boolean {
    return this.state === 'joined' || this.state === 'joining'
  }

  #transmit(): void {
    if (!this.#online || this.failure) return
    this.committer.transmit()
    if (!this.committer.isBusy && this.#isTalking && this.fork === undefined) this.sender.transmit()
  }

  #forkError(): StaticError | undefined {
    return this.fork === undefined ? undefined : StaticError.of('fork_detected')
  }

  #page(after: number, limit: number): readonly Incoming[] {
    return this.world.page(this.id, after, limit).flatMap((record) => {
      const frame = decodeFrame(this.world.engine.reopen(record.ciphertext, record.messageKey))
      return frame ? [{ record, payload: frame.payload, redelivered: record.index <= this.#redeliveredUpTo }] : []
    })
  }

  #attempt(action: () => void): void {
    try {
      action()
    } catch (error) {
      this.break(asMlsError(error))
    }
  }

  #set(changes: Partial<Rest>): void {
    this.#rest = { ...this.#rest, ...changes }
    this.touch()
  }

  #record(): ChannelRecord {
    const { id, name, owner } = this
    const { state, rekeyDue, rekeyedAt, fork, broken } = this.#rest
    const { counter, ownHash, sentSinceRekey } = this.sender
    const { position } = this.history
    return { id, name, owner, state, position, counter, ownHash, rekeyDue, rekeyedAt, sentSinceRekey, fork, broken }
  }
}

function inboxFull(): StaticError {
  return StaticError.of('queue_full', 'The inbox is full: read messages of this channel, then go on.')
}

function asMlsError(error: unknown): StaticError {
  return error instanceof StaticError ? error : StaticError.of('mls_error', undefined, { cause: error })
}

function lastIndexOf(entry: LogEntry): number {
  return Number(entry.case === 'gap' ? (entry.value.position?.index ?? 0n) : entry.value.index)
}

function sizeOf(entry: LogEntry): number {
  if (entry.case === 'deliverMessage') return entry.value.ciphertext.length
  return entry.case === 'deliverCommit' ? entry.value.commit.length : 0
}
