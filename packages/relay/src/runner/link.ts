/**
 * One session stream of the relay: cells in, cells out, and how much of what was sent has arrived. QUIC cannot report
 * that, so pings between the data mark positions in it; a pong confirms that everything before its mark was read. At
 * most one window is in flight; answers and pushes beyond it wait here in a short queue, log entries in the log.
 */
import { subjectOf } from '@static/node/address'
import { addressKey, CELL_BYTES, type CellEvent, CellJoiner, makeCell, networkOf } from '@static/protocol'
import type { ProxyHelloRequest } from '@static/protocol/relay'
import { addressText } from '../core/sessions/address.ts'
import type { Peer, StreamId, Time, Transport } from '../ports.ts'

/** Encoded cells, the same for every stream they go to. */
export interface Packet {
  /** Identifies packets and their parts, so that streams with the same ones share a buffer. */
  readonly id: string
  readonly cells: Uint8Array
}

/** A ping whose pong confirms that everything sent before it has been read. */
export interface Mark extends Packet {
  readonly number: number
}

/**
 * A request or an acknowledgement that waits for its turn, still encoded: decoded, it would take many times the memory.
 */
export interface WaitingCell extends CellEvent {
  readonly at: Time
  /** Its size for the memory limit. */
  readonly bytes: number
}

/** How much may be in flight, and the distance between marks in the data. */
const WINDOW = { bytes: 256 * 1024, markBytes: 64 * 1024 } as const
/** The same on a clocked stream, where data in flight waits for its tick anyway. */
const PACED_WINDOW = { bytes: 64 * 1024, markBytes: 16 * 1024 } as const
/** Limit of the queue, not counting the message being written. */
const QUEUE_BYTES = 1024 * 1024
const MARK_NUMBER_BYTES = 8
/**
 * Number of unanswered pings kept on a clocked stream. A peer that answered none of them will not answer the oldest.
 */
const MAX_PINGS = 64

/** The state of a stream. */
export class Link {
  readonly id: StreamId
  readonly peer: Peer
  /**
   * The address that limits count, of the peer or of the agent behind a proxy, and its /48; if it has none, the address
   * again.
   */
  address: string
  network: string
  readonly transport: Transport
  readonly joiner: CellJoiner
  /** When the peer last sent something. */
  heardAt: Time
  /** When the peer last read something. */
  progressAt: Time
  /** When an incomplete envelope began to wait for its next cell. */
  joiningSince: Time | undefined
  /** When the pending liveness ping was sent. */
  pingedAt: Time | undefined
  /** Whether the core knows that the peer is not reading. */
  congested = false
  ending = false
  /** Requests and acknowledgements that wait for their turn, in order, and their size. */
  waiting: WaitingCell[] = []
  waitingBytes = 0
  /** A message waiting for its answer, and when it arrived. */
  timed: { readonly requestId: bigint; readonly at: Time } | undefined
  #window: { readonly bytes: number; readonly markBytes: number } = WINDOW
  #sent = 0
  #arrived = 0
  #marked = 0
  #marks: { readonly number: number; readonly offset: number }[] = []
  /** Pings on a clocked stream. They overtake queued data and so confirm nothing about it. */
  readonly #pings: number[] = []
  #queue: Packet[] = []
  /** How much of the first packet has been sent. */
  #taken = 0
  #queuedBytes = 0
  #isProxied = false

  constructor(id: StreamId, peer: Peer, transport: Transport, envelopeLimit: number, now: Time) {
    this.id = id
    this.peer = peer
    this.address = subjectOf(peer.address)
    this.network = networkOf(this.address) ?? this.address
    this.transport = transport
    this.joiner = new CellJoiner(envelopeLimit)
    this.heardAt = now
    this.progressAt = now
  }

  /** Takes the address of the agent behind this stream: only from a proxy, and once. Returns false otherwise. */
  proxied({ agentAddress }: ProxyHelloRequest): boolean {
    const address = addressText(agentAddress)
    if (!this.peer.proxy || this.#isProxied || address === undefined) return false
    this.#isProxied = true
    this.address = addressKey(address)
    this.network = networkOf(this.address) ?? this.address
    return true
  }

  /** Whether there is room beyond what is queued. */
  get hasRoom(): boolean {
    return this.#queue.length === 0 && this.#sent - this.#arrived < this.#window.bytes
  }

  /** Whether cells are sent and received on a clock. Then the peer reads at its announced rate, which is never slow. */
  get paced(): boolean {
    return this.#window === PACED_WINDOW
  }

  /** Puts the stream on a clock from now on. */
  pace(): void {
    this.#window = PACED_WINDOW
  }

  /** Whether the queue alone fills the window. */
  get isFull(): boolean {
    return this.#queuedBytes >= this.#window.bytes
  }

  get isEmpty(): boolean {
    return this.#queue.length === 0
  }

  /** Queues a packet; returns false if the queue is full, unless it is the last packet. */
  push(packet: Packet, last = false): boolean {
    if (!last && this.#queuedBytes > QUEUE_BYTES + WINDOW.bytes) return false
    this.#queue.push(packet)
    this.#queuedBytes += packet.cells.length
    return true
  }

  /**
   * What may be sent now, with marks where they are due, even within a long packet: its reader is alive as long as
   * marks come back. The last packets on a stream do not wait for room.
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
    if (!first) throw new RangeError('The queue is empty.')
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

  /** Sends a ping, whatever is queued. */
  ping(markNumber: number, now: Time): void {
    this.pingedAt = now
    if (!this.paced) return this.#mark(markNumber)
    this.#pings.push(markNumber)
    if (this.#pings.length > MAX_PINGS) this.#pings.shift()
  }

  /** Handles a pong for a mark or a ping; returns false if it matches neither. */
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
