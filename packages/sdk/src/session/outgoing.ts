/**
 * What leaves on a stream (SPEC.md, "Traffic"): pings between the data mark places in it, a pong says that everything
 * before its mark was read, and at most a window is under way. So a slow link is not taken for a dead one: its pongs
 * keep coming. Requests beyond the window, or beyond what the relay keeps open for one stream, wait here. Cells that
 * stand for themselves go at once: if pongs waited for the window as well, two full windows would wait for each other.
 */
import { CELL_BYTES, makeCell } from '@static/protocol'

/** A request on its way. */
export interface Parcel {
  readonly cells: Uint8Array
  /** Whether its first cell has left. */
  started: boolean
}

/** What may be under way, and how often there is a mark in the data. */
const WINDOW = { bytes: 256 * 1024, markBytes: 64 * 1024 } as const
/** The same on a clock, where what is under way waits for its tick: more of it would only wait elsewhere. */
const PACED_WINDOW = { bytes: 64 * 1024, markBytes: 16 * 1024 } as const
const MARK_PAYLOAD_BYTES = 8
/** Pings on a clock whose pongs may still come: a relay that answered none of so many will not answer the oldest. */
const MAX_PINGS = 64
/** Below the relay's own limits (1,024 and 8 MiB), beyond which it ends the session. */
const MAX_OPEN = 1000
const MAX_OPEN_BYTES = 7 * 1024 * 1024
/** What may wait here, beyond the one that starts to. */
const MAX_WAITING_BYTES = 16 * 1024 * 1024
/** How many sent parcels the queue keeps before it is cut. */
const MAX_TAKEN = 1024

/** The outgoing half of a stream. */
export class Outgoing {
  readonly #write: (cells: Uint8Array, urgent: boolean) => void
  readonly #random: (bytes: number) => Uint8Array
  readonly #queue: Parcel[] = []
  /** The first in the queue that has not left, and how much of it has. */
  #head = 0
  #taken = 0
  #waitingBytes = 0
  #open = 0
  #openBytes = 0
  #sent = 0
  #arrived = 0
  #marked = 0
  #marks: { readonly payload: Uint8Array; readonly offset: number }[] = []
  /** Pings on a clock: they overtake what waits, and so tell nothing about it. */
  readonly #pings: Uint8Array[] = []
  #window: { readonly bytes: number; readonly markBytes: number } = WINDOW

  /** `write` takes the cells that leave; urgent ones stand for themselves and may overtake the others on a clock. */
  constructor(write: (cells: Uint8Array, urgent: boolean) => void, random: (bytes: number) => Uint8Array) {
    this.#write = write
    this.#random = random
  }

  /** Whether something waits here. */
  get isBusy(): boolean {
    return this.#queue.length > 0
  }

  /** From now on cells leave on a clock. */
  pace(): void {
    this.#window = PACED_WINDOW
  }

  /** Takes a request; false when too much waits already. */
  push(parcel: Parcel): boolean {
    if (this.#waitingBytes > MAX_WAITING_BYTES) return false
    this.#queue.push(parcel)
    this.#waitingBytes += parcel.cells.length
    this.#pump()
    return true
  }

  /** A request that had left is answered. */
  answered({ cells }: Parcel): void {
    this.#open--
    this.#openBytes -= cells.length
    this.#pump()
  }

  /** A cell that stands for itself goes at once. */
  lone(cell: Uint8Array): void {
    if (this.#isPaced) this.#write(cell, true)
    else this.#out(cell)
  }

  /** Asks for a sign of life. */
  ping(): void {
    if (!this.#isPaced) return this.#mark()
    const payload = this.#random(MARK_PAYLOAD_BYTES)
    this.#pings.push(payload)
    if (this.#pings.length > MAX_PINGS) this.#pings.shift()
    this.#write(makeCell('ping', payload), true)
  }

  /** Marks the place in the data. */
  #mark(): void {
    const payload = this.#random(MARK_PAYLOAD_BYTES)
    this.#sent += CELL_BYTES
    this.#marked = this.#sent
    this.#marks.push({ payload, offset: this.#sent })
    this.#write(makeCell('ping', payload), false)
  }

  /** The relay has read up to a mark, or answers a ping; false when there was no such one. */
  pong(payload: Uint8Array): boolean {
    const ping = this.#pings.findIndex((sent) => isSame(sent, payload))
    this.#pings.splice(0, ping + 1)
    if (ping !== -1) return true
    const at = this.#marks.findIndex((mark) => isSame(mark.payload, payload))
    const mark = this.#marks[at]
    if (!mark) return false
    this.#marks.splice(0, at + 1)
    this.#arrived = mark.offset
    this.#pump()
    return true
  }

  #pump(): void {
    for (;;) {
      const parcel = this.#queue[this.#head]
      if (!parcel || this.#sent - this.#arrived >= this.#window.bytes) break
      if (!parcel.started && !this.#start(parcel)) break
      const from = this.#taken
      const to = Math.min(parcel.cells.length, from + this.#window.markBytes)
      this.#waitingBytes -= to - from
      this.#taken = to === parcel.cells.length ? 0 : to
      if (this.#taken === 0) this.#head++
      this.#out(to - from === parcel.cells.length ? parcel.cells : parcel.cells.subarray(from, to))
    }
    if (this.#head === this.#queue.length) this.#queue.length = 0
    else if (this.#head >= MAX_TAKEN) this.#queue.splice(0, this.#head)
    else return
    this.#head = 0
  }

  #start(parcel: Parcel): boolean {
    const full = this.#open >= MAX_OPEN || (this.#open > 0 && this.#openBytes + parcel.cells.length > MAX_OPEN_BYTES)
    if (full) return false
    parcel.started = true
    this.#open++
    this.#openBytes += parcel.cells.length
    return true
  }

  #out(cells: Uint8Array): void {
    this.#sent += cells.length
    this.#write(cells, false)
    if (this.#sent - this.#marked >= this.#window.markBytes) this.#mark()
  }

  get #isPaced(): boolean {
    return this.#window === PACED_WINDOW
  }
}

/** Whether two byte strings are the same. Not in constant time: nothing secret is compared with it. */
export function isSame(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at])
}
