/**
 * Cells: the units of a session stream (SPEC.md, "Traffic"). Every cell is 1,024 bytes,
 *
 *     type(1) length(2, big-endian) payload(length) zeros
 *
 * so that the network sees neither lengths nor, with cover cells among them, how much of the traffic is real. An
 * envelope that fits is one `whole` cell; a longer one is `first`, any number of `next`, and `last`, all full except
 * the last. Cells of the other types are self-contained and may come between the cells of an envelope, so that a slow
 * clock never delays a ping or an acknowledgement. There is only one way to split an envelope, and padding must be
 * zero, so nothing can be hidden in cells. They do not protect content and are useless without TLS around them.
 */
import { WireError } from '../wire/wire-error.ts'

export const CELL_BYTES = 1024
/** The largest payload of a cell. */
export const CELL_PAYLOAD_BYTES = 1021
const HEAD_BYTES = 3

/** The first byte of a cell. */
export const CELL_TYPES = {
  /** Empty: dropped. 1,024 zeros. */
  cover: 0,
  /** Empty, but the receiver sends a `cover` cell after the time that a response takes, as it would to a message. */
  coverAsk: 1,
  /** The receiver sends a `pong` with the same payload. */
  ping: 2,
  pong: 3,
  /** An AckRequest in the session's wire form; it gets no response. */
  ack: 4,
  whole: 5,
  first: 6,
  next: 7,
  last: 8,
} as const

/** The types of self-contained cells. */
export type LoneCell = 'cover' | 'coverAsk' | 'ping' | 'pong' | 'ack'

/** An event from the cells of a stream. Plain cover is dropped silently. */
export interface CellEvent {
  readonly type: 'envelope' | 'coverAsk' | 'ping' | 'pong' | 'ack'
  /** A view of the chunk, or a separate buffer: copy anything that must outlive the chunk. */
  readonly payload: Uint8Array
}

/**
 * Splits an envelope into cells, one after the other in one buffer.
 *
 * @throws {RangeError} if the envelope is empty
 */
export function cutEnvelope(envelope: Uint8Array): Uint8Array<ArrayBuffer> {
  if (envelope.length === 0) throw new RangeError('An envelope must not be empty.')
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
 * Creates a self-contained cell.
 *
 * @throws {RangeError} if the payload does not fit, or is not empty in a cover cell
 */
export function makeCell(type: LoneCell, payload: Uint8Array = new Uint8Array()): Uint8Array<ArrayBuffer> {
  const room = type === 'cover' || type === 'coverAsk' ? 0 : CELL_PAYLOAD_BYTES
  if (payload.length > room)
    throw new RangeError(`A payload of ${payload.length} bytes does not fit into a ${type} cell (at most ${room}).`)
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

/**
 * The initial buffer size for joining an envelope of several cells, which is enough for most. One buffer is kept for
 * the next envelope, of any stream.
 */
const SPARE_BYTES = 4 * CELL_BYTES
let spare: Uint8Array<ArrayBuffer> | undefined

function takeSpare(): Uint8Array<ArrayBuffer> {
  const taken = spare ?? new Uint8Array(SPARE_BYTES)
  spare = undefined
  return taken
}

/**
 * Whether all bytes of a range are zero. Checks whole words: most cells are mostly padding, and all of it is checked.
 */
function isZero(bytes: Uint8Array, from: number, to: number): boolean {
  let at = from
  let found = 0
  const offset = bytes.byteOffset
  for (; at < to && (offset + at) % 4 !== 0; at++) found |= bytes[at] ?? 0
  const count = (to - at) >>> 2
  if (count > 0) {
    const words = new Uint32Array(bytes.buffer, offset + at, count)
    for (let word = 0; word < count; word++) found |= words[word] ?? 0
    at += 4 * count
  }
  for (; at < to; at++) found |= bytes[at] ?? 0
  return found === 0
}

/** Reassembles the cells of one direction of one stream, in whatever chunks they arrive. */
export class CellJoiner {
  /**
   * The longest envelope accepted. Raise it once the peer is authenticated; the new limit applies from the next cell.
   */
  limit: number
  /**
   * Progress: counts the cells of envelopes, and other cells only between envelopes. A peer that sends only other cells
   * within an envelope makes no progress.
   */
  steps = 0
  /** An incomplete cell, and how many of its bytes have arrived. */
  #cell: Uint8Array<ArrayBuffer> | undefined
  #cellBytes = 0
  /** An incomplete envelope in a growing buffer, and how many of its bytes have arrived. */
  #envelope: Uint8Array<ArrayBuffer> | undefined
  #envelopeBytes = 0
  #failure: WireError | undefined

  constructor(limit: number) {
    this.limit = limit
  }

  /** Memory held for incomplete data: at most twice the limit plus a cell. For a memory budget over all sessions. */
  get heldBytes(): number {
    return (this.#cell?.length ?? 0) + (this.#envelope?.length ?? 0)
  }

  /**
   * Processes the next bytes of the stream and passes on, in order, the events that they complete. If `take` throws,
   * the session is over and the rest of the chunk is lost.
   *
   * @throws {WireError} if the peer breaks a rule of cells; the joiner accepts nothing more after that
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
      // Not reused: the event's payload is a view of it.
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
   * Call it when the stream has ended.
   *
   * @throws {WireError} if it ended within a cell or an envelope
   */
  end(): void {
    if (this.#cell !== undefined || this.#envelope !== undefined) throw this.#fail('truncated')
  }

  #accept(bytes: Uint8Array, start: number, take: (event: CellEvent) => void): void {
    const type = bytes[start] ?? 0
    const length = (bytes[start + 1] ?? 0) * 0x100 + (bytes[start + 2] ?? 0)
    if (length > CELL_PAYLOAD_BYTES) throw this.#fail('cell-length')
    const end = start + HEAD_BYTES + length
    if (!isZero(bytes, end, start + CELL_BYTES)) throw this.#fail('cell-padding')
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

  /** Memory grows with the bytes received, never with a length that a peer announces. */
  #append(payload: Uint8Array): void {
    const length = this.#envelopeBytes + payload.length
    this.#expect(length <= this.limit, 'too-large')
    let envelope = (this.#envelope ??= takeSpare())
    if (length > envelope.length) {
      envelope = new Uint8Array(envelope.buffer.transfer(envelope.length * 2))
      this.#envelope = envelope
    }
    envelope.set(payload, this.#envelopeBytes)
    this.#envelopeBytes = length
  }

  #takeEnvelope(): Uint8Array {
    const bytes = this.#envelope ?? new Uint8Array()
    const envelope = bytes.slice(0, this.#envelopeBytes)
    if (bytes.length === SPARE_BYTES) spare = bytes
    this.#envelope = undefined
    this.#envelopeBytes = 0
    return envelope
  }

  #expect(condition: boolean, fault: WireError['fault']): void {
    if (!condition) throw this.#fail(fault)
  }

  /** Releases all buffers, so that a session about to close holds no memory. */
  #fail(fault: WireError['fault']): WireError {
    this.#cell = undefined
    this.#envelope = undefined
    this.#failure = new WireError(fault)
    return this.#failure
  }
}
