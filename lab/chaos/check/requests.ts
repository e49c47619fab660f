/** Requests: each is answered once, or its asker is told that it is not. */
import { type History, notesOf } from '../history.ts'

/** Codes with which a request may end unanswered: the time is over, the member asked is gone, or the asker is. */
const ENDINGS = new Set(['ask_timeout', 'not_found', 'removed', 'closed'])

/** Faults in the requests of all agents; none may still be open. */
export function checkRequests(histories: readonly History[]): string[] {
  const served = Map.groupBy(
    histories.flatMap(({ name, notes }) => notesOf(notes, 'served').map((note) => ({ ...note, name }))),
    ({ ask }) => ask,
  )
  const asked = histories.flatMap(askedBy)
  // Killed before the id was noted, and timed out before the next start.
  const begun = new Set(histories.flatMap(({ notes }) => notesOf(notes, 'asking').map(({ text }) => text)))
  const known = new Map(asked.map((request) => [request.ask, request]))
  return [
    ...asked.flatMap(({ faults }) => faults),
    ...[...served].flatMap(([ask, runs]) => {
      const request = known.get(ask)
      const [first] = runs
      const faults: string[] = []
      if (!request ? !begun.has(first?.text ?? '') : request.isUnasked)
        faults.push(`${first?.name} has served ${ask}, which nobody has asked`)
      for (const [at, { name, again, text }] of runs.entries()) {
        if (request && text !== request.text) faults.push(`${name} has served "${text}" instead of "${request.text}"`)
        if (at > 0 && !again) faults.push(`${name} has served "${text}" twice without a flag`)
      }
      return faults
    }),
    ...asked
      .filter(({ ask, isAnswered }) => isAnswered && !served.has(ask))
      .map(({ text }) => `"${text}" was answered, but nobody has served it`),
  ]
}

interface Request {
  readonly ask: string
  readonly text: string
  readonly isAnswered: boolean
  readonly isUnasked: boolean
  readonly faults: readonly string[]
}

function askedBy({ name, notes }: History): Request[] {
  const answers = Map.groupBy(notesOf(notes, 'answer'), ({ ask }) => ask)
  const unanswered = Map.groupBy(notesOf(notes, 'unanswered'), ({ ask }) => ask)
  const unasked = new Set(notesOf(notes, 'unasked').map(({ ask }) => ask))
  return notesOf(notes, 'asked').map((note) => {
    const { ask, text, to } = note
    const got = answers.get(ask) ?? []
    // One that was not settled before a crash is given again.
    const different = new Set(got.map(({ id }) => id)).size
    const codes = (unanswered.get(ask) ?? []).map(({ code }) => code)
    const faults: string[] = []
    if (different > 1) faults.push(`${name} has got ${different} answers to "${text}"`)
    for (const answer of got) {
      if (answer.from !== to) faults.push(`${name} has asked ${to}, and ${answer.from} has answered "${text}"`)
      if (answer.text !== `${text}!`) faults.push(`${name} has got "${answer.text}" as the answer to "${text}"`)
    }
    for (const code of codes) if (!ENDINGS.has(code)) faults.push(`"${text}" of ${name} has ended with ${code}`)
    // An agent that is out may have been killed before it was told.
    const isOut = notes.findLastIndex(({ is }) => is === 'out') > notes.indexOf(note)
    if (!isOut && different === 0 && codes.length === 0 && !unasked.has(ask)) {
      faults.push(`${name} was never told what became of "${text}"`)
    }
    // If it was killed after the last answer, it finds the request simply over.
    const isUnasked = unasked.has(ask) && different === 0
    return { ask, text, isAnswered: different > 0, isUnasked, faults }
  })
}

/** Requests that were answered, in number. */
export function countAnswered(histories: readonly History[]): number {
  return histories.reduce((sum, { notes }) => sum + new Set(notesOf(notes, 'answer').map(({ ask }) => ask)).size, 0)
}
