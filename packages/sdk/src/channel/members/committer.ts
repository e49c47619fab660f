/** This agent's commits in one channel: creates, sends, adopts, rolls back and retries them (see commits.ts). */
import { StaticError } from '@static/protocol'
import { same } from '../../platform/bytes.ts'
import type { Change, Outcome } from '../../ports/index.ts'
import { refusalError, retryDelay } from '../../ports/refusal.ts'
import type { AgentContext } from '../../agent/context.ts'
import { type GroupState, wipeEpoch } from '../group-state.ts'
import type { AgentChannel } from '../channel.ts'
import { Part } from '../part.ts'
import { type CommitJob, type CommitResult, makePending, type Pending, type WelcomeTags } from './commits.ts'

/** A commit that the relay defers for longer than this in total fails, because messages and other commits wait for it. */
const MAX_WAIT_MS = 60_000
/** The application is notified of a commit that is deferred for longer than this in total. */
const REPORTED_WAIT_MS = 2000
/**
 * Every refused commit uses up a key of the epoch, and other members allow only a limited number (SPEC.md, 4.3). After
 * the first few in an epoch, each adds a second to the wait before the next one, up to the maximum.
 */
const FREE_COMMITS = 128
const MORE_WAIT_MS = 1000
const LONGEST_WAIT_MS = 15 * 60_000

type Refusal = Extract<Outcome, { type: 'refused' }>['error']

/** The context that a committer needs from its agent. */
type CommitterContext = Pick<AgentContext, 'engine' | 'session' | 'now' | 'random' | 'later' | 'sign' | 'emit'>

export interface CommitOptions {
  /** Whether it goes before all other commits. */
  readonly urgent?: boolean
  /** As in the job. */
  readonly isRemoval?: boolean
  /** As in the job. */
  readonly tags?: WelcomeTags
  readonly joiners?: () => readonly string[]
  readonly maxWaitMs?: number
}

/** The committing side of a channel. */
export class Committer extends Part {
  readonly #context: CommitterContext
  readonly #channel: AgentChannel
  #jobs: CommitJob[] = []
  #pending: Pending | undefined
  #pendingChanged = false
  #groupChanged = false
  #notBefore = 0
  /** When a commit was last dropped, and whether the following wait was reported. */
  #droppedAt = 0
  #isWaitReported = false
  #cancel: (() => void) | undefined
  #failure: StaticError | undefined

  constructor(context: CommitterContext, channel: AgentChannel, pending: Pending | undefined) {
    super()
    this.#context = context
    this.#channel = channel
    this.#pending = pending
  }

  /** Whether messages must wait: one sent after a commit would belong to the epoch before it. */
  get isBusy(): boolean {
    return this.#pending !== undefined
  }

  /** Whether a commit is queued or pending, or can never be made here: earlier work must not wait. */
  get isWaitedFor(): boolean {
    return this.#jobs.length > 0 || this.#pending !== undefined || this.#failure !== undefined
  }

  /** Why nothing can be committed, if nothing can. */
  get refusal(): StaticError | undefined {
    return this.#channel.standing.refusal()
  }

  /**
   * Commits a change. Resolves when the commit is in the log and adopted here.
   *
   * @throws {StaticError} the error that ended the channel, `fork_detected`, or the relay's refusal
   */
  async commit(change: CommitJob['change'], options: CommitOptions = {}): Promise<CommitResult> {
    const { urgent, ...own } = options
    const refusal = this.#channel.standing.refusal(own.isRemoval)
    if (refusal) throw refusal
    const { promise, resolve, reject } = Promise.withResolvers<CommitResult>()
    const job: CommitJob = { change, ...own, done: resolve, failed: reject }
    if (urgent === true) this.#jobs.unshift(job)
    else this.#jobs.push(job)
    this.#channel.turn.work()
    return await promise
  }

