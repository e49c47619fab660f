/**
 * Cells: what a session stream is made of (SPEC.md, "Traffic"). Every cell is 1,024 bytes,
 *
 *     type(1) length(2, big-endian) payload(length) zeros
 *
 * so that the network sees neither lengths nor, with cover cells among them, how much is real. An envelope that fits is
 * one `whole` cell; a longer one is `first`, any number of `next`, `last`, all but the last of them full. The other
 * types are complete in themselves and may stand between the cells of an envelope, so that a slow clock never holds up
 * a ping or an acknowledgement. There is one way to cut an envelope and padding must be zero: nothing can be hidden in
 * cells. They do not protect content and mean nothing without TLS around them.
 */
import { WireError } from '../wire/wire-error.ts'

/** The size of every cell. */
export const CELL_BYTES = 1024
/** What a cell can carry. */
export const CELL_PAYLOAD_BYTES = 1021
const HEAD_BYTES = 3

/** The first byte of a cell. */
export const CELL_TYPES = {
  /** Nothing: dropped. 1,024 zeros. */
  cover: 0,
  /** Nothing, but the receiver sends a `cover` cell after the time that an answer takes, as a message gets one. */
  coverAsk: 1,
  /** Asks for a `pong` with the same payload. */
  ping: 2,
  pong: 3,
  /** An AckRequest in the session's wire form; it gets no answer. */
  ack: 4,
  whole: 5,
  first: 6,
  next: 7,
  last: 8,
} as const

/** The types of cells that stand for themselves. */
export type LoneCell = 'cover' | 'coverAsk' | 'ping' | 'pong' | 'ack'

/** What the cells of a stream amount to. Plain cover is dropped without a word. */
export interface CellEvent {
  readonly type: 'envelope' | 'coverAsk' | 'ping' | 'pong' | 'ack'
  /** A view of the chunk that was fed, or a buffer of its own: copy what outlives the chunk. */
  readonly payload: Uint8Array
}

/**
 * Cuts an envelope into cells, one after the other in one buffer.
 *
 * @throws {RangeError} when the envelope is empty
 */
export function cutEnvelope(envelope: Uint8Array): Uint8Array<ArrayBuffer> {
  if (envelope.length === 0) throw new RangeError('An empty envelope has no cells.')
  const count = Math.ceil(envelope.length / CELL_PAYLOAD_BYTES)
  const cells = new Uint8Array(count * CELL_BYTES)
  for (let at = 0; at < count; at++) {
    const start = at * CELL_PAYLOAD_BYTES
    const type = count === 1 ? 'whole' : at === 0 ? 'first' : at === count - 1 ? 'last' : 'next'
    fill(cells, at * CELL_BYTES, CELL_TYPES[type], envelope.subarray(start, start + CELL_PAYLOAD_BYTES))
  }
  return cells
}

/**
 * Makes a cell that stands for itself.
 *
 * @throws {RangeError} when the payload does not fit, or is not empty in a cover cell
 */
export function makeCell(type: LoneCell, payload: Uint8Array = new Uint8Array()): Uint8Array<ArrayBuffer> {
  const room = type === 'cover' || type === 'coverAsk' ? 0 : CELL_PAYLOAD_BYTES
  if (payload.length > room) throw new RangeError(`${payload.length} bytes do not fit into a ${type} cell.`)
  const cell = new Uint8Array(CELL_BYTES)
  fill(cell, 0, CELL_TYPES[type], payload)
  return cell
}

function fill(cells: Uint8Array, at: number, type: number, payload: Uint8Array): void {
  cells[at] = type
  cells[at + 1] = payload.length >>> 8
  cells[at + 2] = payload.length
  cells.set(payload, at + HEAD_BYTES)
}

/** Rejoins the cells of one direction of one stream, whatever chunks they arrive in. */
export class CellJoiner {
  /** The longest envelope that is taken. Raise it when the peer has shown who it is; it counts from the next cell. */
  limit: number
  /** Counts the cells of envelopes, and the others only between two of them: who sends those alone gets nowhere. */
  steps = 0
  /** A cell that is not complete yet, and how much of it is there. */
  #cell: Uint8Array<ArrayBuffer> | undefined
  #cellBytes = 0
  /** An envelope that is not complete yet, in a buffer that grows, and how much of it is there. */
  #envelope: Uint8Array<ArrayBuffer> | undefined
  #envelopeBytes = 0
  #failure: WireError | undefined

  constructor(limit: number) {
    this.limit = limit
  }

