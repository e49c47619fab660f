/**
 * The streams of one connection that were opened within a window and did not end well. Also counted when they open: those
 * of one read, which can be thousands, are all opened before the first of them is seen to be reset.
 */
import { constants } from 'node:http2'
import { RESET_WINDOW_MS, type Resets } from './resets.ts'

/** The share of its resets that a connection of a slowed address has. */
const SLOWED_SHARE = 0.1

export class Streak {
  readonly #limits: { readonly streams: number; readonly resets: number }
  readonly #address: Resets
  readonly #subject: string
  /** Opened in this window, without those that ended well. */
  #unfinished = 0
  #resets = 0
  #windowStart = 0

  constructor(limits: { readonly streams: number; readonly resets: number }, address: Resets, subject: string) {
    this.#limits = limits
    this.#address = address
    this.#subject = subject
  }

  /** Counts a stream; true if so many are not open at once that too many were reset. */
  opened(now: number): boolean {
    this.#move(now)
    this.#unfinished++
    const { streams } = this.#limits
    const isOver = this.#unfinished > streams + this.#most(now)
    if (isOver) this.#address.add(this.#subject, now, this.#unfinished - streams - this.#resets)
    return isOver
  }

  /** Counts the end of a stream; true if the connection has reset too many. */
  closed(code: number | undefined, now: number): boolean {
    this.#move(now)
    if (code === constants.NGHTTP2_NO_ERROR) {
      this.#unfinished = Math.max(0, this.#unfinished - 1)
      return false
    }
    this.#resets++
    this.#address.add(this.#subject, now)
    return this.#resets > this.#most(now)
  }

  /** How many the connection may reset. Others may share a slowed address: one that resets little is kept. */
  #most(now: number): number {
    const { resets } = this.#limits
    return this.#address.slowed(this.#subject, now) === undefined ? resets : Math.ceil(resets * SLOWED_SHARE)
  }

  #move(now: number): void {
    if (now - this.#windowStart <= RESET_WINDOW_MS) return
    this.#windowStart = now
    this.#unfinished = 0
    this.#resets = 0
  }
}
