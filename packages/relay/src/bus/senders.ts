/** The other nodes, as their messages show them: which messages were seen, and who has fallen silent. */
import type { NodeId, Time } from '../ports.ts'

/** Messages of one node that are told apart; older ones are dropped. */
const WINDOW = 4096
/** What a node has sent is remembered after its last message for longer than any message is fresh, ahead or late. */
const REMEMBERED_MS = 90_000
/** More nodes than a deployment has. */
const MAX_NODES = 256

interface Sender {
  highest: number
  /** The last number seen at each place of the window. */
  readonly seen: Float64Array
  /** By the monotonic clock. */
  heardAt: Time
  isSilent: boolean
}

/** Keeps track of senders. Whatever is recorded here had a valid MAC. */
export class Senders {
  readonly #senders = new Map<NodeId, Sender>()

  get size(): number {
    let live = 0
    for (const { isSilent } of this.#senders.values()) if (!isSilent) live += 1
    return live
  }

  /** Records a message. Returns false for one that was seen before, or is too old to tell. */
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

  /** Counts nodes no more that were not heard since a time. Returns whether there were any. */
  forgetSilent(since: Time): boolean {
    let found = false
    for (const [node, sender] of this.#senders) {
      if (sender.heardAt >= since) continue
      if (!sender.isSilent) found = true
      sender.isSilent = true
      // Until then, a message that is repeated must not count as new.
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
