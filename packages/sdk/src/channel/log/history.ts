/**
 * A channel's log as this agent has seen it: the hash chain over all entries, and the progress of each sender. Every
 * message states what its sender had seen. If that differs from this agent's view, the relay has shown its members
 * different logs (SPEC.md, 5.2). Pure: it keeps no entries and makes no decisions about the group.
 *
 * It cannot detect that the last message is withheld, or that two groups are kept apart forever. `verify` can.
 */
import { sha256 } from '#platform/crypto'
import { type ChainEntry, chainNext, HASH_BYTES, toHex } from '@static/protocol'
import { same } from '../../platform/bytes.ts'
import type { AgentId, Change, ChannelId, ChainRecord, PositionRecord, SenderRecord } from '../../ports/index.ts'
import type { Frame } from '../sending/message-frame.ts'
import { packIdOf } from '../sending/pack.ts'
import { ChainRows } from './chain-rows.ts'

/** The number of past hashes kept for comparison, even across a restart: a sender may be this far behind. */
const KEPT = 1024
/** Replaces the hash of a sender's last frame if that frame may be in a gap. */
const UNKNOWN = new Uint8Array(HASH_BYTES)
/** The progress of a sender that has sent nothing yet. */
const NOT_HEARD = { counter: 0, ownHash: UNKNOWN, accepted: false }

/** How a sender's view of the log differs from this agent's. */
export type Difference = 'seen' | 'counter' | 'own chain' | 'receipt'

export class History {
  #position: PositionRecord
  /** The hashes of the last entries, by index modulo KEPT. */
  readonly #hashes: (Uint8Array | undefined)[] = []
  /** The first index whose hash can be compared. */
  #since: number
  readonly #senders: Map<AgentId, SenderRecord>
  /** Senders whose progress is not written yet. */
  readonly #changed = new Set<AgentId>()
  /** The last index confirmed by another member. */
  confirmed = 0
  /** The indexes of this agent's own messages among the last entries, by id. */
  readonly #own = new Map<string, number>()
  readonly #rows: ChainRows

