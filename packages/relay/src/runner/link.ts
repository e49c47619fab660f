/**
 * One session stream as the relay holds it: cells in, cells out, and how much of what was sent has arrived. QUIC has no
 * way to tell, so pings between the data mark places in it; a pong says that everything before its mark was read.
 * At most a window is under way; answers and pushes beyond it wait here in a short queue, log entries in the log.
 */
import { CELL_BYTES, CellJoiner, makeCell } from '@static/protocol'
import type { Peer, StreamId, Time, Transport } from '../ports.ts'

/** Encoded cells, the same for every stream that they go to. */
export interface Packet {
  /** Tells packets and their parts apart, so that streams with the same ones get one buffer. */
  readonly id: string
  readonly cells: Uint8Array
}

/** A ping whose pong tells that what was sent before it has been read. */
export interface Mark extends Packet {
  readonly number: number
}

/** What may be under way, and how often there is a mark in the data. */
const WINDOW = { bytes: 256 * 1024, markBytes: 64 * 1024 } as const
/** The same on a clock, where what is under way waits for its tick: more of it would only wait elsewhere. */
const PACED_WINDOW = { bytes: 64 * 1024, markBytes: 16 * 1024 } as const
/** What may wait beside the log, beyond the message that is being written. */
const QUEUE_BYTES = 1024 * 1024
const MARK_NUMBER_BYTES = 8
/** Pings on a clock whose pongs may still come: a peer that answered none of so many will not answer the oldest. */
const MAX_PINGS = 64

/** The state of a stream. */
export class Link {
  readonly id: StreamId
  readonly peer: Peer
  readonly transport: Transport
  readonly joiner: CellJoiner
  /** When something last came from the peer. */
  heardAt: Time
  /** When the peer last took something. */
  progressAt: Time
  /** Since when an envelope waits for its next cell. */
  joiningSince: Time | undefined
  /** A ping that waits for a sign of life. */
  pingedAt: Time | undefined
  /** The core was told that the peer does not take what it is sent. */
  congested = false
  ending = false
  /** A message whose answer is waited for, and when it came. */
  timed: { readonly requestId: bigint; readonly at: Time } | undefined
  #window: { readonly bytes: number; readonly markBytes: number } = WINDOW
  #sent = 0
  #arrived = 0
  #marked = 0
  #marks: { readonly number: number; readonly offset: number }[] = []
  /** Pings on a clock: they overtake what waits, and so tell nothing about it. */
  readonly #pings: number[] = []
  #queue: Packet[] = []
  /** How much of the first packet has left. */
  #taken = 0
  #queuedBytes = 0

  constructor(id: StreamId, peer: Peer, transport: Transport, envelopeLimit: number, now: Time) {
    this.id = id
    this.peer = peer
    this.transport = transport
    this.joiner = new CellJoiner(envelopeLimit)
    this.heardAt = now
    this.progressAt = now
  }

  /** Whether more may be sent than what waits. */
  get hasRoom(): boolean {
    return this.#queue.length === 0 && this.#sent - this.#arrived < this.#window.bytes
  }

  /** Whether cells leave, and come, on a clock: then the peer takes them as fast as it said, which is never slow. */
  get paced(): boolean {
    return this.#window === PACED_WINDOW
  }

  /** From now on cells leave on a clock. */
  pace(): void {
    this.#window = PACED_WINDOW
  }

  /** Whether what waits fills the window by itself. */
  get isFull(): boolean {
    return this.#queuedBytes >= this.#window.bytes
  }

  get isEmpty(): boolean {
    return this.#queue.length === 0
  }

  /** Takes a packet to be sent; false when too much waits already, unless it is the last word. */
  push(packet: Packet, last = false): boolean {
    if (!last && this.#queuedBytes > QUEUE_BYTES + WINDOW.bytes) return false
    this.#queue.push(packet)
    this.#queuedBytes += packet.cells.length
    return true
  }

  /**
   * What may leave now, with marks where they are due, also within a long packet: its reader is alive as long as marks
   * come back. The last words on a stream do not wait for room.
   */
  take(mark: () => Mark): Packet[] {
    const packets: Packet[] = []
    while (this.#queue.length > 0 && (this.ending || this.#sent - this.#arrived < this.#window.bytes)) {
      const part = this.#next()
      packets.push(part)
      this.#sent += part.cells.length
      if (this.ending || this.#sent - this.#marked < this.#window.markBytes) continue
      const due = mark()
      packets.push(due)
      this.#mark(due.number)
    }
    return packets
  }

  /** The first packet, or the next part of it. */
  #next(): Packet {
    const [first] = this.#queue
    if (!first) throw new RangeError('Nothing waits.')
    const from = this.#taken
    const to = this.ending ? first.cells.length : Math.min(first.cells.length, from + this.#window.markBytes)
    this.#queuedBytes -= to - from
    this.#taken = to
    if (to === first.cells.length) {
      this.#queue.shift()
      this.#taken = 0
    }
    if (from === 0 && to === first.cells.length) return first
    return { id: `${first.id}:${from}`, cells: first.cells.subarray(from, to) }
  }

  /** A ping goes out whatever waits. */
  ping(markNumber: number, now: Time): void {
    this.pingedAt = now
    if (!this.paced) return this.#mark(markNumber)
    this.#pings.push(markNumber)
    if (this.#pings.length > MAX_PINGS) this.#pings.shift()
  }

  /** The peer has read up to a mark, or answers a ping; false when there was no such one. */
  pong(payload: Uint8Array, now: Time): boolean {
    if (payload.length !== MARK_NUMBER_BYTES) return false
    const number = Number(new DataView(payload.buffer, payload.byteOffset).getBigUint64(0))
    const ping = this.#pings.indexOf(number)
    this.#pings.splice(0, ping + 1)
    if (ping !== -1) return true
    const at = this.#marks.findIndex((mark) => mark.number === number)
    const mark = this.#marks[at]
    if (!mark) return false
    this.#marks = this.#marks.slice(at + 1)
    this.#arrived = mark.offset
    this.progressAt = now
    return true
  }

  #mark(number: number): void {
    this.#sent += CELL_BYTES
    this.#marked = this.#sent
    this.#marks.push({ number, offset: this.#sent })
  }
}

/** The cell of a mark. */
export function markCell(number: number): Uint8Array {
  const payload = new Uint8Array(MARK_NUMBER_BYTES)
  new DataView(payload.buffer).setBigUint64(0, BigInt(number))
  return makeCell('ping', payload)
}
