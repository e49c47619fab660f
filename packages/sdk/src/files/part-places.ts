/**
 * The places of an agent's transfers: so many parts are read, encrypted, sent or fetched at a time, and so many are
 * fetched before their readers ask for them, however many files there are. So is the memory that files take.
 */
import { FILE_PART_BYTES } from '@static/protocol'

/** As many as the relay has for one agent. */
export const MOST_PARTS_AT_ONCE = 4
/** Parts that wait for their readers, of all files. */
const MOST_AHEAD = 8

export class PartPlaces {
  #taken = 0
  readonly #waiting: (() => void)[] = []
  #ahead = 0
  /** Those that are not in use: a new one for each part would be much garbage. */
  #buffers: Uint8Array<ArrayBuffer>[] = []

  /** Runs a task with a place. Waits for one; those that wait get it in order. */
  async with<Result>(task: () => Promise<Result>): Promise<Result> {
    const leave = await this.enter()
    try {
      return await task()
    } finally {
      leave()
    }
  }

  /** Waits for a place, as `with`; returns what gives it back, once. */
  async enter(): Promise<() => void> {
    if (this.#taken < MOST_PARTS_AT_ONCE) this.#taken++
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
    let isTaken = true
    return () => {
      if (isTaken) this.#leave()
      isTaken = false
    }
  }

  /** Lends the one who has a place room for a part. It contains anything. */
  async withBuffer<Result>(task: (buffer: Uint8Array<ArrayBuffer>) => Promise<Result>): Promise<Result> {
    const buffer = this.#buffers.pop() ?? new Uint8Array(FILE_PART_BYTES)
    try {
      return await task(buffer)
    } finally {
      this.#buffers.push(buffer)
    }
  }

  /** Allows a part to be fetched before its reader asks for it; returns what ends that, once, or undefined. */
  goAhead(): (() => void) | undefined {
    if (this.#ahead >= MOST_AHEAD) return undefined
    this.#ahead++
    let isAhead = true
    return () => {
      if (isAhead) this.#ahead--
      isAhead = false
    }
  }

  #leave(): void {
    const next = this.#waiting.shift()
    if (next) return next()
    this.#taken--
    if (this.#taken === 0) this.#buffers = []
  }
}
