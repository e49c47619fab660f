/** Results of a run of the planted bugs so far, so that an interrupted run can continue (`--resume`). */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** The result of a test file, with a bug or without one. */
export interface Outcome {
  readonly verdict: 'passes' | 'caught' | 'SURVIVES' | 'NO TEST FAILED' | 'TIMEOUT'
  readonly seconds: number
  /** The tests that failed. */
  readonly failed?: readonly string[]
}

/**
 * Outcomes by bug and test file; a file alone was run without a bug. They are valid only for this exact state of the
 * checkout.
 */
export class Progress {
  readonly #path: string
  readonly #outcomes: Map<string, Outcome>

  constructor(root: string, isResumed: boolean) {
    const git = (...words: string[]): string => execFileSync('git', words, { cwd: root, encoding: 'utf8' })
    const state = createHash('sha256').update(git('rev-parse', 'HEAD')).update(git('diff', 'HEAD')).digest('hex')
    this.#path = join(root, '.cache/bugs', `${state.slice(0, 16)}.json`)
    const known = isResumed && existsSync(this.#path) ? readFileSync(this.#path, 'utf8') : '{}'
    this.#outcomes = new Map(Object.entries(JSON.parse(known) as Record<string, Outcome>))
  }

  of(key: string): Outcome | undefined {
    return this.#outcomes.get(key)
  }

  /** Saves an outcome at once. */
  add(key: string, outcome: Outcome): void {
    this.#outcomes.set(key, outcome)
    mkdirSync(dirname(this.#path), { recursive: true })
    writeFileSync(this.#path, JSON.stringify(Object.fromEntries(this.#outcomes), null, 1))
  }
}
