/**
 * Which blocks of the product's code run, by V8's own block coverage. Slow: use it for batches of inputs. V8 counts the
 * blocks of a function only if it compiled it after this began.
 */
import { type Profiler, Session } from 'node:inspector'

/** Our code and the MLS library's; not tests. */
const MEASURED = /\/(packages\/(?!testkit\/)[^/]+\/src|node_modules\/ts-mls)\//

/** Blocks of code that have run. */
export class Coverage {
  readonly #session = new Session()
  #seen = new Set<string>()

  constructor() {
    this.#session.connect()
    this.#session.post('Profiler.enable')
    this.#session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true })
  }

  /** How many blocks have run so far. */
  get blocks(): number {
    return this.#seen.size
  }

  /** The blocks that ran since the last call, and never before. They stay new until they are kept. */
  take(): string[] {
    let result: Profiler.ScriptCoverage[] = []
    this.#session.post('Profiler.takePreciseCoverage', (error, taken) => {
      if (error) throw error
      result = taken.result
    })
    const found: string[] = []
    for (const { url, functions } of result) {
      if (!MEASURED.test(url)) continue
      for (const { ranges } of functions)
        for (const { startOffset, endOffset, count } of ranges) {
          const block = `${url}:${startOffset}-${endOffset}`
          if (count > 0 && !this.#seen.has(block)) found.push(block)
        }
    }
    return found
  }

  keep(blocks: readonly string[]): void {
    for (const block of blocks) this.#seen.add(block)
  }

  /** Forgets everything. */
  clear(): void {
    this.#seen = new Set()
    this.take()
  }
}
