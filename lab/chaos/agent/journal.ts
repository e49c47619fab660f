/** An agent's history, and what it recorded in earlier lives. */
import { appendFileSync } from 'node:fs'
import { type Note, type NoteOf, notesOf, readNotes, type Said } from '../history.ts'

/** Notes of earlier lives. */
export interface Memory {
  /** The highest number of a message or request. */
  readonly count: number
  readonly isMember: boolean
  /** Requests of this stay without a recorded end. */
  readonly asks: readonly NoteOf<'asked'>[]
  /** The last request, if its id was not noted. */
  readonly asking: NoteOf<'asking'> | undefined
}

/** Appends to a history. */
export class Journal {
  memory: Memory
  /** The invite with which it was about to join, if the outcome is unknown. */
  pending: string | undefined
  readonly #file: string

  constructor(file: string) {
    this.#file = file
    const notes = readNotes(file)
    for (const note of notes) this.#follow(note)
    const ended = new Set(
      notes.flatMap((note) =>
        note.is === 'answered' || note.is === 'unanswered' || note.is === 'unasked' ? [note.ask] : [],
      ),
    )
    const stay = notes.slice(notes.findLastIndex(({ is }) => is === 'out') + 1)
    const asking = stay.findLast(({ is }) => is === 'asking' || is === 'asked')
    this.memory = {
      count: Math.max(0, ...notes.map(numberOf)),
      isMember: notes.findLast(({ is }) => is === 'joined' || is === 'out')?.is === 'joined',
      asks: notesOf(stay, 'asked').filter(({ ask }) => !ended.has(ask)),
      asking: asking?.is === 'asking' ? asking : undefined,
    }
  }

  /** A stay is over, and its requests with it. */
  forget(): void {
    this.memory = { ...this.memory, asks: [], asking: undefined }
  }

  /** The note is in the file when this returns, even if the process is killed next. */
  note(said: Said): void {
    this.#follow(said)
    appendFileSync(this.#file, `${JSON.stringify({ at: now(), ...said })}\n`)
  }

  #follow(note: Said): void {
    if (note.is === 'joining') this.pending = note.invite
    else if (note.is === 'joined' || note.is === 'out') this.pending = undefined
  }
}

/** The number at the end of a text. */
function numberOf(note: Note): number {
  return note.is === 'sending' || note.is === 'asking' ? Number(note.text.split(' ').at(-1)) : 0
}

/** Time on the machine's monotonic clock, which all its processes share. */
function now(): number {
  return Number(process.hrtime.bigint() / 1000n) / 1000
}
