/**
 * The streams of one connection that were opened within a window and did not end well. They are counted when opened,
 * because one read can open thousands before the first reset is seen.
 */
import { constants } from 'node:http2'
import { RESET_WINDOW_MS, type Resets } from './resets.ts'

/** The share of the reset limit that a connection of a slowed address gets. */
const SLOWED_SHARE = 0.1

export class Streak {
  readonly #limits: { readonly streams: number; readonly resets: number }
  readonly #address: Resets
  readonly #subject: string
  /** Streams opened in this window, without those that ended well. */
  #unfinished = 0
  #resets = 0
  #windowStart = 0

  constructor(limits: { readonly streams: number; readonly resets: number }, address: Resets, subject: string) {
    this.#limits = limits
    this.#address = address
    this.#subject = subject
  }

  /**
   * Counts a stream. Returns true if more are unfinished than can be open at once, so that too many must have been
   * reset.
   */
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

  /**
   * How many streams the connection may reset. Others may share a slowed address, so a connection with few resets is
   * kept.
   */
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
