/**
 * Copies the database to a new file while calls continue: a few pages at a time, with waiting calls in between. SQLite
 * refuses to copy pages during a transaction, so calls wait for each step; a step takes milliseconds.
 */
import { closeSync, openSync } from 'node:fs'
import { backup, type DatabaseSync } from 'node:sqlite'

/** Pages copied at a time. */
const STEP_PAGES = 256

/** Makes copies, one after the other. */
export class Copier {
  readonly #db: DatabaseSync
  /** Runs the waiting calls. */
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
      // Changes by this connection also reach pages already copied, so the copy is complete however much is written.
      await backup(this.#db, path, { rate: STEP_PAGES, progress: () => this.#pause() })
      return undefined
    } catch (error) {
      return String(error)
    } finally {
      this.#holds = false
      this.#serve()
    }
  }

  /** Pauses between two steps: the next one begins when this returns. */
  #pause(): void {
    this.#holds = false
    this.#serve()
    this.#holds = true
  }
}
