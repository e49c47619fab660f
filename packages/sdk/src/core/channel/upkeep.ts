/**
 * What a member does by itself: it replaces its keys after a time and a number of messages, and tells the others what it
 * has seen when nobody else did. Not all members at once: each adds a share of its own to the time.
 */
import { StaticError } from '@static/protocol'
import type { Time } from '../../ports.ts'
import type { AgentContext } from '../agent/context.ts'
import type { Committer } from './committer.ts'
import type { ChannelView } from './host.ts'
import type { Intake } from './intake.ts'
import type { Sender } from './sender.ts'
import type { Standing } from './standing.ts'

/** What upkeep works with. */
export interface UpkeepParts {
  readonly sender: Sender
  readonly committer: Committer
  readonly standing: Standing
  readonly intake: Intake
}

/** When the keys are replaced. */
const REKEY_MS = 24 * 60 * 60 * 1000
const REKEY_MESSAGES = 10_000
/** Well before MOST_BURNT, where sending stops: a burst that is refused burns 64 at once. */
const REKEY_BURNT = 512
/** After so long without a word of this agent or a newer one of the others, and a little more, a heartbeat tells. */
const HEARTBEAT_MS = 60_000
const HEARTBEAT_SPREAD_MS = 15_000

/** The upkeep of one membership. */
export class Upkeep {
  readonly #context: Pick<AgentContext, 'now' | 'chance'>
  readonly #channel: ChannelView
  readonly #parts: UpkeepParts
  /** Between 0 and 1. */
  readonly #share: number
  #rekeying: Promise<unknown> | undefined
  /** Why the last re-key has failed: not again by itself before the next tick or session. */
  #failure: StaticError | undefined
  /** Since when something was seen that nobody was told of, and its index. */
  #untoldSince: Time | undefined
  #untoldIndex = 0
  /** When the owner last said which epoch is the group's. */
  #spokeAt: Time = 0

  constructor(context: Pick<AgentContext, 'now' | 'chance'>, channel: ChannelView, parts: UpkeepParts) {
    this.#context = context
    this.#channel = channel
    this.#parts = parts
    this.#share = context.chance()
  }

  /** Whether a commit without change must follow before anybody is told of the last add. */
  get isRekeyDue(): boolean {
    return this.#parts.standing.record.rekeyDue
  }

  /** Why the keys could not be replaced when it was tried last. */
  get rekeyFailure(): StaticError | undefined {
    return this.#failure
  }

  /** Replaces this agent's keys; one commit is enough, however often it becomes due before it is done. */
  async rekey(): Promise<void> {
    if (!this.#rekeying) {
      const { promise, resolve, reject } = Promise.withResolvers<unknown>()
      // First: to ask for the commit may be to find it due.
      this.#rekeying = promise.finally(() => (this.#rekeying = undefined))
      this.#parts.committer
        .commit(() => ({}), { urgent: true })
        .then(resolve, (error: unknown) => {
          this.#failure = StaticError.from(error)
          reject(error)
          // What waits for new keys fails, if it cannot do without.
          this.#parts.sender.retry()
        })
    }
    await this.#rekeying
  }

  /** Replaces the keys if the last add or the messages ask for it, unless that has just failed. */
  check(): void {
    const { sentSinceRekey, burnt } = this.#parts.sender
    if (this.#failure) return
    if (this.isRekeyDue || sentSinceRekey >= REKEY_MESSAGES || burnt >= REKEY_BURNT) this.#rekeySoon()
  }

  /** What has failed may be tried again. */
  retry(): void {
    this.#failure = undefined
    this.check()
  }

  /** As the owner: says which epoch is the group's, since some members may be in another. At most once a minute. */
  speak(): void {
    const { sender, standing } = this.#parts
    const now = this.#context.now()
    if (standing.refusal() || Math.abs(now - this.#spokeAt) < HEARTBEAT_MS) return
    this.#spokeAt = now
    // If it fails, the next message says the same.
    sender.send('heartbeat', new Uint8Array()).catch(() => {})
  }

  /** Time has passed. */
  tick(now: Time): void {
    const { intake, standing, sender } = this.#parts
    if (!intake.isOnline || standing.record.state !== 'joined' || standing.refusal()) return
    this.retry()
    if (now - standing.record.rekeyedAt > REKEY_MS * (1 + this.#share / 10)) this.#rekeySoon()
    if (this.#untoldSince === undefined || this.#channel.group?.members.size === 1) return
    if (now - this.#untoldSince < HEARTBEAT_MS + this.#share * HEARTBEAT_SPREAD_MS) return
    this.#untoldSince = undefined
    // If it fails, the next message tells the same.
    sender.send('heartbeat', new Uint8Array()).catch(() => {})
  }

  /** Something was seen that nobody was told of. */
  saw(): void {
    this.#untoldSince ??= this.#context.now()
    this.#untoldIndex = this.#channel.history.position.index
  }

  /** Another has told what it had seen. */
  heard(): void {
    if (this.#channel.history.confirmed >= this.#untoldIndex) this.reported()
  }

  /** A message of this agent tells what it has seen. */
  reported(): void {
    this.#untoldSince = undefined
  }

  #rekeySoon(): void {
    // Whoever waits for it hears of its failure; otherwise it is due again.
    this.rekey().catch(() => {})
  }
}
