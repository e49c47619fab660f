/**
 * Detects a database restored from an old copy. A number in the database and one in a separate file increase together,
 * at every start and at every checkpoint that moved data: first in the database, then in the file. So the two are
 * equal, or the database is one ahead after a crash in between. Anything else is a copy from another time.
 *
 * It does not detect a file that was restored together with the database (unless it is kept elsewhere), nor a database
 * that was restored, or whose log was truncated, within one step of the number. The relay's head reveals those.
 */
import { readPrivateFile, replaceFile } from '@static/node/files'
import { StaticError } from '@static/protocol'
import { oldCopyError } from './old-copy.ts'

/** Reads and writes the number in the database; each write is a transaction. */
export interface CounterInDatabase {
  read(): number
  write(value: number): void
}

/** The number in the file; 0 if it does not exist yet. Throws `store_corrupt` for any other content. */
export function readCounterFile(path: string): number {
  const content = readPrivateFile(path)?.toString('latin1')
  if (content === undefined) return 0
  const value = Number(content)
  if (!/^[1-9]\d*\n$/.test(content) || !Number.isSafeInteger(value)) {
    throw new StaticError('store_corrupt', `${path} is damaged. It must contain the number of times the agent started.`)
  }
  return value
}

/** Throws `store_rolled_back` unless the two numbers are equal or differ as after a crash. */
export function checkCounters(inDatabase: number, inFile: number, path: string): void {
  if (inDatabase === inFile || inDatabase === inFile + 1) return
  throw oldCopyError(
    inDatabase < inFile
      ? `The agent's database is an old copy: its counter is ${inDatabase}, but ${path} says ${inFile}.`
      : `The agent's database may be an old copy: counter ${inDatabase}, but ${path} is missing or old (${inFile}).`,
  )
}

/** The two counters, after they were checked. */
export class OpenCounter {
  readonly #database: CounterInDatabase
  readonly #path: string
  #inFile: number

  constructor(database: CounterInDatabase, path: string, inFile: number) {
    this.#database = database
    this.#path = path
    this.#inFile = inFile
  }

  /**
   * Increments both. First completes a step left half done by a crash or an error, so the two are never two steps
   * apart.
   */
  advance(): void {
    const before = this.#database.read()
    if (this.#inFile < before) this.#writeFile(before)
    const next = Math.max(before, this.#inFile) + 1
    this.#database.write(next)
    this.#writeFile(next)
  }

  #writeFile(value: number): void {
    replaceFile(this.#path, `${value}\n`, 0o600)
    this.#inFile = value
  }
}
