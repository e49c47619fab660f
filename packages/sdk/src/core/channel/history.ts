/**
 * A channel's log as this agent has seen it: the chain of hashes over all entries, and how far each sender has got.
 * Every message tells what its sender had seen; where that differs from what was seen here, the relay has shown its
 * members different logs (SPEC.md, 5.2). Pure: it keeps no entry and decides nothing about the group.
 *
 * It cannot show that the last message was withheld, or that two sides are kept apart for ever: `verify` does.
 */
import { hash } from 'node:crypto'
import { type ChainEntry, chainNext, HASH_BYTES } from '@static/protocol'
import type { AgentId, Change, ChannelId, PositionRecord, SenderRecord } from '../../ports.ts'
import type { Frame } from './message-frame.ts'

/** How many past hashes are kept to compare with: a sender may be that far behind. */
const KEPT = 1024
/** In place of the hash of a sender's last frame, if that may be in a gap. */
const UNKNOWN = new Uint8Array(HASH_BYTES)

/** What differs between a sender's account of the log and this agent's own. */
export type Difference = 'seen' | 'counter' | 'own chain'

export const sha256 = (bytes: Uint8Array): Uint8Array => hash('sha256', bytes, 'buffer')

/** The log so far. */
export class History {
  #position: PositionRecord
  /** The hashes of the last entries, by index modulo KEPT. */
  readonly #hashes: (Uint8Array | undefined)[] = []
  /** The first index whose hash can be compared. */
  #since: number
  readonly #senders: Map<AgentId, SenderRecord>
  /** Senders of whom more is known than was written. */
  readonly #changed = new Set<AgentId>()
  /** The last index that another member has confirmed. */
  confirmed = 0

  constructor(position: PositionRecord, senders: readonly SenderRecord[] = []) {
    this.#position = position
    this.#since = position.index
    this.#hashes[position.index % KEPT] = position.hash
    this.#senders = new Map(senders.map((sender) => [sender.agent, sender]))
  }

  /** The last entry. */
  get position(): PositionRecord {
    return this.#position
  }

  /** How far a sender has got, if it was heard. */
  sender(agent: AgentId): SenderRecord | undefined {
    return this.#senders.get(agent)
  }

  /** Takes the next entry. */
  advance(entry: ChainEntry): void {
    const { index, slot } = this.#position
    this.#move({
      index: index + 1,
      hash: chainNext(sha256, this.#position.hash, entry),
      slot: entry.kind === 'commit' ? slot + 1 : slot,
    })
  }

  /** Jumps over entries that are gone; nothing before can be compared any more. */
  skipTo(position: PositionRecord): AgentId[] {
    this.#since = position.index
    this.#move(position)
    // Of those who spoke in the gap nobody knows how far they got, only that they do not go back. What differed lies before
    // it.
    for (const [agent, { counter }] of this.#senders) {
      this.#put({ agent, counter, ownHash: UNKNOWN, accepted: false })
    }
    return [...this.#senders.keys()]
  }

  /**
   * Whether a sender has said this before. MLS signs no place, so a member that works with the relay can encrypt
   * another's message again (RFC 9750): whatever else it is taken for, it must not be given twice.
   */
  repeats(sender: AgentId, { counter }: Frame): boolean {
    return counter <= (this.#senders.get(sender)?.counter ?? 0)
  }

  /**
   * What differs in a sender's account, before its entry is taken by `advance`. The first message of a sender sets its
   * counter and chain.
   */
  judge(sender: AgentId, frame: Frame): Difference | undefined {
    const known = this.#senders.get(sender)
    const { seen, counter, previous } = frame
    if (known?.accepted !== true && !this.#agrees(seen)) return 'seen'
    if (this.repeats(sender, frame)) return 'counter'
    if (known === undefined || Buffer.compare(known.ownHash, UNKNOWN) === 0) return undefined
    if (counter !== known.counter + 1) return 'counter'
    return Buffer.compare(previous, known.ownHash) === 0 ? undefined : 'own chain'
  }

  /** Takes a sender's message. */
  heard(sender: AgentId, frame: Frame, frameHash: Uint8Array): void {
    const accepted = this.#senders.get(sender)?.accepted ?? false
    this.#put({ agent: sender, counter: frame.counter, ownHash: frameHash, accepted })
    this.confirmed = Math.max(this.confirmed, frame.seen.index)
  }

  /** A sender that was added again starts anew. */
  forget(sender: AgentId): void {
    this.#senders.delete(sender)
    this.#changed.add(sender)
  }

  /** The application goes on although this member saw another log. */
  accept(sender: AgentId): void {
    const known = this.#senders.get(sender) ?? { agent: sender, counter: 0, ownHash: UNKNOWN }
    this.#put({ ...known, accepted: true })
  }

  /** What has changed about the senders since the last time. */
  drain(id: ChannelId): Change[] {
    const changes = [...this.#changed].map((agent): Change => {
      const sender = this.sender(agent)
      return sender ? { type: 'putSender', id, sender } : { type: 'dropSender', id, agent }
    })
    this.#changed.clear()
    return changes
  }

  #agrees({ index, hash }: Frame['seen']): boolean {
    if (index > this.#position.index) return false
    if (index < this.#since || index <= this.#position.index - KEPT) return true
    const own = this.#hashes[index % KEPT]
    return own !== undefined && Buffer.compare(own, hash) === 0
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
