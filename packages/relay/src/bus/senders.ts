/** The other nodes, as seen from their messages: which messages have arrived, and which nodes have fallen silent. */
import type { NodeId, Time } from '../ports.ts'

/** How many recent messages of one node are recognized as repeats; older ones are dropped. */
const WINDOW = 4096
/** A silent node is remembered for longer than any of its messages counts as fresh. */
const REMEMBERED_MS = 90_000
/** More than any deployment has. */
const MAX_NODES = 256

interface Sender {
  highest: number
  /** The last number seen at each place of the window. */
  readonly seen: Float64Array
  /** By the monotonic clock. */
  heardAt: Time
  isSilent: boolean
}

/** Tracks senders. Everything recorded here had a valid MAC. */
export class Senders {
  readonly #senders = new Map<NodeId, Sender>()

  get size(): number {
    let live = 0
    for (const { isSilent } of this.#senders.values()) if (!isSilent) live += 1
    return live
  }

  /** Records a message. Returns false if it was seen before or is too old to tell. */
  isNew(node: NodeId, number: number, now: Time): boolean {
    const sender = this.#senders.get(node) ?? this.#add(node)
    const place = number % WINDOW
    if (number <= sender.highest - WINDOW || sender.seen[place] === number) return false
    sender.seen[place] = number
    sender.heardAt = now
    sender.isSilent = false
    sender.highest = Math.max(sender.highest, number)
    return true
  }

  /** Stops counting nodes not heard from since then. Returns whether there were any. */
  forgetSilent(since: Time): boolean {
    let found = false
    for (const [node, sender] of this.#senders) {
      if (sender.heardAt >= since) continue
      if (!sender.isSilent) found = true
      sender.isSilent = true
      // Until then, a repeated message must not count as new.
      if (sender.heardAt < since - REMEMBERED_MS) this.#senders.delete(node)
    }
    return found
  }

  #add(node: NodeId): Sender {
    const sender = { highest: 0, seen: new Float64Array(WINDOW), heardAt: 0, isSilent: true }
    this.#senders.set(node, sender)
    if (this.#senders.size > MAX_NODES) {
      for (const oldest of this.#senders.keys()) {
        this.#senders.delete(oldest)
        break
      }
    }
    return sender
  }
}