  constructor(position: PositionRecord, senders: readonly SenderRecord[] = [], chain: readonly ChainRecord[] = []) {
    this.#position = position
    this.#hashes[position.index % KEPT] = position.hash
    this.#senders = new Map(senders.map((sender) => [sender.agent, sender]))
    this.#rows = new ChainRows(KEPT, position, chain)
    this.#since = this.#rows.restore((index, hash, messageId) => {
      this.#hashes[index % KEPT] = hash
      if (messageId) this.#own.set(messageId, index)
    })
  }

  /** The first index that can be compared. */
  get since(): number {
    return Math.max(this.#since, this.#position.index - KEPT + 1)
  }

  /** Whether this agent's chain has this hash at an index; undefined if unknown. */
  compare(index: number, hash: Uint8Array): boolean | undefined {
    if (index > this.#position.index || index < this.since) return undefined
    const own = this.#hashes[index % KEPT]
    return own && same(own, hash)
  }

  /** Whether this agent's chain has this entry at its index; undefined if unknown. */
  has(index: number, entry: ChainEntry): boolean | undefined {
    const before = index > this.since ? this.#hashes[(index - 1) % KEPT] : undefined
    return before && this.compare(index, chainNext(sha256, before, entry))
  }

  /** The index of this agent's message, or of its pack, if it is among the last entries. */
  ownIndex(messageId: Uint8Array): number | undefined {
    return this.#own.get(toHex(packIdOf(messageId)))
  }

  /** The last entry is a message of this agent. */
  sentHere(messageId: Uint8Array): void {
    const { index } = this.#position
    const id = toHex(messageId)
    this.#own.set(id, index)
    this.#rows.own(index, id)
    for (const [old, at] of this.#own) {
      if (at > index - KEPT) break
      this.#own.delete(old)
    }
  }

  /** The last entry. */
  get position(): PositionRecord {
    return this.#position
  }

  /** The progress of a sender, if it has sent anything or was accepted. */
  sender(agent: AgentId): SenderRecord | undefined {
    return this.#senders.get(agent)
  }

  /** Whether a sender has sent anything with its current leaf. */
  hasHeard(agent: AgentId): boolean {
    return (this.#senders.get(agent)?.counter ?? 0) > 0
  }

  /** Appends the next entry. */
  advance(entry: ChainEntry): void {
    const { index, slot } = this.#position
    this.#move({
      index: index + 1,
      hash: chainNext(sha256, this.#position.hash, entry),
      slot: entry.kind === 'commit' ? slot + 1 : slot,
    })
  }

  /** Skips entries that were deleted. Nothing before them can be compared any longer. */
  skipTo(position: PositionRecord): AgentId[] {
    this.#since = position.index
    this.#move(position)
    this.#rows.restart(position.index)
    // How far senders got in the gap is unknown, except that they do not go back.
    for (const [agent, sender] of this.#senders) this.#put({ ...sender, agent, ownHash: UNKNOWN })
    return [...this.#senders.keys()]
  }

  /**
   * Whether this repeats an earlier message from the sender. MLS does not sign a message's position, so a member that
   * colludes with the relay can re-encrypt another member's message (RFC 9750). It must not be delivered twice,
   * whatever else follows from it.
   */
  repeats(sender: AgentId, { counter }: Frame): boolean {
    return counter <= (this.#senders.get(sender)?.counter ?? 0)
  }

  /**
   * Compares a sender's view with this agent's. Call it before `advance` with the same entry, whose envelope has this
   * counter. The first message from a sender sets its counter and chain. An accepted sender is not compared until it is
   * removed, because it could make a difference with every message.
   */
  judge(sender: AgentId, frame: Frame, envelopeCounter: number = frame.counter): Difference | undefined {
    const known = this.#senders.get(sender)
    const { seen, counter, previous } = frame
    if (known?.accepted === true) return undefined
    if (counter !== envelopeCounter) return 'counter'
    if (!this.#agrees(seen)) return 'seen'
    if (this.repeats(sender, frame)) return 'counter'
    if (known === undefined || same(known.ownHash, UNKNOWN)) return undefined
    if (counter !== known.counter + 1) return 'counter'
    return same(previous, known.ownHash) ? undefined : 'own chain'
  }

  /** Records a sender's message. */
  record(sender: AgentId, frame: Frame, frameHash: Uint8Array): void {
    const accepted = this.#senders.get(sender)?.accepted ?? false
    this.#put({ agent: sender, counter: frame.counter, ownHash: frameHash, accepted })
    // An accepted sender's view is not compared, so it confirms nothing.
    if (!accepted && this.#agrees(frame.seen)) this.confirmed = Math.max(this.confirmed, frame.seen.index)
  }

  /**
   * Records a message that is not a frame, if it is in its place. It is skipped, but its sender's next frame follows
   * it: a faulty client must not look like a relay that hides messages.
   */
  recordNonFrame(sender: AgentId, counter: number, bytesHash: Uint8Array): void {
    const { counter: last, ownHash, accepted } = this.#senders.get(sender) ?? NOT_HEARD
    const isInPlace = same(ownHash, UNKNOWN) ? counter > last : counter === last + 1
    if (isInPlace) this.#put({ agent: sender, counter, ownHash: bytesHash, accepted })
  }

  /** Forgets a sender. If it is added again, it starts over. */
  forget(sender: AgentId): void {
    this.#senders.delete(sender)
    this.#changed.add(sender)
  }

  /**
   * A sender has a new leaf and counts from 1 again. It stays accepted; otherwise it could stop the channel with every
   * leaf.
   */
  restart(sender: AgentId): void {
    const accepted = this.#senders.get(sender)?.accepted ?? false
    this.forget(sender)
    if (accepted) this.accept(sender)
  }

  /** The application continues even though this member has seen a different log. */
  accept(sender: AgentId): void {
    const known = this.#senders.get(sender) ?? NOT_HEARD
    this.#put({ ...known, agent: sender, accepted: true })
  }

  /** Returns the changed senders since the last call. */
  drain(id: ChannelId): Change[] {
    const changes = [...this.#changed].map((agent): Change => {
      const sender = this.sender(agent)
      return sender ? { type: 'putSender', id, sender } : { type: 'dropSender', id, agent }
    })
    this.#changed.clear()
    changes.push(...this.#rows.drain(id, this.#position.index, (index) => this.#hashes[index % KEPT] ?? UNKNOWN))
    return changes
  }

  #agrees({ index, hash }: Frame['seen']): boolean {
    if (index > this.#position.index) return false
    return this.compare(index, hash) ?? true
  }

  #put(sender: SenderRecord): void {
    this.#senders.set(sender.agent, sender)
    this.#changed.add(sender.agent)
  }

  #move(position: PositionRecord): void {
    this.#position = position
    this.#hashes[position.index % KEPT] = position.hash
  }
}
