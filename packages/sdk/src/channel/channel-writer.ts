/**
 * Collects the changes of one channel that are written at the end of a turn. If they cannot be serialized, none of them
 * is written. From then on memory is ahead of the disk, so the channel is stored as broken at its last written state
 * and can only end.
 */
import type { Change, ChannelId, ChannelRecord } from '../ports/index.ts'
import type { Admissions } from '../admitting/admissions.ts'
import type { Asks } from './asking/asks.ts'
import type { ReceivedRequests } from './asking/received-requests.ts'
import type { Committer } from './members/committer.ts'
import type { GroupState } from './group-state.ts'
import type { Journal, Writer } from './journal.ts'
import type { History } from './log/history.ts'
import type { Inbox } from './receiving/inbox.ts'
import type { Poison } from './receiving/poison.ts'
import type { Sender } from './sending/sender.ts'
import type { Receipts } from './receipts/receipts.ts'
import type { Roster } from './members/roster.ts'

/** The parts of a channel that have changes to write. */
export interface WrittenParts {
  readonly id: ChannelId
  readonly group: GroupState | undefined
  readonly history: History
  readonly committer: Committer
  readonly roster: Roster
  readonly sender: Sender
  readonly inbox: Inbox
  readonly poison: Poison
  readonly receipts: Receipts
  readonly requests: ReceivedRequests
  readonly asks: Asks
  readonly admissions: Admissions
}

/** What a writer asks of its membership. */
export interface WriterHost {
  /** The channel's record as it is now. */
  record(): ChannelRecord
  /** Called when everything that was drained is on disk. */
  written(): void
  /** Called when the channel cannot be stored. */
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
  /** Memory is ahead of the disk and stays so. */
  #isAbandoned = false

  constructor(journal: Journal, parts: WrittenParts, host: WriterHost, stored: ChannelRecord) {
    this.#journal = journal
    this.#parts = parts
    this.#host = host
    this.#drained = stored
    this.#stored = stored
  }

  /** Marks the record as changed and adds other changes. */
  touch(...changes: Change[]): void {
    this.#changes.push(...changes)
    this.#recordChanged = true
    this.#journal.touch(this)
  }

  /** The same for a change that may be written later, because a crash may undo it. */
  touchLater(): void {
    this.#recordChanged = true
    this.#journal.touchLater(this)
  }

  /** Marks a part other than the record as changed. */
  touchPart(): void {
    this.#journal.touch(this)
  }

  /** The same, later. */
  touchPartLater(): void {
    this.#journal.touchLater(this)
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

  drain(): readonly Change[] {
    const { id, group, committer, history, roster, sender, inbox, poison, receipts } = this.#parts
    const { requests, asks, admissions } = this.#parts
    if (this.#dropped) {
      // Only once: the agent may have rejoined by the time the last reader settles.
      const changes: Change[] = this.#dropped === 'due' ? [{ type: 'dropChannel', id }] : []
      this.#dropped = 'done'
      return changes
    }
    if (this.#isAbandoned) return this.#drainAbandoned()
    if (this.#recordChanged) this.#drained = this.#host.record()
    // Not pushed as arguments: a full inbox that is settled in one turn has more changes than the stack has room for.
    const changes: Change[] = [
      ...(this.#recordChanged ? [{ type: 'putChannel', record: this.#drained } as const] : []),
      ...this.#changes,
      ...(this.#epochChanged ? [{ type: 'putEpoch', id, epoch: group?.record() } as const] : []),
      ...committer.drain(this.#epochChanged),
      ...(group?.drain(id) ?? []),
      ...history.drain(id),
      ...roster.drain(),
      ...sender.drain(),
      ...inbox.drain(),
      ...poison.drain(),
      ...receipts.drain(),
      ...requests.inbox.drain(),
      ...asks.drain(),
      ...admissions.drain(),
    ]
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

  /** The channel's standing at its last written state, and deletions of data that is no longer needed. */
  #drainAbandoned(): readonly Change[] {
    const { id, group, inbox, poison } = this.#parts
    const changes: Change[] = []
    if (this.#recordChanged) {
      const { state, broken, givenUpTo, servedUpTo } = this.#host.record()
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
