/**
 * Automatic tasks of a member: it replaces its keys after a time or a number of messages. If it signs no receipts, it
 * also sends a heartbeat with what it has seen, unless another member has. Each member adds a random share to these
 * times, so that not all act at once.
 */
import { StaticError } from '@static/protocol'
import type { Time } from '../../ports/index.ts'
import type { AgentContext } from '../../agent/context.ts'
import type { AgentChannel } from '../channel.ts'
import { Part } from '../part.ts'

/** The keys are replaced after this time or this many messages. */
const REKEY_MS = 24 * 60 * 60 * 1000
const REKEY_MESSAGES = 10_000
/** Well below MOST_BURNT, where sending stops: one refused burst burns 64. */
const REKEY_BURNT = 512
/**
 * A rekey that the relay refused, or deferred until this agent gave up, restarts after this time. The wait then grows
 * to as long as it has been failing, up to the maximum: messages and other commits wait for every attempt, and each
 * uses up a key of the epoch.
 */
const REKEY_AGAIN_MS = 60_000
const REKEY_LONGEST_MS = 16 * REKEY_AGAIN_MS
/**
 * A heartbeat follows after this time, plus a random share of the spread, if no message has reported what this agent
 * has seen.
 */
const HEARTBEAT_MS = 60_000
const HEARTBEAT_SPREAD_MS = 15_000

/** The upkeep of one channel. */
export class Upkeep extends Part {
  readonly #context: Pick<AgentContext, 'now' | 'chance'>
  readonly #channel: AgentChannel
  /** Between 0 and 1. */
  readonly #share: number
  #rekeying: Promise<unknown> | undefined
  /** Why the last rekey failed. Not retried automatically before the next tick or session, or `#rekeyAgainAt`. */
  #failure: StaticError | undefined
  #rekeyAgainAt: Time
  /** When an entry that no message has reported was first seen, and its index. */
  #unreportedSince: Time | undefined
  #unreportedIndex = 0
  /** When this agent last showed its epoch. */
  #spokeAt: Time = 0

  constructor(context: Pick<AgentContext, 'now' | 'chance'>, channel: AgentChannel) {
    super()
    this.#context = context
    this.#channel = channel
    this.#share = context.chance()
    this.#rekeyAgainAt = this.#nextRekey()
    if (this.#isDeferred) this.#failure = StaticError.of('unavailable', 'The relay has refused to replace the keys.')
  }

  /** Whether an empty commit must follow before the last add is complete. */
  get isRekeyDue(): boolean {
    return this.#channel.standing.record.rekeyDue
  }

  /** Why the last attempt to replace the keys failed, if it did. */
  get rekeyFailure(): StaticError | undefined {
    return this.#failure
  }

  /** Replaces this agent's keys. Concurrent calls share one commit. */
  async rekey(): Promise<void> {
    if (!this.#rekeying) {
      const { promise, resolve, reject } = Promise.withResolvers<unknown>()
      // Set before the commit is requested, because the request may find a rekey due.
      this.#rekeying = promise.finally(() => (this.#rekeying = undefined))
      this.#channel.committer
        .commit(() => ({}), { urgent: true })
        .then(resolve, (error: unknown) => {
          this.#failure = StaticError.from(error)
          this.#defer()
          reject(error)
          // Messages that need new keys fail now.
          this.#channel.sender.retry()
        })
    }
    await this.#rekeying
  }

  /** Replaces the keys if the last add or the number of messages requires it, unless that has just failed. */
  check(): void {
    const { sentSinceRekey, burnt } = this.#channel.sender
    if (this.#failure) return
    if (this.isRekeyDue || sentSinceRekey >= REKEY_MESSAGES || burnt >= REKEY_BURNT) this.#rekeySoon()
  }

  override resumed(): void {
    this.retry()
  }

  /** Allows a failed rekey to be retried, once it is due again. */
  retry(): void {
    if (this.#isDeferred) return
    this.#failure = undefined
    this.check()
  }

  /** Sends a heartbeat to show this agent's epoch, because members may disagree on it. At most once a minute. */
  speak(): void {
    const { sender, standing } = this.#channel
    const now = this.#context.now()
    if (standing.refusal() || Math.abs(now - this.#spokeAt) < HEARTBEAT_MS) return
    this.#spokeAt = now
    // If it fails, the next message confirms the same.
    sender.send('heartbeat', new Uint8Array()).catch(() => {})
  }

  /** Does what is due. Called regularly. */
  tick(now: Time): void {
    const { intake, standing, sender, receipts, listedInvites } = this.#channel
    if (!intake.isOnline || standing.record.state !== 'joined' || standing.refusal()) return
    this.retry()
    listedInvites.retry()
    if (!this.#failure && now - standing.record.rekeyedAt > REKEY_MS * (1 + this.#share / 10)) this.#rekeySoon()
    // Receipts report the same at no cost.
    if (receipts.mode !== 'off') return
    if (this.#unreportedSince === undefined || this.#channel.group?.members.size === 1) return
    if (now - this.#unreportedSince < HEARTBEAT_MS + this.#share * HEARTBEAT_SPREAD_MS) return
    this.#unreportedSince = undefined
    // If it fails, the next message reports the same.
    sender.send('heartbeat', new Uint8Array()).catch(() => {})
  }

  /** An entry was seen that no message has reported yet. */
  saw(): void {
    this.#unreportedSince ??= this.#context.now()
    this.#unreportedIndex = this.#channel.history.position.index
  }

  /** Another member has reported what it has seen. */
  othersReported(): void {
    if (this.#channel.history.confirmed >= this.#unreportedIndex) this.reported()
  }

  /** This agent has sent a message, which reports what it has seen. */
  reported(): void {
    this.#unreportedSince = undefined
  }

  /** Whether the relay refused or deferred the last rekey, so that the next one must wait. */
  get #isDeferred(): boolean {
    if (this.#channel.standing.record.rekeyDeferredAt === 0) return false
    const wait = this.#rekeyAgainAt - this.#context.now()
    // A longer wait is from before the clock was set back.
    return wait > 0 && wait <= REKEY_LONGEST_MS
  }

  #defer(): void {
    const { standing } = this.#channel
    // Not attempted at all, because of a fork or because the channel ends here.
    if (standing.refusal()) return
    const { rekeyDeferredAt } = standing.record
    if (rekeyDeferredAt === 0) standing.set({ rekeyDeferredAt: this.#context.now() })
    this.#rekeyAgainAt = this.#nextRekey()
  }

  /** When a failed rekey is next due. Based on its first failure, so a restart does not hasten it. */
  #nextRekey(): Time {
    const since = this.#channel.standing.record.rekeyDeferredAt
    const passed = Math.max(0, this.#context.now() - since)
    let after = REKEY_AGAIN_MS
    while (after <= passed && after < REKEY_LONGEST_MS) after *= 2
    return since + (after > passed ? after : REKEY_LONGEST_MS * Math.ceil((passed + 1) / REKEY_LONGEST_MS))
  }

  #rekeySoon(): void {
    // Callers of `rekey` get the error; otherwise the rekey becomes due again.
    this.rekey().catch(() => {})
  }
}
