/**
 * What a member does by itself: it replaces its keys after a time and a number of messages, and tells the others what it
 * has seen when nobody else did. Not all members at once: each adds a share of its own to the time.
 */
import type { Time } from '../../ports.ts'
import type { CommitJob } from './commits.ts'
import type { FrameKind } from './message-frame.ts'
import type { GroupState } from './group-state.ts'
import type { History } from './history.ts'
import type { Sender } from './sender.ts'
import type { World } from '../agent/context.ts'

/** What upkeep asks of its membership. */
export interface UpkeepHost {
  readonly world: World
  readonly history: History
  readonly sender: Sender
  readonly group: GroupState | undefined
  /** A commit without change must follow the last add. */
  readonly rekeyDue: boolean
  readonly rekeyedAt: Time
  commit(change: CommitJob['change'], options: { readonly urgent: boolean }): Promise<unknown>
  send(kind: FrameKind, payload: Uint8Array): Promise<void>
}

/** When the keys are replaced. */
const REKEY_MS = 24 * 60 * 60 * 1000
const REKEY_MESSAGES = 10_000
/** After so long without a word of this agent or a newer one of the others, and a little more, a heartbeat tells. */
const HEARTBEAT_MS = 60_000
const HEARTBEAT_SPREAD_MS = 15_000

/** The upkeep of one membership. */
export class Upkeep {
  readonly #host: UpkeepHost
  /** Between 0 and 1. */
  readonly #share: number
  #rekeying: Promise<unknown> | undefined
  /** A re-key has failed: not again by itself before the next tick or session. */
  #failed = false
  /** Since when something was seen that nobody was told of, and its index. */
  #untoldSince: Time | undefined
  #untoldIndex = 0

  constructor(host: UpkeepHost) {
    this.#host = host
    this.#share = host.world.chance()
  }

  /** Replaces this agent's keys; one commit is enough, however often it becomes due before it is done. */
  async rekey(): Promise<void> {
    if (!this.#rekeying) {
      const { promise, resolve, reject } = Promise.withResolvers<unknown>()
      // First: to ask for the commit may be to find it due.
      this.#rekeying = promise.finally(() => (this.#rekeying = undefined))
      this.#host
        .commit(() => ({}), { urgent: true })
        .then(resolve, (error: unknown) => {
          this.#failed = true
          reject(error)
        })
    }
    await this.#rekeying
  }

  /** Replaces the keys if the last add or the messages ask for it, unless that has just failed. */
  check(): void {
    const { rekeyDue, sender } = this.#host
    if (!this.#failed && (rekeyDue || sender.sentSinceRekey >= REKEY_MESSAGES)) this.#rekeySoon()
  }

  /** What has failed may be tried again. */
  retry(): void {
    this.#failed = false
    this.check()
  }

  /** Time has passed. */
  tick(now: Time): void {
    this.retry()
    if (now - this.#host.rekeyedAt > REKEY_MS * (1 + this.#share / 10)) this.#rekeySoon()
    if (this.#untoldSince === undefined || this.#host.group?.members.size === 1) return
    if (now - this.#untoldSince < HEARTBEAT_MS + this.#share * HEARTBEAT_SPREAD_MS) return
    this.#untoldSince = undefined
    // If it fails, the next message tells the same.
    this.#host.send('heartbeat', new Uint8Array()).catch(() => {})
  }

  /** Something was seen that nobody was told of. */
  saw(): void {
    this.#untoldSince ??= this.#host.world.now()
    this.#untoldIndex = this.#host.history.position.index
  }

  /** Another has told what it had seen. */
  heard(): void {
    if (this.#host.history.confirmed >= this.#untoldIndex) this.told()
  }

  /** A message of this agent tells what it has seen. */
  told(): void {
    this.#untoldSince = undefined
  }

  #rekeySoon(): void {
    // Whoever waits for it hears of its failure; otherwise it is due again.
    this.rekey().catch(() => {})
  }
}