  /** Memory held for what is not complete yet: at most twice the limit and a cell, for a budget over all sessions. */
  get heldBytes(): number {
    return (this.#cell?.length ?? 0) + (this.#envelope?.length ?? 0)
  }

  /**
   * Takes the next bytes of the stream and hands over, in order, what they complete. When `take` throws, the session is
   * over: the rest of the chunk is gone.
   *
   * @throws {WireError} when the peer breaks a rule of cells; the joiner takes nothing more after that
   */
  push(chunk: Uint8Array, take: (event: CellEvent) => void): void {
    if (this.#failure !== undefined) throw this.#failure
    let at = 0
    if (this.#cell !== undefined) {
      at = Math.min(CELL_BYTES - this.#cellBytes, chunk.length)
      this.#cell.set(chunk.subarray(0, at), this.#cellBytes)
      this.#cellBytes += at
      if (this.#cellBytes < CELL_BYTES) return
      const cell = this.#cell
      // Not used again: the event's payload is a view of it.
      this.#cell = undefined
      this.#accept(cell, 0, take)
    }
    for (; at + CELL_BYTES <= chunk.length; at += CELL_BYTES) this.#accept(chunk, at, take)
    if (at === chunk.length) return
    this.#cell = new Uint8Array(CELL_BYTES)
    this.#cell.set(chunk.subarray(at))
    this.#cellBytes = chunk.length - at
  }

  /**
   * The stream has ended.
   *
   * @throws {WireError} when it ended within a cell or an envelope
   */
  end(): void {
    if (this.#cell !== undefined || this.#envelope !== undefined) throw this.#fail('truncated')
  }

  #accept(bytes: Uint8Array, start: number, take: (event: CellEvent) => void): void {
    const type = bytes[start] ?? 0
    const length = (bytes[start + 1] ?? 0) * 0x100 + (bytes[start + 2] ?? 0)
    if (length > CELL_PAYLOAD_BYTES) throw this.#fail('cell-length')
    const end = start + HEAD_BYTES + length
    for (let at = end; at < start + CELL_BYTES; at++) if (bytes[at] !== 0) throw this.#fail('cell-padding')
    const payload = bytes.subarray(start + HEAD_BYTES, end)
    if (this.#envelope === undefined || type >= CELL_TYPES.whole) this.steps++
    switch (type) {
      case CELL_TYPES.cover:
        this.#expect(length === 0, 'cell-length')
        return
      case CELL_TYPES.coverAsk:
        this.#expect(length === 0, 'cell-length')
        take({ type: 'coverAsk', payload })
        return
      case CELL_TYPES.ping:
        take({ type: 'ping', payload })
        return
      case CELL_TYPES.pong:
        take({ type: 'pong', payload })
        return
      case CELL_TYPES.ack:
        take({ type: 'ack', payload })
        return
      case CELL_TYPES.whole:
        this.#expect(this.#envelope === undefined, 'cell-order')
        this.#expect(length > 0, 'cell-length')
        this.#expect(length <= this.limit, 'too-large')
        take({ type: 'envelope', payload })
        return
      case CELL_TYPES.first:
        this.#expect(this.#envelope === undefined, 'cell-order')
        this.#expect(length === CELL_PAYLOAD_BYTES, 'cell-length')
        this.#append(payload)
        return
      case CELL_TYPES.next:
        this.#expect(this.#envelope !== undefined, 'cell-order')
        this.#expect(length === CELL_PAYLOAD_BYTES, 'cell-length')
        this.#append(payload)
        return
      case CELL_TYPES.last:
        this.#expect(this.#envelope !== undefined, 'cell-order')
        this.#expect(length > 0, 'cell-length')
        this.#append(payload)
        take({ type: 'envelope', payload: this.#takeEnvelope() })
        return
      default:
        throw this.#fail('cell-type')
    }
  }

  /** Memory grows with what has arrived, never with what a peer announces. */
  #append(payload: Uint8Array): void {
    const length = this.#envelopeBytes + payload.length
    this.#expect(length <= this.limit, 'too-large')
    let envelope = (this.#envelope ??= new Uint8Array(4 * CELL_BYTES))
    if (length > envelope.length) {
      envelope = new Uint8Array(envelope.buffer.transfer(envelope.length * 2))
      this.#envelope = envelope
    }
    envelope.set(payload, this.#envelopeBytes)
    this.#envelopeBytes = length
  }

  #takeEnvelope(): Uint8Array {
    const bytes = this.#envelope ?? new Uint8Array()
    const envelope = new Uint8Array(bytes.buffer.transfer(this.#envelopeBytes))
    this.#envelope = undefined
    this.#envelopeBytes = 0
    return envelope
  }

  #expect(condition: boolean, fault: WireError['fault']): void {
    if (!condition) throw this.#fail(fault)
  }

  /** Lets go of everything: a session that is about to close holds no memory. */
  #fail(fault: WireError['fault']): WireError {
    this.#cell = undefined
    this.#envelope = undefined
    this.#failure = new WireError(fault)
    return this.#failure
  }
}
