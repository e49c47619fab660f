/**
 * Notices a database that was put back from an old copy. A number in the database and one in a file of its own rise
 * together, at every start and at every checkpoint that had something to move: the database first, then the file. So
 * the database is equal to the file, or one ahead if a crash came between; anything else is a copy from another time.
 *
 * What it does not notice: the file put back together with the database (unless it is kept elsewhere), and a database
 * put back, or the end of its log cut off, within one step of the number. The relay's head shows those.
 */
import { readPrivateFile, replaceFile } from '@static/node/files'
import { StaticError } from '@static/protocol'

/** Where the number in the database is read and written; each write is a transaction. */
export interface CounterInDatabase {
  read(): number
  write(value: number): void
}

/** The file's number; 0 if there is none yet. Throws `store_corrupt` if it holds something else. */
export function readCounterFile(path: string): number {
  const content = readPrivateFile(path)?.toString('latin1')
  if (content === undefined) return 0
  const value = Number(content)
  if (!/^[1-9]\d*\n$/.test(content) || !Number.isSafeInteger(value)) {
    throw new StaticError('store_corrupt', `${path} is damaged: it should hold the number of times the agent started.`)
  }
  return value
}

/** Throws `store_rolled_back` unless a crash can have left the two numbers like this. */
export function checkCounters(inDatabase: number, inFile: number, path: string): void {
  if (inDatabase === inFile || inDatabase === inFile + 1) return
  throw new StaticError(
    'store_rolled_back',
    inDatabase < inFile
      ? `The agent's database is an old copy (${inDatabase}; ${path} says ${inFile}).`
      : `It cannot be told whether the agent's database is an old copy: ${path} is missing or old (${inFile}; the database says ${inDatabase}).`,
  )
}

/** The pair, after it was checked. */
export class OpenCounter {
  readonly #database: CounterInDatabase
  readonly #path: string
  #inFile: number

  constructor(database: CounterInDatabase, path: string, inFile: number) {
    this.#database = database
    this.#path = path
    this.#inFile = inFile
  }

  /** One step for both. Repeats first what a crash or an error left half done: the two are never two steps apart. */
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
