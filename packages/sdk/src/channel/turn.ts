/**
 * The turn of one channel: decides what may happen next, and writes all changes. Commits come before messages, nothing
 * is encrypted for a past epoch, and nothing touches the group while a task holds it.
 *
 * The steps of a send, in order:
 *
 * 1. `Sender.send` queues the payload and asks for `work`.
 * 2. `work` starts a commit if one is due, and otherwise asks the journal to call `#encrypt` at the end of the turn, so
 *    that payloads of one turn can go together.
 * 3. `#encrypt` → `Sender.encrypt`: queued payloads become one or more encrypted messages, each with its row in the
 * outbox.
 * 4. `Journal.flush` → `drain`: the channel's record, the ratchet and the outbox are written in one transaction.
 * 5. `written` → `AgentChannel.written` → `Sender.written`: the message is on disk, so it may leave.
 * 6. `transmit` → `Sender.transmit`: the request goes to the session.
 * 7. The relay's answer → `Sender.#answered` → `Outbox.answer`: `send` resolves, and the row is marked as answered.
 * 8. The message's entry in the log → `Follower.#ownMessage` → `Outbox.pass`: the row is deleted. An entry that arrives
 *    before the answer counts as the answer.
 *
 * A crash before 4 loses a message whose `send` has not resolved: 2 waits while there is no session, a commit is under
 * way or the relay slows this agent down. After 4, the message is resent unchanged.
 */
import { StaticError } from '@static/protocol'
import type { AgentContext } from '../agent/context.ts'
import type { Change, ChannelRecord } from '../ports/index.ts'
import type { AgentChannel } from './channel.ts'
import { GroupLock } from './group-lock.ts'
import type { Writer } from './journal.ts'
import { asMlsError } from './mls-error.ts'

/** The turn of one channel. */
export class ChannelTurn implements Writer {
  readonly #context: Pick<AgentContext, 'offline' | 'journal'>
  readonly #channel: AgentChannel
  readonly #lock = new GroupLock()
  /** Whether `#encrypt` runs at the end of the turn. */
  #isEncryptDue = false
  #changes: Change[] = []
  #recordChanged = false
  #epochChanged = false
  #dropped: 'due' | 'done' | undefined
  /** The record drained last, and the one on disk. */
  #drained: ChannelRecord
  #stored: ChannelRecord
  /** Memory is ahead of the disk and will stay so. */
  #isAbandoned = false

  constructor(context: Pick<AgentContext, 'offline' | 'journal'>, channel: AgentChannel, stored: ChannelRecord) {
    this.#context = context
    this.#channel = channel
    this.#drained = stored
    this.#stored = stored
  }

  /** Whether no task holds the group. */
  get isFree(): boolean {
    return this.#lock.isFree
  }

  /** Resolves when no task holds the group. */
  async idle(): Promise<void> {
    await this.#lock.idle()
  }

  // ---- What may happen next ----

  /** Does everything that can be done now. If that throws, the channel breaks. */
  work(): void {
    this.attempt(() => this.#work())
  }

  #work(): void {
    const { group, standing, intake, sender, committer, upkeep, requests } = this.#channel
    const { blocked } = intake
    if (blocked) {
      sender.rejectQueued(blocked)
      return committer.rejectQueued(blocked)
    }
    if (!standing.refusal()) requests.wakeServers()
    // The relay would refuse anything from a past epoch.
    if (!intake.isCurrent || !this.isFree || !group || standing.failure) return
    if (committer.isBusy) return committer.transmit()
    if (committer.work(group) || !standing.isTalking) return
    this.attempt(() => sender.work(group, upkeep.rekeyFailure))
    if (sender.isReady && !this.#isEncryptDue) {
      this.#isEncryptDue = true
      this.#context.journal.atEnd(() => this.#encrypt())
    }
    sender.transmit()
    if (!standing.refusal()) upkeep.check()
  }

