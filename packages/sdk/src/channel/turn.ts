/**
 * The turn of one channel: decides what may happen next. Commits come before messages, nothing is encrypted for an
 * epoch that the channel has left, and nothing touches the group while a task holds it. Messages are encrypted at the end
 * of the turn, so that those of one turn can go together.
 */
import { StaticError } from '@static/protocol'
import type { AgentContext } from '../agent/context.ts'
import type { Admissions } from '../admitting/admissions.ts'
import type { ReceivedRequests } from './asking/received-requests.ts'
import type { Committer } from './members/committer.ts'
import { GroupLock } from './group-lock.ts'
import type { GroupState } from './group-state.ts'
import type { Intake } from './receiving/intake.ts'
import type { Sender } from './sending/sender.ts'
import { asMlsError } from './mls-error.ts'
import type { Receipts } from './receipts/receipts.ts'
import type { Roster } from './members/roster.ts'
import type { Standing } from './standing.ts'
import type { Upkeep } from './members/upkeep.ts'

/** The parts of a channel that take turns. They may be set after the turn was created. */
export interface TurnParts {
  readonly group: GroupState | undefined
  readonly intake: Intake
  readonly sender: Sender
  readonly committer: Committer
  readonly roster: Roster
  readonly upkeep: Upkeep
  readonly receipts: Receipts
  readonly admissions: Admissions
  readonly requests: ReceivedRequests
}

/** The turn of one membership. */
export class ChannelTurn {
  readonly #context: Pick<AgentContext, 'offline' | 'journal'>
  readonly #parts: TurnParts
  readonly #standing: Standing
  readonly #break: (error: StaticError) => void
  readonly #lock = new GroupLock()
  /** Whether messages wait for nothing but the end of the turn. */
  #isEnding = false

  /** Calls `breakWith` when the channel cannot continue. */
  constructor(
    context: Pick<AgentContext, 'offline' | 'journal'>,
    parts: TurnParts,
    standing: Standing,
    breakWith: (error: StaticError) => void,
  ) {
    this.#context = context
    this.#parts = parts
    this.#standing = standing
    this.#break = breakWith
  }

  /** Whether no task holds the group. */
  get isFree(): boolean {
    return this.#lock.isFree
  }

  /** Resolves when no task holds the group. */
  async idle(): Promise<void> {
    await this.#lock.idle()
  }

  /** Continues with everything that can continue. */
  work(): void {
    const { group, intake, sender, committer, upkeep, requests } = this.#parts
    const { blocked } = intake
    if (blocked) {
      sender.refuse(blocked)
      return committer.refuse(blocked)
    }
    if (!this.#standing.refusal()) requests.resume()
    // The relay would refuse anything from an epoch that the channel has left.
    if (!intake.isCurrent || !this.isFree || !group || this.#standing.failure) return
    if (committer.isBusy) return committer.transmit()
    if (committer.work(group) || !this.#standing.isTalking) return
    this.attempt(() => sender.work(group, upkeep.rekeyFailure))
    if (sender.isReady && !this.#isEnding) {
      this.#isEnding = true
      this.#context.journal.atEnd(() => this.#end())
    }
    sender.transmit()
    if (!this.#standing.refusal()) upkeep.check()
  }

  /** Sends what is on disk. */
  transmit(): void {
    const { intake, sender, committer } = this.#parts
    if (!intake.isOnline || this.#standing.failure) return
    committer.transmit()
    if (!committer.isBusy && this.#standing.isTalking) sender.transmit()
  }

  /** The relay delivers this channel from now on. */
  resume(): void {
    this.#parts.roster.resume()
    this.#parts.upkeep.retry()
    this.#parts.receipts.resumed()
    this.#parts.admissions.resume()
    this.work()
    this.transmit()
  }

  /** Runs a task that holds the group until it is done. If it fails, the channel breaks. */
  exclusively(task: () => Promise<void>): void {
    const guarded = async (): Promise<void> => {
      await task().catch((error: unknown) => this.#break(asMlsError(error)))
    }
    this.#lock.run(guarded, () => this.#parts.intake.pump())
  }

  /** Runs an action. If it throws, the channel breaks. */
  attempt(action: () => void): void {
    try {
      action()
    } catch (error) {
      this.#break(asMlsError(error))
    }
  }

  /** Encrypts what waits for the end of the turn. */
  #end(): void {
    this.#isEnding = false
    const { group, intake, sender, committer, upkeep } = this.#parts
    if (!intake.isCurrent || !this.isFree || !group || this.#standing.failure) return
    if (committer.isBusy || !this.#standing.isTalking) return
    const { counter } = sender
    this.attempt(() => sender.seal(group, upkeep.rekeyFailure))
    // Every message reports what this agent has seen.
    if (sender.counter > counter) upkeep.reported()
  }

  /** Why messages cannot be sent now, if so. */
  obstacle(): StaticError | undefined {
    const { intake, committer } = this.#parts
    const refusal = this.#standing.refusal()
    if (refusal) return refusal
    if (!intake.isOnline) {
      return this.#context.offline ?? StaticError.of('connection_error', 'The relay has not resumed the channel yet.')
    }
    if (!intake.isCurrent) return StaticError.of('unavailable', 'This agent is catching up with the channel.')
    return committer.isBusy ? StaticError.of('unavailable', 'A group change is in progress.') : undefined
  }
}
