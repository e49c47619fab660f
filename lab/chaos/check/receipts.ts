/** Receipts: `reached` resolves when all who were members have settled a message, and not before. */
import { agentOf, type History, notesOf, staysOf } from '../history.ts'
import type { Entry } from './messages.ts'

/** False reports to senders. */
export function checkReceipts(histories: readonly History[], entries: ReadonlyMap<string, Entry>): string[] {
  const readers = histories.map((history) => {
    const first = new Map<string, number>()
    for (const { id, at } of notesOf(history.notes, 'read')) first.set(id, Math.min(at, first.get(id) ?? Infinity))
    const stay = staysOf(history).at(-1)
    return { name: history.name, agent: agentOf(history), first, since: stay?.isOpen ? stay.joinedAt : Infinity }
  })
  return histories.flatMap((sender) =>
    notesOf(sender.notes, 'reached').flatMap(({ id, by, at }) => {
      const entry = entries.get(id)
      if (!entry) return [`${sender.name} was told about ${id}, which it has not sent`]
      return readers.flatMap(({ name, agent, first, since }) => {
        if (by.includes(agent)) {
          if ((first.get(id) ?? Infinity) <= at) return []
          return [`${sender.name} was told that ${name} has settled "${entry.text}", which it had not read`]
        }
        const isOwed = since < entry.began && agent !== entry.from
        return isOwed ? [`${sender.name} was told that all have "${entry.text}", but not ${name}, a member`] : []
      })
    }),
  )
}
