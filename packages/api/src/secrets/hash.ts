/**
 * Argon2id (RFC 9106), the only form in which keys and passwords are stored. It is slow on purpose,
 * so the number of concurrent runs and the queue are bounded, and one slot is reserved for callers
 * that have not failed before: a flood of wrong secrets cannot keep an owner waiting.
 */
import { StaticError } from '@static/protocol'
import type { Settings } from '../settings.ts'
import { runHash } from './hash-threads.ts'

/** `suspect` callers have failed recently and share fewer slots. */
export type Lane = 'clean' | 'suspect'

/** Runs Argon2id within bounds. */
export class Hasher {
  readonly #settings: Settings['argon2']
  readonly #waiting: Record<Lane, (() => void)[]> = { clean: [], suspect: [] }
  #running = 0
  #suspects = 0
  #runs = 0
  #dummy: Promise<string> | undefined

  constructor(settings: Settings['argon2']) {
    this.#settings = settings
  }

  /** Hashes a new secret into a PHC string. */
  hash(secret: string, lane: Lane = 'clean'): Promise<string> {
    const { memoryKib, passes, lanes } = this.#settings
    const options = { memoryCost: memoryKib, timeCost: passes, parallelism: lanes }
    return this.#run(lane, () => runHash({ type: 'hash', secret, options }))
  }

  /** Whether the secret matches the hash. The comparison takes constant time. */
  verify(phc: string, secret: string, lane: Lane): Promise<boolean> {
    return this.#run(lane, () => runHash({ type: 'verify', phc, secret }))
  }

  /** Does the work of `verify` for an account that does not exist, and returns false. */
  async refuse(secret: string, lane: Lane): Promise<false> {
    this.#dummy ??= this.hash('no account has this password')
    await this.verify(await this.#dummy, secret, lane)
    return false
  }

  /** Makes the first `refuse` take no longer than the later ones. */
  async warmUp(): Promise<void> {
    await this.refuse('', 'clean')
  }

  /** For the metrics. */
  get load(): { readonly running: number; readonly waiting: number; readonly runs: number } {
    return {
      running: this.#running,
      waiting: this.#waiting.clean.length + this.#waiting.suspect.length,
      runs: this.#runs,
    }
  }

  async #run<T>(lane: Lane, work: () => Promise<T>): Promise<T> {
    if (!this.#free(lane)) {
      const line = this.#waiting[lane]
      if (line.length >= this.#settings.queue) {
        throw StaticError.of('unavailable', 'Too many keys and passwords are being checked at once. Retry in 1 s.', {
          retryAfter: 1,
        })
      }
      await new Promise<void>((resolve) => line.push(resolve))
    } else {
      this.#enter(lane)
    }
    try {
      this.#runs++
      return await work()
    } finally {
      this.#leave(lane)
    }
  }

  #free(lane: Lane): boolean {
    const { concurrency } = this.#settings
    if (this.#running >= concurrency) return false
    return lane === 'clean' || this.#suspects < Math.max(1, concurrency - 1)
  }

  #enter(lane: Lane): void {
    this.#running++
    if (lane === 'suspect') this.#suspects++
  }

  /** Passes the slot to the next in the queue, so that a newcomer cannot take it first. */
  #leave(lane: Lane): void {
    this.#running--
    if (lane === 'suspect') this.#suspects--
    for (const next of ['clean', 'suspect'] as const) {
      while (this.#waiting[next].length > 0 && this.#free(next)) {
        this.#enter(next)
        this.#waiting[next].shift()?.()
      }
    }
  }
}
