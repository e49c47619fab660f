/**
 * The outgoing data of a stream (SPEC.md, "Traffic"). Pings between the data mark positions in it; a pong confirms that
 * everything before its mark was read; at most one window is in flight. So a slow link is not mistaken for a dead one:
 * its pongs keep coming. Requests beyond the window, or beyond the relay's limit of open requests per stream, are
 * queued here. Self-contained cells are sent at once: if pongs had to wait for the window as well, two full windows
 * would deadlock.
 */
import { CELL_BYTES, makeCell } from '@static/protocol'
import { same } from '../platform/bytes.ts'

/** A request to send. */
export interface QueuedRequest {
  readonly cells: Uint8Array
  /** Whether its first cell has been sent. */
  started: boolean
}

/** The limit of data in flight, and the distance of marks in the data. */
const WINDOW = { bytes: 256 * 1024, markBytes: 64 * 1024 } as const
/** The same on a clocked stream, where data in flight waits for its tick: more of it would only wait somewhere else. */
const PACED_WINDOW = { bytes: 64 * 1024, markBytes: 16 * 1024 } as const
const MARK_PAYLOAD_BYTES = 8
/**
 * Unanswered pings kept on a clocked stream. A relay that has answered none of that many will not answer the oldest.
 */
const MAX_PINGS = 64
/** Below the relay's own limits (1,024 and 8 MiB), beyond which it ends the session. */
const MAX_OPEN = 1000
const MAX_OPEN_BYTES = 7 * 1024 * 1024
/** Limit for queued requests, not counting the one being sent. */
const MAX_WAITING_BYTES = 16 * 1024 * 1024
/** How many sent requests the queue keeps before it is trimmed. */
const MAX_SENT_QUEUED = 1024

/** The outgoing half of a stream. */
export class CellWriter {
  readonly #write: (cells: Uint8Array, urgent: boolean) => void
  readonly #random: (bytes: number) => Uint8Array
  readonly #queue: QueuedRequest[] = []
  /** The first request in the queue that is not fully sent, and how many of its bytes have been sent. */
  #head = 0
  #headSent = 0
  #waitingBytes = 0
  #open = 0
  #openBytes = 0
  #sent = 0
  #arrived = 0
  #marked = 0
  #marks: { readonly payload: Uint8Array; readonly offset: number }[] = []
  /** Pings on a clocked stream. They overtake queued data and so confirm nothing about it. */
  readonly #pings: Uint8Array[] = []
  #window: { readonly bytes: number; readonly markBytes: number } = WINDOW

  /** `write` gets the cells to send. Urgent ones are self-contained and may overtake the others on a clocked stream. */
  constructor(write: (cells: Uint8Array, urgent: boolean) => void, random: (bytes: number) => Uint8Array) {
    this.#write = write
    this.#random = random
  }

  /** Whether requests are queued. */
  get isBusy(): boolean {
    return this.#queue.length > 0
  }

  /** From now on, the stream sends on a clock. */
  pace(): void {
    this.#window = PACED_WINDOW
  }

  /** Queues a request; returns false if the queue is full. */
  push(request: QueuedRequest): boolean {
    if (this.#waitingBytes > MAX_WAITING_BYTES) return false
    this.#queue.push(request)
    this.#waitingBytes += request.cells.length
    this.#pump()
    return true
  }

  /** Frees the place of a sent request once it is answered. */
  answered({ cells }: QueuedRequest): void {
    this.#open--
    this.#openBytes -= cells.length
    this.#pump()
  }

  /** Sends a self-contained cell at once. */
  sendNow(cell: Uint8Array): void {
    if (this.#isPaced) this.#write(cell, true)
    else this.#out(cell)
  }

  /** Pings the relay to check that it is alive. */
  ping(): void {
    if (!this.#isPaced) return this.#mark()
    const payload = this.#random(MARK_PAYLOAD_BYTES)
    this.#pings.push(payload)
    if (this.#pings.length > MAX_PINGS) this.#pings.shift()
    this.#write(makeCell('ping', payload), true)
  }

  /** Marks the current position in the data. */
  #mark(): void {
    const payload = this.#random(MARK_PAYLOAD_BYTES)
    this.#sent += CELL_BYTES
    this.#marked = this.#sent
    this.#marks.push({ payload, offset: this.#sent })
    this.#write(makeCell('ping', payload), false)
  }

  /** Handles a pong for a mark or a ping; returns false if it matches neither. */
  pong(payload: Uint8Array): boolean {
    const ping = this.#pings.findIndex((sent) => same(sent, payload))
    this.#pings.splice(0, ping + 1)
    if (ping !== -1) return true
    const at = this.#marks.findIndex((mark) => same(mark.payload, payload))
    const mark = this.#marks[at]
    if (!mark) return false
    this.#marks.splice(0, at + 1)
    this.#arrived = mark.offset
    this.#pump()
    return true
  }

  #pump(): void {
    for (;;) {
      const request = this.#queue[this.#head]
      if (!request || this.#sent - this.#arrived >= this.#window.bytes) break
      if (!request.started && !this.#start(request)) break
      const from = this.#headSent
      const to = Math.min(request.cells.length, from + this.#window.markBytes)
      this.#waitingBytes -= to - from
      this.#headSent = to === request.cells.length ? 0 : to
      if (this.#headSent === 0) this.#head++
      this.#out(to - from === request.cells.length ? request.cells : request.cells.subarray(from, to))
    }
    if (this.#head === this.#queue.length) this.#queue.length = 0
    else if (this.#head >= MAX_SENT_QUEUED) this.#queue.splice(0, this.#head)
    else return
    this.#head = 0
  }

  #start(request: QueuedRequest): boolean {
    const full = this.#open >= MAX_OPEN || (this.#open > 0 && this.#openBytes + request.cells.length > MAX_OPEN_BYTES)
    if (full) return false
    request.started = true
    this.#open++
    this.#openBytes += request.cells.length
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
