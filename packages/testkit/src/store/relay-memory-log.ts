/** Entries and the ids of messages and commits as maps. */
import { toHex } from '@static/protocol'
import {
  type Answered,
  type Channel,
  ENTRY_OVERHEAD,
  type Entry,
  type IdKey,
  type IdRows,
  type LogRows,
  type Position,
  type Time,
  type Weight,
} from '@static/relay/internal'
import { keptOf, type MemoryState } from './relay-memory-state.ts'

/** All entries, in memory. */
export class MemoryLogRows implements LogRows {
  readonly #state: MemoryState

  constructor(state: MemoryState) {
    this.#state = state
  }

  add(channel: Channel, entry: Entry, body: Uint8Array): void {
    keptOf(this.#state, channel).log.set(entry.index, { entry, size: body.length + ENTRY_OVERHEAD })
  }

  *entries(channel: Channel, { index: after }: Position, through: number): Iterable<Entry> {
    const { log } = keptOf(this.#state, channel)
    for (let index = after + 1; index <= through; index++) {
      const kept = log.get(index)
      if (kept) yield kept.entry
    }
  }

  *weights(channel: Channel, after: number, through: number): Iterable<Weight> {
    const { log } = keptOf(this.#state, channel)
    for (let index = Math.max(after, channel.base.index) + 1; index <= through; index++) {
      const kept = log.get(index)
      if (kept) yield { index, sender: kept.entry.sender, at: kept.entry.at, size: kept.size }
    }
  }

  position(channel: Channel, index: number): Position {
    const entry = keptOf(this.#state, channel).log.get(index)?.entry
    if (!entry) throw new Error(`channel ${channel.id} has no entry ${index}`)
    return { index, hash: entry.hash, slot: entry.kind === 'commit' ? entry.slot + 1 : entry.slot }
  }

  cut(channel: Channel, through: number): void {
    const { log } = keptOf(this.#state, channel)
    for (let index = channel.base.index + 1; index <= through; index++) log.delete(index)
  }
}

/** All ids, in memory. */
export class MemoryIdRows implements IdRows {
  readonly #state: MemoryState

  constructor(state: MemoryState) {
    this.#state = state
  }

  find(channel: Channel, key: IdKey, since: Time): Answered | undefined {
    const answer = keptOf(this.#state, channel).ids.get(idText(key))
    return answer && answer.at > since ? { index: answer.index, head: answer.head } : undefined
  }

  add(channel: Channel, key: IdKey, answer: Answered & { readonly at: Time }, since: Time): Answered | undefined {
    const known = this.find(channel, key, since)
    if (!known) keptOf(this.#state, channel).ids.set(idText(key), answer)
    return known
  }

  expire(since: Time): void {
    for (const { ids } of this.#state.channels.values()) {
      for (const [id, { at }] of ids) if (at <= since) ids.delete(id)
    }
  }
}

function idText({ kind, agent, id }: IdKey): string {
  return `${kind} ${agent} ${toHex(id)}`
}
