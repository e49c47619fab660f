/**
 * What this agent shows in a channel: nothing, unless its application has said so for this channel. It shows its proof
 * once it has joined, after others have joined, when the owner asks, and before a verdict lapses. That it has to is on
 * disk before the entry that made it so is acknowledged, and until the proof is.
 */
import { fromHex, StaticError } from '@static/protocol'
import type { AgentContext } from '../../agent/context.ts'
import type { Change, OwnProofRecord, Time } from '../../ports/index.ts'
import type { AgentChannel } from '../channel.ts'
import { encodeShown } from './proof-frame.ts'

/** After others joined, members show their proofs after a random part of this, so that not all do at once. */
const SPREAD_MS = 60_000
/** A proof is shown again at most this often; when the owner asks, or is another one, after this. */
const AGAIN_MS = 10 * 60_000
const ASKED_MS = 60_000
/** Verdicts on tokens lapse after twice this. */
const RENEW_MS = 12 * 3_600_000

const NOTHING: OwnProofRecord = { place: 0, show: undefined, due: false, shownAt: 0, require: undefined }

export class Showing {
  readonly #context: AgentContext
  readonly #channel: AgentChannel
  #record: OwnProofRecord
  #isChanged = false
  /** When it tries next; undefined while nothing is planned. */
  #at: Time | undefined
  #cancel: (() => void) | undefined
  #isShowing = false
  /** Counts the reasons to show it: one that comes while it is shown needs another time. */
  #reasons = 0
  #hasEnded = false

  constructor(context: AgentContext, channel: AgentChannel, stored: OwnProofRecord | undefined) {
    this.#context = context
    this.#channel = channel
    this.#record = stored ?? NOTHING
  }

  /** The entry that added this agent. */
  get place(): number {
    return this.#record.place
  }

  /** Whose proof this agent shows. */
  get show(): string | undefined {
    return this.#record.show
  }

  /** As the owner: the rules for those that others add. */
  get require(): string | undefined {
    return this.#record.require
  }

  /** The log begins here for this agent. What the application has said stays. */
  start(index: number): void {
    this.#put({ place: index, shownAt: 0, due: this.#record.show !== undefined })
  }

  /** The application says whose proof this agent shows here, and what it demands as the owner. */
  choose(fields: Partial<Pick<OwnProofRecord, 'show' | 'require'>>): void {
    const isNew = 'show' in fields && fields.show !== this.#record.show
    this.#put({ ...fields, ...(isNew && { due: fields.show !== undefined, shownAt: 0 }) })
    this.retry()
  }

  /** Others have joined, and have not seen this agent's proof. */
  joined(): void {
    this.#renew(AGAIN_MS)
  }

  /** Another agent owns the channel: a proof that was on its way meanwhile is void. */
  ownerChanged(): void {
    this.#renew(ASKED_MS)
  }

  #renew(leastMs: number): void {
    if (this.#record.show === undefined) return
    this.#put({ due: true })
    this.#plan(this.#context.chance() * SPREAD_MS, leastMs)
  }

  /** The owner asks for the proof. */
  asked(): void {
    if (this.#record.show === undefined) return
    this.#put({ due: true })
    this.#plan(0, ASKED_MS)
  }

  /** Shows the proof if it is due. */
  retry(): void {
    const { show, due, shownAt } = this.#record
    if (show === undefined || this.#hasEnded) return
    const age = this.#context.now() - shownAt
    // A time in the future is from before the clock was set back.
    if (!due && shownAt > 0 && age >= 0 && age < RENEW_MS) return
    if (!due) this.#put({ due: true })
    if (this.#at === undefined) this.#plan(0, AGAIN_MS)
    else if (this.#at <= this.#context.now()) void this.#showNow()
  }

  end(): void {
    this.#hasEnded = true
    this.#cancel?.()
  }

  /** Returns the changes since the last call. */
  drain(): readonly Change[] {
    if (!this.#isChanged) return []
    this.#isChanged = false
    return [{ type: 'putOwnProof', id: this.#channel.id, own: this.#record }]
  }

  /** Plans to show it after a delay, but not too soon after the last time. */
  #plan(delayMs: number, leastMs: number): void {
    const now = this.#context.now()
    const { shownAt } = this.#record
    const age = now - shownAt
    const rest = shownAt > 0 && age >= 0 ? Math.max(0, leastMs - age) : 0
    const waitMs = Math.max(delayMs, rest)
    if (this.#at !== undefined && this.#at <= now + waitMs && this.#at > now) return
    this.#at = now + waitMs
    this.#cancel?.()
    this.#cancel = this.#context.later(waitMs, () => void this.#showNow())
  }

  async #showNow(): Promise<void> {
    const { intake, standing, owner, channelId, group, sender } = this.#channel
    const { proofs, key } = this.#context
    const { show, place, due } = this.#record
    if (this.#isShowing || this.#hasEnded || !due || show === undefined || !proofs) return
    // It is retried when the channel is resumed.
    if (!intake.isOnline || standing.record.state !== 'joined' || standing.refusal() || !group) return
    this.#isShowing = true
    const reasons = this.#reasons
    try {
      const proof = await proofs.make(show, { channelId, ownerId: fromHex(owner), publicKey: key.publicKey, place })
      // Another agent owns the channel now, or this agent was added again: `change` or `start` has planned another.
      if (this.#channel.owner !== owner || this.#record.place !== place || this.#record.show !== show) return
      // Before it is sent: a crash in between shows it once more.
      this.#put({ shownAt: this.#context.now() })
      await sender.send('proof', encodeShown({ place, proof }))
      if (reasons === this.#reasons) this.#put({ due: false })
    } catch (error) {
      const reason = StaticError.from(error)
      if (reason.code === 'closed' || this.#hasEnded) return
      this.#put({ shownAt: this.#context.now() })
      const proof = { state: 'invalid', reason: reason.message } as const
      this.#context.emit({
        type: 'proof_lapsed',
        channel: this.#channel.name,
        member: this.#context.agentId,
        proof,
      })
    } finally {
      this.#isShowing = false
      this.#at = undefined
      if (this.#record.due) this.#plan(AGAIN_MS, AGAIN_MS)
    }
  }

  #put(fields: Partial<OwnProofRecord>): void {
    if (fields.due === true) this.#reasons++
    this.#record = { ...this.#record, ...fields }
    this.#isChanged = true
    this.#channel.turn.touchPart()
  }
}
