/**
 * What of one channel is written at the end of a turn. When its changes cannot be put into bytes, none of them is
 * written: memory is ahead of the disk from then on, so the channel is written as broken where it stood, and nothing
 * follows but its end.
 */
import type { Change, ChannelId, ChannelRecord } from '../../ports.ts'
import type { Committer } from './committer.ts'
import type { GroupState } from './group-state.ts'
import type { History } from './history.ts'
import type { Inbox } from './inbox.ts'
import type { Journal, Writer } from './journal.ts'
import type { Poison } from './poison.ts'
import type { Roster } from './roster.ts'
import type { Sender } from './sender.ts'

/** What is asked for its changes. */
export interface WrittenParts {
  readonly id: ChannelId
  readonly group: GroupState | undefined
  readonly history: History
  readonly committer: Committer
  readonly roster: Roster
  readonly sender: Sender
  readonly inbox: Inbox
  readonly poison: Poison
}

/** What a writer asks of its membership. */
export interface WriterHost {
  /** The channel's record as it is now. */
  record(): ChannelRecord
  /** Everything that was drained is on disk. */
  written(): void
  /** The channel cannot be stored. */
  unstorable(cause: unknown): void
}

/** The writer of one membership. */
export class ChannelWriter implements Writer {
  readonly #journal: Journal
  readonly #parts: WrittenParts
  readonly #host: WriterHost
  #changes: Change[] = []
  #recordChanged = false
  #epochChanged = false
  #dropped: 'due' | 'done' | undefined
  /** The record that was drained last, and the one that is on disk. */
  #drained: ChannelRecord
  #stored: ChannelRecord
  /** Memory is ahead of the disk for good. */
  #isAbandoned = false

  constructor(journal: Journal, parts: WrittenParts, host: WriterHost, stored: ChannelRecord) {
    this.#journal = journal
    this.#parts = parts
    this.#host = host
    this.#drained = stored
    this.#stored = stored
  }

  /** The record has changed, and what else is added. */
  touch(...changes: Change[]): void {
    this.#changes.push(...changes)
    this.#recordChanged = true
    this.#journal.touch(this)
  }

  /** The same for a change that nobody waits for and that a crash may undo. */
  touchLater(): void {
    this.#recordChanged = true
    this.#journal.touchLater(this)
  }

  /** Something else than the record has changed. */
  touchPart(): void {
    this.#journal.touch(this)
  }

  /** There is another epoch, or none any more. */
  touchEpoch(): void {
    this.#epochChanged = true
    this.touch()
  }

  /** Everything about the channel is deleted. */
  drop(): void {
    this.#dropped ??= 'due'
    this.touch()
  }

  drain(): readonly Change[] {
    const { id, group, committer, history, roster, sender, inbox, poison } = this.#parts
    if (this.#dropped) {
      // Once: the agent may have joined again when the last reader settles.
      const changes: Change[] = this.#dropped === 'due' ? [{ type: 'dropChannel', id }] : []
      this.#dropped = 'done'
      return changes
    }
    if (this.#isAbandoned) return this.#drainAbandoned()
    const changes: Change[] = []
    if (this.#recordChanged) {
      this.#drained = this.#host.record()
      changes.push({ type: 'putChannel', record: this.#drained })
    }
    changes.push(...this.#changes)
    if (this.#epochChanged) changes.push({ type: 'putEpoch', id, epoch: group?.record() })
    changes.push(...committer.drain(this.#epochChanged))
    if (group) changes.push(...group.drain(id))
    changes.push(...history.drain(id), ...roster.drain(), ...sender.drain(), ...inbox.drain())
    changes.push(...poison.drain())
    this.#changes = []
    this.#recordChanged = false
    this.#epochChanged = false
    return changes
  }

  written(): void {
    this.#stored = this.#drained
    if (!this.#dropped) this.#host.written()
  }

  abandon(cause: unknown): void {
    this.#isAbandoned = true
    this.#drained = this.#stored
    this.#host.unstorable(cause)
    this.touch()
  }

  /** How the channel stands, where it was written last; and what need not be kept any longer. */
  #drainAbandoned(): readonly Change[] {
    const { id, group, inbox, poison } = this.#parts
    const changes: Change[] = []
    if (this.#recordChanged) {
      const { state, broken, givenUpTo } = this.#host.record()
      this.#drained = { ...this.#stored, state, broken, givenUpTo }
      changes.push({ type: 'putChannel', record: this.#drained })
    }
    if (this.#epochChanged && group === undefined) {
      changes.push({ type: 'putEpoch', id, epoch: undefined })
      this.#epochChanged = false
    }
    // What came last is read from memory: on disk it would be ahead of the channel's place in the log.
    const { index } = this.#stored.position
    const isAhead = (change: Change): boolean => change.type === 'putInbox' && change.record.index > index
    changes.push(...inbox.drain().filter((change) => !isAhead(change)), ...poison.drain())
    this.#recordChanged = false
    return changes
  }
}
