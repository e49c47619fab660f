/**
 * Copies the database to a new file while calls go on: a few pages at a time, and between them the calls that wait.
 * SQLite refuses to copy pages during a transaction, so calls wait for each step; a step takes milliseconds.
 */
import { closeSync, openSync } from 'node:fs'
import { backup, type DatabaseSync } from 'node:sqlite'

/** Pages copied at a time. */
const STEP_PAGES = 256

/** Makes one copy after the other. */
export class Copier {
  readonly #db: DatabaseSync
  /** Runs the calls that wait. */
  readonly #serve: () => void
  #running: Promise<unknown> = Promise.resolve()
  #holds = false

  constructor(db: DatabaseSync, serve: () => void) {
    this.#db = db
    this.#serve = serve
  }

  /** Whether calls must wait for a step. */
  get holds(): boolean {
    return this.#holds
  }

  /** Resolves when no copy is being made. */
  get idle(): Promise<unknown> {
    return this.#running
  }

  /** Copies to a new file. Resolves with the reason if that fails. */
  copy(path: string): Promise<string | undefined> {
    const copied = this.#running.then(() => this.#copy(path))
    this.#running = copied
    return copied
  }

  async #copy(path: string): Promise<string | undefined> {
    try {
      // SQLite would create it with the umask.
      closeSync(openSync(path, 'ax', 0o600))
      this.#holds = true
      // Changes by this connection reach what is copied already, so the copy is complete however much is written.
      await backup(this.#db, path, { rate: STEP_PAGES, progress: () => this.#pause() })
      return undefined
    } catch (error) {
      return String(error)
    } finally {
      this.#holds = false
      this.#serve()
    }
  }

  /** Between two steps: the next one begins when this returns. */
  #pause(): void {
    this.#holds = false
    this.#serve()
    this.#holds = true
  }
}
