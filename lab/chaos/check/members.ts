/** Members: an invite lets in as many as it says, all agree in the end, and nothing odd was reported meanwhile. */
import { agentOf, type History, isInside, notesOf } from '../history.ts'

/** Events that no fault of machine or network explains. */
const ODD = new Set([
  'commit_disputed',
  'commit_rejected',
  'commit_skipped',
  'decryption_failure',
  'fork_detected',
  'gap',
  'identity_changed',
  'poison',
  'request_failed',
  'request_ignored',
  'roster_lie',
  'sender_unreadable',
  'unknown_version',
])

/** Why an answer to a request of this agent is ignored after a crash, a cancellation or a timeout. */
const LATE = new Set(['not_open', 'ended', 'repeated'])

/** Invites that have let in more agents than they may. */
export function checkInvites(histories: readonly History[]): string[] {
  const joined = Map.groupBy(
    histories.flatMap(({ name, notes }) => notesOf(notes, 'joined').map(({ invite }) => ({ name, invite }))),
    ({ invite }) => invite,
  )
  return histories.flatMap(({ notes }) =>
    notesOf(notes, 'invited').flatMap(({ invite, uses }) => {
      const names = joined.get(invite)?.map(({ name }) => name) ?? []
      return names.length > uses ? [`${names.join()} have joined by invite ${invite}, which has ${uses} uses`] : []
    }),
  )
}

/** Events that should not happen, and reported answers to requests of others. */
export function checkEvents(histories: readonly History[]): string[] {
  return histories.flatMap(({ name, notes }) => {
    const own = new Set(notesOf(notes, 'asked').map(({ ask }) => ask))
    const isOdd = (event: { readonly name: string; readonly detail: string }): boolean => {
      if (event.name !== 'answer_ignored') return ODD.has(event.name)
      const { request, reason } = JSON.parse(event.detail) as { request: string; reason: string }
      return !own.has(request) || !LATE.has(reason)
    }
    return notesOf(notes, 'event')
      .filter(isOdd)
      .map((event) => `${name}: ${event.name} ${event.detail}`)
  })
}

/**
 * Members that do not have the same words and members in the end. An agent that has asked to join may have been added
 * without knowing it yet.
 */
export function checkWords(histories: readonly History[]): string[] {
  const inside = histories.filter(isInside)
  const joining = new Set(histories.filter(isJoining).map(agentOf))
  const expected = inside.map(agentOf).sort().join()
  const [first] = inside
  const words = (history: History): string | undefined => notesOf(history.notes, 'words').at(-1)?.words
  return inside.flatMap((history) => {
    const own = notesOf(history.notes, 'words').at(-1)
    if (!own) return [`${history.name} has no words`]
    const faults: string[] = []
    if (first && own.words !== words(first)) faults.push(`${history.name} and ${first.name} have different words`)
    const members = own.members.filter((agent) => !joining.has(agent)).sort()
    if (members.join() !== expected) faults.push(`${history.name} has the members ${members.join()}, not ${expected}`)
    return faults
  })
}

function isJoining({ notes }: History): boolean {
  return notes.findLast(({ is }) => is === 'joining' || is === 'joined' || is === 'out')?.is === 'joining'
}
