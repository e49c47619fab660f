/**
 * The last hashes of a channel's chain on disk. Each write appends one row with the hashes of the entries since the
 * last write, so an entry costs 32 bytes. Rows too old to matter are deleted.
 */
import { fromHex, HASH_BYTES, MESSAGE_ID_BYTES, toHex } from '@static/protocol'
import { concatAll, same } from '../../platform/bytes.ts'
import type { Change, ChainRecord, ChannelId, PositionRecord } from '../../ports/index.ts'

/** For each own message: its distance from the first entry of its row, and its id. */
const OWN_BYTES = 2 + MESSAGE_ID_BYTES
/** Keeps the distance within its two bytes. */
const MOST_IN_ROW = 1024

interface Row {
  readonly first: number
  readonly count: number
}

/** The rows of one channel. */
export class ChainRows {
  readonly #kept: number
  readonly #stored: readonly ChainRecord[]
  readonly #position: PositionRecord
  #rows: Row[] = []
  /** Obsolete rows on disk. */
  #useless: number[] = []
  /** The last index whose hash is on disk, or will be with the changes drained last. */
  #drained: number
  /** The own messages since then, by index. */
  readonly #own = new Map<number, string>()

  constructor(kept: number, position: PositionRecord, stored: readonly ChainRecord[]) {
    this.#kept = kept
    this.#position = position
    this.#stored = stored
    this.#drained = position.index - 1
  }

  /** Passes on all hashes on disk that lead to the position without a hole. Returns the first index. */
  restore(give: (index: number, hash: Uint8Array, messageId: string | undefined) => void): number {
    const { index, hash } = this.#position
    const useful: ChainRecord[] = []
    let next = index + 1
    for (const row of this.#stored.toSorted((a, b) => b.first - a.first)) {
      const count = row.hashes.length / HASH_BYTES
      if (row.first + count !== next || next <= index - this.#kept) this.#useless.push(row.first)
      else {
        useful.unshift(row)
        next = row.first
      }
    }
    const last = useful.at(-1)?.hashes.subarray(-HASH_BYTES)
    // The rows are from another stay: none of them lead here.
    if (!last || !same(last, hash)) {
      this.#useless = this.#stored.map(({ first }) => first)
      return index
    }
    for (const row of useful) this.#give(row, give)
    this.#rows = useful.map(({ first, hashes }) => ({ first, count: hashes.length / HASH_BYTES }))
    this.#drained = index
    return next
  }

  /** The entry at an index is a message of this agent. */
  own(index: number, messageId: string): void {
    this.#own.set(index, messageId)
  }

  /** Nothing before this index leads here. */
  restart(index: number): void {
    this.#useless.push(...this.#rows.map(({ first }) => first))
    this.#rows = []
    this.#own.clear()
    this.#drained = index - 1
  }

  /** Returns the changes that bring the hashes on disk up to an index. */
  drain(id: ChannelId, index: number, hashAt: (index: number) => Uint8Array): Change[] {
    const changes: Change[] = this.#useless.splice(0).map((first) => ({ type: 'dropChain', id, first }))
    for (let first = Math.max(this.#drained + 1, index - this.#kept + 1); first <= index; first += MOST_IN_ROW) {
      const count = Math.min(MOST_IN_ROW, index - first + 1)
      const hashes = concatAll(Array.from({ length: count }, (_, at) => hashAt(first + at)))
      changes.push({ type: 'putChain', id, chain: { first, hashes, own: this.#ownFrom(first, count) } })
      this.#rows.push({ first, count })
    }
    this.#drained = Math.max(this.#drained, index)
    this.#own.clear()
    while (this.#rows[0] && this.#rows[0].first + this.#rows[0].count <= index - this.#kept + 1) {
      const { first } = this.#rows.shift() as Row
      changes.push({ type: 'dropChain', id, first })
    }
    return changes
  }

  #ownFrom(first: number, count: number): Uint8Array {
    const items: Uint8Array[] = []
    for (const [index, messageId] of this.#own) {
      if (index < first || index >= first + count) continue
      const item = new Uint8Array(OWN_BYTES)
      new DataView(item.buffer).setUint16(0, index - first)
      item.set(fromHex(messageId), 2)
      items.push(item)
    }
    return concatAll(items)
  }

  #give({ first, hashes, own }: ChainRecord, give: Parameters<ChainRows['restore']>[0]): void {
    const ids = new Map<number, string>()
    const view = new DataView(own.buffer, own.byteOffset, own.length)
    for (let at = 0; at + OWN_BYTES <= own.length; at += OWN_BYTES) {
      ids.set(first + view.getUint16(at), toHex(own.subarray(at + 2, at + OWN_BYTES)))
    }
    for (let at = 0; at < hashes.length / HASH_BYTES; at++) {
      const index = first + at
      give(index, hashes.slice(at * HASH_BYTES, (at + 1) * HASH_BYTES), ids.get(index))
    }
  }
}