  /** Starts the next commit, if any. Returns whether it did. */
  work(group: GroupState): boolean {
    if (this.#pending || this.#jobs.length === 0 || this.#context.now() < this.#notBefore) return false
    if (this.#mustWait(group)) return false
    const job = this.#jobs.shift()
    if (!job) return false
    this.#channel.turn.exclusively(() => this.#make(group, job))
    return true
  }

  /** Everything drained is on disk. */
  override written(): void {
    if (this.#pending?.state === 'made') this.#pending.state = 'stored'
  }

  /** Sends the pending commit. */
  transmit(): void {
    const pending = this.#pending
    const { session } = this.#context
    if (pending?.state !== 'stored' || this.#context.now() < this.#notBefore) return
    pending.state = 'sent'
    session.request({ case: 'sendCommit', value: pending.request }, (outcome) => this.#answered(pending, outcome))
  }

  /** The session is lost. Whether the relay has the commit is unknown, so it is resent. */
  override lose(): void {
    if (this.#pending && this.#pending.state !== 'made') this.#pending.state = 'stored'
  }

  /** Returns the pending commit when it arrives in the log, to be adopted. */
  arrive(messageId: Uint8Array): Pending | undefined {
    const pending = this.#pending
    if (!pending || !same(pending.record.messageId, messageId)) return undefined
    this.#pending = undefined
    // Adopting the epoch also deletes the pending row.
    this.#pendingChanged = false
    return pending
  }

  /** Another commit took the slot: rolls back the pending commit, if any, and creates it again. */
  rollBack(): void {
    const pending = this.#pending
    if (!pending) return
    this.#redo(pending)
  }

  /** Fails all queued commits. The pending one continues. */
  rejectQueued(error: StaticError): void {
    for (const job of this.#jobs.splice(0)) job.failed(error)
  }

  /** Fails all commits, now and later. */
  override end(error: StaticError): void {
    this.#failure ??= error
    this.#cancel?.()
    const jobs = this.#pending?.job ? [this.#pending.job, ...this.#jobs] : this.#jobs
    this.#jobs = []
    for (const job of jobs) job.failed(error)
  }

  /** Returns the changes since the last call. `whole`: the entire epoch is written anyway. */
  override drain(whole: boolean): readonly Change[] {
    const { id, group } = this.#channel
    const changes: Change[] = []
    if (this.#groupChanged && !whole && group) {
      changes.push({ type: 'putGroup', id, group: this.#context.engine.encodeGroup(group.group) })
    }
    if (this.#pendingChanged) changes.push({ type: 'putPending', id, pending: group && this.#pending?.record })
    this.#groupChanged = false
    this.#pendingChanged = false
    return changes
  }

  async #make(group: GroupState, job: CommitJob): Promise<void> {
    const { id, history } = this.#channel
    try {
      // It was requested before the fork was found.
      const refusal = this.#channel.standing.refusal(job.isRemoval)
      if (refusal) throw refusal
      const change = job.change(group)
      if (change === undefined) {
        job.done({ welcomes: [] })
        return
      }
      const pending = await makePending(this.#context, id, group, job, change, history.position.slot)
      const late = this.#failure ?? this.#channel.standing.refusal(job.isRemoval)
      if (late) {
        wipeEpoch(this.#context.engine, pending.next, group.group)
        throw late
      }
      this.#pending = pending
      this.#pendingChanged = true
      // Until the relay answers, it is unknown which of the two keys the other members see.
      const next = this.#context.engine.facts(pending.next.group).own.encryptionKey
      this.#channel.standing.set({ leafKeys: [group.leafKey, Uint8Array.from(next)] })
    } catch (error) {
      job.failed(StaticError.from(error))
    } finally {
      if (this.#channel.group !== group) group.wipe()
      this.#groupChanged = true
      this.#channel.turn.touch()
    }
  }

  #answered(pending: Pending, outcome: Outcome): void {
    // A log entry has already adopted it or rolled it back.
    if (this.#pending !== pending) return
    switch (outcome.type) {
      case 'answered':
        // Adopted when it arrives in the log: entries by other members may precede it.
        pending.state = 'accepted'
        return
      case 'lost':
        return
      case 'refused':
        this.#refused(pending, outcome.error)
    }
    this.#channel.turn.work()
  }

  #refused(pending: Pending, refusal: Refusal): void {
    const wait =
      refusal.code === 'epoch_mismatch' ? this.#mismatchDelay(pending, refusal) : retryDelay(refusal.retryAfterMs)
    const isDeferred = refusal.code === 'unavailable' || refusal.code === 'rate_limited'
    if (isDeferred) pending.deferredSince ??= this.#context.now()
    const waited = isDeferred && pending.deferredSince !== undefined ? this.#context.now() - pending.deferredSince : 0
    switch (waited + wait > (pending.job?.maxWaitMs ?? MAX_WAIT_MS) ? undefined : refusal.code) {
      case 'epoch_mismatch':
        this.#channel.intake.raiseHead(Number(refusal.head ?? 0n))
        this.#waitFor(wait)
        this.#redo(pending, this.#isTaken(refusal) ? undefined : (pending.job?.mismatches ?? 0) + 1)
        return
      case 'unavailable':
      case 'rate_limited':
        pending.state = 'stored'
        this.#report(pending, refusalError(refusal), wait)
        this.#waitFor(wait)
        return
      default:
        this.#drop(pending)
        pending.job?.failed(refusalError(refusal))
    }
  }

  /** Notifies the application if a commit is deferred for a long time. */
  #report(pending: Pending, error: StaticError, waitMs: number): void {
    const now = this.#context.now()
    if (pending.isReported === true || now + waitMs - (pending.deferredSince ?? now) < REPORTED_WAIT_MS) return
    pending.isReported = true
    this.#context.emit({ type: 'throttled', channel: this.#channel.name, error, waitMs })
  }

  /** Whether the relay names a commit that took the slot. */
  #isTaken({ head = 0n }: Refusal): boolean {
    return Number(head) > this.#channel.history.position.slot
  }

  /**
   * If the relay names no commit that took the slot, the wait grows, so that the relay cannot make this agent create
   * commit after commit.
   */
  #mismatchDelay({ job }: Pending, refusal: Refusal): number {
    const { retryAfterMs } = refusal
    if (this.#isTaken(refusal)) return retryAfterMs === undefined ? 0 : retryDelay(retryAfterMs)
    const mismatches = job?.mismatches ?? 0
    return Math.max(retryDelay(retryAfterMs), mismatches > 0 ? MORE_WAIT_MS * 2 ** (mismatches - 1) : 0)
  }

  /** Drops a pending commit and creates it again, with only its remaining time. */
  #redo(pending: Pending, mismatches?: number): void {
    this.#drop(pending)
    const { job, deferredSince } = pending
    if (job) this.#jobs.unshift({ ...job, deferredSince, mismatches })
  }

  /** Whether the next commit must wait because too many in this epoch were refused. If so, wakes up when it is due. */
  #mustWait(group: GroupState): boolean {
    const context = this.#context
    const made = context.engine.commitsMade(group.group)
    const wait = Math.min((made - FREE_COMMITS) * MORE_WAIT_MS, LONGEST_WAIT_MS)
    const passed = context.now() - this.#droppedAt
    // A future time is from before the clock was set back.
    if (passed < 0 || passed >= wait) return false
    const waitMs = wait - passed
    this.#cancel?.()
    this.#cancel = context.later(waitMs, () => this.#channel.turn.work())
    if (!this.#isWaitReported && waitMs >= REPORTED_WAIT_MS) {
      this.#isWaitReported = true
      const error = StaticError.of('unavailable', `The relay has refused ${made} commits by this agent in this epoch.`)
      context.emit({ type: 'throttled', channel: this.#channel.name, error, waitMs })
    }
    return true
  }

  #drop(pending: Pending): void {
    wipeEpoch(this.#context.engine, pending.next, this.#channel.group?.group)
    this.#pending = undefined
    this.#pendingChanged = true
    this.#droppedAt = this.#context.now()
    this.#isWaitReported = false
    if (this.#channel.group) this.#channel.standing.set({ leafKeys: [this.#channel.group.leafKey] })
    this.#channel.turn.touch()
  }

  #waitFor(milliseconds: number): void {
    const context = this.#context
    this.#notBefore = Math.max(this.#notBefore, context.now() + milliseconds)
    this.#cancel?.()
    this.#cancel = context.later(this.#notBefore - context.now(), () => {
      // The timer may fire slightly early by the clock, and nothing else would wake this up.
      this.#notBefore = 0
      this.#channel.turn.work()
    })
  }
}
