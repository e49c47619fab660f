/** Lies about the log, for a member's view. */
import { type Entry, type Lie } from './lying-room.ts'

/** Which entries a lie is about. */
export type Which = (entry: Entry) => boolean

export const isMessage: Which = (entry) => entry.case === 'deliverMessage' && !entry.value.control
export const isCommit: Which = (entry) => entry.case === 'deliverCommit'

/** Leaves out the first one. */
export function dropping(which: Which): Lie {
  return once(which, () => [])
}

/** Shows the first one otherwise. */
export function once(which: Which, change: (entry: Entry) => readonly Entry[]): Lie {
  let done = false
  return (entry) => {
    if (done || !which(entry)) return [entry]
    done = true
    return change(entry)
  }
}

/** Shows the first two in the other order. */
export function swapping(which: Which): Lie {
  let held: Entry | undefined
  let done = false
  return (entry) => {
    if (done || !which(entry)) return [entry]
    if (held === undefined) {
      held = entry
      return []
    }
    done = true
    return [entry, held]
  }
}

/** A message with another ciphertext. */
export function withCiphertext(entry: Entry, ciphertext: Uint8Array): Entry {
  return entry.case === 'deliverMessage' ? { ...entry, value: { ...entry.value, ciphertext } } : entry
}