  /** Encrypts the payloads queued in this turn. */
  #encrypt(): void {
    this.#isEncryptDue = false
    const { group, standing, intake, sender, committer, upkeep } = this.#channel
    if (!intake.isCurrent || !this.isFree || !group || standing.failure) return
    if (committer.isBusy || !standing.isTalking) return
    const { counter } = sender
    this.attempt(() => sender.encrypt(group, upkeep.rekeyFailure))
    // Every message reports what this agent has seen.
    if (sender.counter > counter) upkeep.reported()
  }

  /** Sends the messages on disk, even for a past epoch: only the relay knows whether it already has them. */
  transmit(): void {
    const { standing, intake, sender, committer } = this.#channel
    if (!intake.isOnline || standing.failure) return
    committer.transmit()
    if (!committer.isBusy && standing.isTalking) sender.transmit()
  }

  /** Why messages cannot be sent now, if they cannot. */
  obstacle(): StaticError | undefined {
    const { standing, intake, committer } = this.#channel
    const refusal = standing.refusal()
    if (refusal) return refusal
    if (!intake.isOnline) {
      return this.#context.offline ?? StaticError.of('connection_error', 'The relay has not resumed the channel yet.')
    }
    if (!intake.isCurrent) return StaticError.of('unavailable', 'This agent is catching up with the channel.')
    return committer.isBusy ? StaticError.of('unavailable', 'A group change is in progress.') : undefined
  }

  /** Runs a task that holds the group until it is done. If the task fails, the channel breaks. */
  exclusively(task: () => Promise<void>): void {
    const guarded = async (): Promise<void> => {
      await task().catch((error: unknown) => this.#channel.break(asMlsError(error)))
    }
    this.#lock.run(guarded, () => this.#channel.intake.pump())
  }

  /** Runs an action. If it throws, the channel breaks. */
  attempt(action: () => void): void {
    try {
      action()
    } catch (error) {
      this.#channel.break(asMlsError(error))
    }
  }

  // ---- What has changed, until the end of the turn ----

  /** Marks the record as changed and adds other changes. */
  touch(...changes: Change[]): void {
    this.#changes.push(...changes)
    this.#recordChanged = true
    this.#context.journal.touch(this)
  }

  /** Like `touch`, for a change that can wait, because a crash may undo it. */
  touchLater(): void {
    this.#recordChanged = true
    this.#context.journal.touchLater(this)
  }

  /** Marks a part as changed, but not the record. */
  touchPart(): void {
    this.#context.journal.touch(this)
  }

  /** Like `touchPart`, for a change that can wait, because a crash may undo it. */
  touchPartLater(): void {
    this.#context.journal.touchLater(this)
  }

  /** Marks the epoch as changed: replaced or removed. */
  touchEpoch(): void {
    this.#epochChanged = true
    this.touch()
  }

  /** Deletes everything about the channel. */
  drop(): void {
    this.#dropped ??= 'due'
    this.touch()
  }

  // ---- The journal writes the turn ----

  /** Returns all changes. The record comes first, because the parts' rows belong to it. */
  drain(): readonly Change[] {
    const { id, group, history, parts } = this.#channel
    if (this.#dropped) {
      // Only once: by the time the last reader settles, the agent may have rejoined.
      const changes: Change[] = this.#dropped === 'due' ? [{ type: 'dropChannel', id }] : []
      this.#dropped = 'done'
      return changes
    }
    if (this.#isAbandoned) return this.#drainAbandoned()
    if (this.#recordChanged) this.#drained = this.#channel.record()
    const whole = this.#epochChanged
    // Not pushed as arguments: settling a full inbox in one turn makes more changes than the stack can hold.
    const changes: Change[] = [
      ...(this.#recordChanged ? [{ type: 'putChannel', record: this.#drained } as const] : []),
      ...this.#changes,
      ...(whole ? [{ type: 'putEpoch', id, epoch: group?.record() } as const] : []),
      ...(group?.drain(id) ?? []),
      ...history.drain(id),
      ...parts.flatMap((part) => part.drain(whole)),
    ]
    this.#changes = []
    this.#recordChanged = false
    this.#epochChanged = false
    return changes
  }

  /** Everything drained is on disk. */
  written(): void {
    this.#stored = this.#drained
    if (!this.#dropped) this.attempt(() => this.#channel.written())
  }

  /**
   * The drained changes cannot be serialized, so none are written. Memory stays ahead of the disk from now on: the
   * channel is stored as broken at its last written state and can only end.
   */
  abandon(cause: unknown): void {
    this.#isAbandoned = true
    this.#drained = this.#stored
    this.#channel.unstorable(cause)
    this.touch()
  }

  /** The channel's standing at its last written state, and deletions of data no longer needed. */
  #drainAbandoned(): readonly Change[] {
    const { id, group, inbox, poison } = this.#channel
    const changes: Change[] = []
    if (this.#recordChanged) {
      const { state, broken, givenUpTo, servedUpTo } = this.#channel.record()
      this.#drained = { ...this.#stored, state, broken, givenUpTo, servedUpTo }
      changes.push({ type: 'putChannel', record: this.#drained })
    }
    if (this.#epochChanged && group === undefined) {
      changes.push({ type: 'putEpoch', id, epoch: undefined })
      this.#epochChanged = false
    }
    // Readers get the newest messages from memory: on disk they would be ahead of the channel's position in the log, and
    // they are delivered again.
    const { index } = this.#stored.position
    const isAhead = (change: Change): boolean =>
      (change.type === 'putInbox' || change.type === 'putKept') && change.record.index > index
    this.#recordChanged = false
    return [...changes, ...inbox.drain().filter((change) => !isAhead(change)), ...poison.drain()]
  }
}
