/**
 * The turn of one channel: decides what may happen next, and writes what has changed. Commits come before messages,
 * nothing is encrypted for an epoch that the channel has left, and nothing touches the group while a task holds it.
 *
 * The steps of a send, in the order in which they run:
 *
 * 1. `Sender.send` queues the payload and asks for `work`.
 * 2. `work` starts a commit if one is due, and otherwise asks the journal to call `#encrypt` at the end of the turn, so
 *    that payloads of one turn can go together.
 * 3. `#encrypt` → `Sender.encrypt`: what waits becomes one message or more, each encrypted, with its row in the outbox.
 * 4. `Journal.flush` → `drain`: the channel's record, the ratchet and the outbox are written in one transaction.
 * 5. `written` → `AgentChannel.written` → `Sender.written`: the message is on disk, so it may leave.
 * 6. `transmit` → `Sender.transmit`: the request goes to the session.
 * 7. The relay's answer → `Sender.#answered` → `Outbox.answer`: `send` resolves, and the row is marked as answered.
 * 8. The message's entry in the log → `Follower.#ownMessage` → `Outbox.pass`: the row is deleted. An entry that comes
 *    before the answer counts as the answer.
 *
 * A crash before 4 loses a message whose `send` has not resolved: 2 waits while there is no session, a commit is under way
 * or the relay slows this agent down. After 4, the message is sent again as it is.
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
  /** Whether `#encrypt` is called at the end of the turn. */
  #isEncryptDue = false
  #changes: Change[] = []
  #recordChanged = false
  #epochChanged = false
  #dropped: 'due' | 'done' | undefined
  /** The record that was drained last, and the one that is on disk. */
  #drained: ChannelRecord
  #stored: ChannelRecord
  /** Memory is ahead of the disk and stays so. */
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

  /** Continues with everything that can continue. If that throws, the channel breaks. */
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
    // The relay would refuse anything from an epoch that the channel has left.
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

  /** Encrypts what waits for the end of the turn. */
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

  /**
   * Sends what is on disk, even for an epoch that the channel has left: whether the relay has it already, only the relay
   * can say.
   */
  transmit(): void {
    const { standing, intake, sender, committer } = this.#channel
    if (!intake.isOnline || standing.failure) return
    committer.transmit()
    if (!committer.isBusy && standing.isTalking) sender.transmit()
  }

  /** Why messages cannot be sent now, if so. */
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

  /** Runs a task that holds the group until it is done. If it fails, the channel breaks. */
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

  /** The same for a change that may be written later, because a crash may undo it. */
  touchLater(): void {
    this.#recordChanged = true
    this.#context.journal.touchLater(this)
  }

  /** Marks a part as changed, but not the record. */
  touchPart(): void {
    this.#context.journal.touch(this)
  }

  /** The same for a change that may be written later, because a crash may undo it. */
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

  /** Returns everything that has changed. The record comes first: the rows of the parts belong to it. */
  drain(): readonly Change[] {
    const { id, group, history, parts } = this.#channel
    if (this.#dropped) {
      // Only once: the agent may have rejoined by the time the last reader settles.
      const changes: Change[] = this.#dropped === 'due' ? [{ type: 'dropChannel', id }] : []
      this.#dropped = 'done'
      return changes
    }
    if (this.#isAbandoned) return this.#drainAbandoned()
    if (this.#recordChanged) this.#drained = this.#channel.record()
    const whole = this.#epochChanged
    // Not pushed as arguments: a full inbox that is settled in one turn has more changes than the stack has room for.
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

  /** Everything that was drained is on disk. */
  written(): void {
    this.#stored = this.#drained
    if (!this.#dropped) this.attempt(() => this.#channel.written())
  }

  /**
   * Nothing that was drained is written, because it cannot be serialized. From now on memory is ahead of the disk, so the
   * channel is stored as broken at its last written state and can only end.
   */
  abandon(cause: unknown): void {
    this.#isAbandoned = true
    this.#drained = this.#stored
    this.#channel.unstorable(cause)
    this.touch()
  }

  /** The channel's standing at its last written state, and deletions of data that is no longer needed. */
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
    // The newest messages are read from memory: on disk they would be ahead of the channel's position in the log.
    const { index } = this.#stored.position
    const isAhead = (change: Change): boolean => change.type === 'putInbox' && change.record.index > index
    this.#recordChanged = false
    return [...changes, ...inbox.drain().filter((change) => !isAhead(change)), ...poison.drain()]
  }
}
