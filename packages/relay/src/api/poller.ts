/** Asks the API every few seconds whether it has something to do for this relay. */
import { StaticError } from '@static/protocol'

export interface PollerOptions<Task> {
  readonly everyMs: number
  /** Maximum number of tasks per round, however many the API lists. */
  readonly maxTasks: number
  readonly list: () => Promise<readonly Task[]>
  readonly carryOut: (task: Task) => Promise<unknown>
  readonly onError: (error: unknown) => void
}

/** Carries out what the API lists, one task after the other. */
export class Poller<Task> {
  readonly #options: PollerOptions<Task>
  #timer: NodeJS.Timeout | undefined
  #asking = false

  constructor(options: PollerOptions<Task>) {
    this.#options = options
  }

  start(): void {
    this.#timer = setInterval(() => void this.round(), this.#options.everyMs)
    this.#timer.unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  /** Asks once, and carries out what the API lists. Does nothing while an earlier round is in progress. */
  async round(): Promise<void> {
    if (this.#asking) return
    this.#asking = true
    const { list, carryOut, maxTasks, onError } = this.#options
    const failures: unknown[] = []
    try {
      for (const task of (await list()).slice(0, maxTasks)) {
        // A failed task must not block those after it.
        await carryOut(task).catch((error: unknown) => failures.push(error))
      }
    } catch (error) {
      failures.push(error)
    }
    // An API or store that is down is reported elsewhere, and the next round retries. Report a bug once per round.
    const bug = failures.find((error) => StaticError.from(error).code === 'internal_error')
    if (bug !== undefined) onError(bug)
    this.#asking = false
  }
}
