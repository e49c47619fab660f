/** Messages: what was acknowledged is read exactly once by every member of that moment, in one order. */
import { agentOf, type History, notesOf, placeOf, type Read, type Stay, staysOf } from '../history.ts'

/** A message that was acknowledged or read by anyone. */
export interface Entry {
  readonly id: string
  readonly text: string
  readonly place: number
  /** Agent id. */
  readonly from: string
  /** When its sender began to send it, and when it learned that the message was stored, if it did. */
  readonly began: number
  readonly acknowledged: number | undefined
}

/** The messages of a channel by id, and contradictions between senders and readers. */
export function logOf(histories: readonly History[]): { entries: ReadonlyMap<string, Entry>; faults: string[] } {
  const faults: string[] = []
  const entries = new Map<string, Entry>()
  const began = new Map(
    histories.flatMap((history) =>
      notesOf(history.notes, 'sending').map(({ text, at }) => [text, { at, from: agentOf(history) }] as const),
    ),
  )
  const add = (entry: Omit<Entry, 'began'>, who: string): void => {
    const known = entries.get(entry.id)
    const sending = began.get(entry.text)
    if (sending?.from !== entry.from) faults.push(`${who} has "${entry.text}", which its sender never sent`)
    if (!known) entries.set(entry.id, { ...entry, began: sending?.at ?? 0 })
    else if (known.text !== entry.text || known.place !== entry.place || known.from !== entry.from) {
      faults.push(
        `${who} has ${entry.id} as "${entry.text}" at ${entry.place}, others "${known.text}" at ${known.place}`,
      )
    }
  }
  for (const history of histories) {
    for (const sent of notesOf(history.notes, 'sent')) {
      add({ ...sent, place: placeOf(sent), from: agentOf(history), acknowledged: sent.at }, history.name)
    }
  }
  for (const { name, notes } of histories) {
    for (const read of notesOf(notes, 'read')) add({ ...read, place: placeOf(read), acknowledged: undefined }, name)
  }
  for (const by of ['place', 'text'] as const) {
    for (const [value, same] of Map.groupBy(entries.values(), (entry) => entry[by])) {
      if (same.length > 1)
        faults.push(`${same.length} messages have the ${by} ${value}: ${same.map(({ id }) => id).join()}`)
    }
  }
  return { entries, faults }
}

/** Messages that an agent read twice or out of order, without a flag. */
export function checkOrder({ name, notes }: History): string[] {
  const faults: string[] = []
  const seen = new Set<string>()
  let last = -1
  for (const read of notesOf(notes, 'read')) {
    const place = placeOf(read)
    if (seen.has(read.id)) {
      if (!read.again) faults.push(`${name} has read "${read.text}" twice`)
    } else if (place <= last) faults.push(`${name} has read "${read.text}" after a later message`)
    seen.add(read.id)
    last = Math.max(last, place)
  }
  return faults
}

/** All read a message in the same epoch, and epochs only grow: each slot has one commit. */
export function checkEpochs(histories: readonly History[]): string[] {
  const faults: string[] = []
  const epochs = new Map<string, Read>()
  for (const { name, notes } of histories) {
    for (const read of notesOf(notes, 'read')) {
      const known = epochs.get(read.id)
      if (known && known.epoch !== read.epoch) {
        faults.push(`${name} has read "${read.text}" in epoch ${read.epoch}, others in ${known.epoch}`)
      }
      epochs.set(read.id, read)
    }
  }
  const ordered = [...epochs.values()].sort((one, other) => placeOf(one) - placeOf(other))
  for (const [at, read] of ordered.entries()) {
    const before = ordered[at - 1]
    if (before && before.epoch > read.epoch) {
      faults.push(`"${read.text}" is of epoch ${read.epoch}, "${before.text}" before it of ${before.epoch}`)
    }
  }
  return faults
}

/** Messages that an agent missed during its stays. */
export function checkComplete(history: History, entries: ReadonlyMap<string, Entry>): string[] {
  const self = agentOf(history)
  const others = [...entries.values()].filter(({ from }) => from !== self)
  return staysOf(history).flatMap((stay) =>
    missing(stay, others).map(({ text, place }) => `${history.name} has not read "${text}" at ${place}`),
  )
}

/**
 * An agent reads all from the first message of its stay, which is at the latest the first that was sent after it had
 * joined, to the last one that it got: at the end of the history, all there are.
 */
function missing({ reads, joinedAt, isOpen }: Stay, others: readonly Entry[]): Entry[] {
  const places = reads.map(placeOf)
  const owed = others.filter(({ began, acknowledged }) => acknowledged !== undefined && began > joinedAt)
  const last = isOpen ? Infinity : Math.max(...places)
  const first = Math.min(...places, ...(isOpen || places.length > 0 ? owed.map(({ place }) => place) : []))
  const had = new Set(reads.map(({ id }) => id))
  return others.filter(({ id, place }) => place >= first && place <= last && !had.has(id))
}

/** Messages that an agent read although they were sent after its removal and before it joined again. */
export function checkRemoved(histories: readonly History[], entries: ReadonlyMap<string, Entry>): string[] {
  const removals = histories.flatMap(({ notes }) => notesOf(notes, 'removed'))
  return histories.flatMap((history) => {
    const own = removals.filter(({ agent }) => agent === agentOf(history))
    const stays = staysOf(history)
    const reads = new Set(notesOf(history.notes, 'read').map(({ id }) => id))
    return own.flatMap(({ at }) => {
      const later = stays.filter(({ joinedAt }) => joinedAt > at)
      const again = Math.min(...later.map(({ joiningAt }) => joiningAt))
      return [...entries.values()]
        .filter(({ id, began, acknowledged = Infinity }) => reads.has(id) && began > at && acknowledged < again)
        .map(({ text }) => `${history.name} has read "${text}" after it was removed`)
    })
  })
}
