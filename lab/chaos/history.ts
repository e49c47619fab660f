/**
 * The history of an agent, as lines of JSON in its own file. Agents in both languages write it before they let the SDK
 * continue, so that a checker can compare promises with events.
 */
import { existsSync, readFileSync } from 'node:fs'

/** One line. Times are of the machine's monotonic clock, in milliseconds: no jump of a clock changes their order. */
export type Note = { readonly at: number } & (
  | { readonly is: 'started'; readonly agent: string }
  /** About to join by an invite. */
  | { readonly is: 'joining'; readonly invite: string }
  | { readonly is: 'joined'; readonly invite: string }
  | { readonly is: 'out'; readonly why: string }
  | { readonly is: 'invited'; readonly invite: string; readonly uses: number }
  | { readonly is: 'removed'; readonly agent: string }
  | { readonly is: 'sending'; readonly text: string }
  /** Acknowledged. */
  | { readonly is: 'sent'; readonly text: string; readonly id: string; readonly index: number }
  | { readonly is: 'refused'; readonly text: string; readonly code: string }
  | Read
  /** The members that have settled a message, by their receipts, and those not waited for. */
  | { readonly is: 'reached'; readonly id: string; readonly by: readonly string[]; readonly not: readonly string[] }
  | { readonly is: 'asking'; readonly text: string; readonly to: string; readonly seconds: number }
  /** The id of the request in the last `asking`. */
  | { readonly is: 'asked'; readonly ask: string; readonly text: string; readonly to: string; readonly seconds: number }
  | { readonly is: 'answer'; readonly ask: string; readonly id: string; readonly text: string; readonly from: string }
  /** The request is over: all answers were read, or none will come. */
  | { readonly is: 'answered'; readonly ask: string }
  | { readonly is: 'unanswered'; readonly ask: string; readonly code: string }
  /** Killed before the request was on disk. */
  | { readonly is: 'unasked'; readonly ask: string }
  | { readonly is: 'served'; readonly ask: string; readonly text: string; readonly again: boolean }
  | { readonly is: 'event'; readonly name: string; readonly detail: string }
  | { readonly is: 'words'; readonly words: string; readonly members: readonly string[] }
  | { readonly is: 'died'; readonly why: string }
)

/** A message that the application was given. */
export interface Read {
  readonly is: 'read'
  readonly text: string
  readonly id: string
  readonly index: number
  readonly epoch: number
  /** The agent id of its sender. */
  readonly from: string
  /** It may have been delivered before. */
  readonly again: boolean
}

/** A note without its time. */
export type Said = Note extends infer Each ? (Each extends Note ? Omit<Each, 'at'> : never) : never

/** A note of one kind. */
export type NoteOf<Kind extends Note['is']> = Extract<Note, { readonly is: Kind }>

/** An agent and what it has noted. */
export interface History {
  readonly name: string
  readonly notes: readonly Note[]
}

/** Reads a history. A process that is killed while it writes may leave half a line. */
export function readNotes(file: string): Note[] {
  if (!existsSync(file)) return []
  const lines = readFileSync(file, 'utf8').split('\n')
  lines.pop()
  return lines.map((line) => JSON.parse(line) as Note)
}

/** The notes of one kind. */
export function notesOf<Kind extends Note['is']>(notes: readonly Note[], kind: Kind): NoteOf<Kind>[] {
  return notes.filter((note): note is NoteOf<Kind> => note.is === kind)
}

/** The agent id of a history; empty if it never started. */
export function agentOf({ notes }: History): string {
  return notesOf(notes, 'started')[0]?.agent ?? ''
}

/**
 * The place of a message in the one order of a channel. Messages sent together share an index, and the last digit of
 * their ids counts them.
 */
export function placeOf({ index, id }: { readonly index: number; readonly id: string }): number {
  return index * 16 + Number.parseInt(id.at(-1) ?? '0', 16)
}

/** The time between joining and leaving a channel, and the messages read meanwhile. */
export interface Stay {
  readonly joinedAt: number
  /** When it began to join: earlier messages may be in the channel that it found. */
  readonly joiningAt: number
  readonly reads: readonly Read[]
  /** Whether it lasted until the end of the history. */
  readonly isOpen: boolean
}

/** The stays of an agent, in order. */
export function staysOf({ notes }: History): Stay[] {
  const stays: (Stay & { reads: Read[]; isOpen: boolean })[] = []
  /** The first attempt since the last stay: an attempt that a crash cut short may have succeeded. */
  let joiningAt: number | undefined
  for (const note of notes) {
    const last = stays.at(-1)
    if (note.is === 'joining') joiningAt ??= note.at
    else if (note.is === 'joined') {
      stays.push({ joinedAt: note.at, joiningAt: joiningAt ?? note.at, reads: [], isOpen: true })
      joiningAt = undefined
    } else if (note.is === 'out' && last) last.isOpen = false
    else if (note.is === 'read') last?.reads.push(note)
  }
  return stays
}

/** Whether an agent is a member at the end of its history. */
export function isInside(history: History): boolean {
  return staysOf(history).at(-1)?.isOpen ?? false
}
