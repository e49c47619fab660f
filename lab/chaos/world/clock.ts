/** The clock of one process, which can be moved. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

const PRELOAD = join(import.meta.dirname, 'clock.mjs')

/** Start options of a process, and the handle that moves its clock later. */
export class Clock {
  readonly nodeFlags: readonly string[] = ['--import', PRELOAD]
  readonly env: { readonly STATIC_CHAOS_CLOCK: string }
  readonly #file: string

  constructor(file: string) {
    this.#file = file
    this.env = { STATIC_CHAOS_CLOCK: file }
  }

  move(ms: number): void {
    writeFileSync(this.#file, String(ms))
  }
}
