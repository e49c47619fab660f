/** Session streams between transports and the core: cells become inputs, and messages become cells. */
import {
  CELL_BYTES,
  type CellEvent,
  cutEnvelope,
  ENVELOPE_LIMITS,
  makeCell,
  paceOf,
  StaticError,
  WireError,
} from '@static/protocol'
import { decodeEnvelope, encodeEnvelope, peekEnvelope, type WireForm } from '@static/protocol/envelope'
import { AckRequestSchema, ClientMessageSchema, type ServerMessage, ServerMessageSchema } from '@static/protocol/relay'
import type { Effect } from '../core/io.ts'
import type { StreamHandler, StreamId, Time, Transport } from '../ports.ts'
import { Shaping, type ShapingCounts } from '../session/shaping.ts'
import { holdsBody, isCostly, REQUEST_BYTES, type RunnerContext } from './context.ts'
import { heaviest } from './heaviest.ts'
import { Link, type Packet } from './link.ts'
import { LinkWriter } from './link-writer.ts'

/** A message encoded for its receivers, once for each wire form. */
export type Packets = Partial<Record<WireForm, Packet>>

/** A reader on a clock may take this many times longer. */
const PACED_STALL = 4

/** The session streams of one node. */
export class Links {
  readonly #context: RunnerContext
  readonly #links = new Map<StreamId, Link>()
  readonly #shaping = new Shaping((stream) => this.#links.get(stream)?.hasRoom !== true)
  readonly #writer: LinkWriter
  #joiningBytes = 0
  #waitingBytes = 0

  constructor(context: RunnerContext) {
    this.#context = context
    this.#writer = new LinkWriter(context, this.#shaping, (link) => {
      this.#remove(link)
      link.transport.end(link.id)
    })
  }

  get size(): number {
    return this.#links.size
  }

  /** Cells of sessions without a clock. */
  get traffic(): ShapingCounts {
    return this.#shaping.counts
  }

  /** The handler for the streams of a transport. */
  streams(transport: () => Transport): StreamHandler {
    const { handle, now, nextStream } = this.#context
    return {
      opened: (peer) => {
        const id = nextStream()
        this.#links.set(id, new Link(id, peer, transport(), ENVELOPE_LIMITS.unauthenticated, now()))
        handle({ type: 'opened', stream: id, peer, kind: 'session' })
        return id
      },
      received: (id, chunk) => {
        const link = this.#links.get(id)
        if (link && !link.ending) this.#received(link, chunk)
      },
      closed: (id) => {
        const link = this.#links.get(id)
        if (!link) return
        this.#writer.drop(link)
        this.#remove(link)
        handle({ type: 'closed', stream: id })
      },
    }
  }

  // ---- Out ----

  /** Sends a message; returns false for an unknown stream. The encoded form is kept in `packets` for the next one. */
  send(id: StreamId, message: ServerMessage, packets: Packets): boolean {
    const link = this.#links.get(id)
    if (!link) return false
    const { form } = link.peer
    packets[form] ??= this.#writer.packet(cutEnvelope(encodeEnvelope(form, ServerMessageSchema, message)))
    if (link.timed?.requestId === message.requestId) {
      // A refusal may be faster, and cover does not mimic refusals.
      if (message.body.case === 'sendMessage') this.#shaping.answered(this.#context.now() - link.timed.at)
      link.timed = undefined
    }
    this.#writer.push(link, packets[form], message.body.case === 'sessionClosing')
    return true
  }

  /** Ends a stream after what was sent; returns false for an unknown stream. */
  end(id: StreamId): boolean {
    const link = this.#links.get(id)
    if (!link) return false
    link.ending = true
    this.#forgetWaiting(link)
    this.#writer.schedule(link)
    return true
  }

  /** The agent of a stream is authenticated. */
  known(id: StreamId): void {
    this.#links.get(id)?.transport.known?.(id)
  }

  /** Sets the longest envelope that the peer may send from now on. */
  limit(id: StreamId, bytes: number): void {
    const link = this.#links.get(id)
    if (link) link.joiner.limit = bytes
  }

  shape({ stream, traffic, cellsPerSecond }: Extract<Effect, { type: 'shape' }>): void {
    const link = this.#links.get(stream)
    if (!link) return
    if (paceOf(traffic, cellsPerSecond)) link.pace()
    // A proxy shapes the traffic of its agents; the connection to the proxy is not theirs.
    if (!link.peer.proxy) this.#shaping.begin(stream, link.transport, traffic, cellsPerSecond)
  }

  // ---- In ----

  #received(link: Link, chunk: Uint8Array): void {
    const { settings } = this.#context
    const now = this.#context.now()
    link.heardAt = now
    link.pingedAt = undefined
    const before = link.joiner.heldBytes
    const { steps } = link.joiner
    try {
      link.joiner.push(chunk, (event) => this.#cell(link, event, now))
    } catch (error) {
      this.#malformed(link, error)
    }
    const { heldBytes } = link.joiner
    if (heldBytes === 0) link.joiningSince = undefined
    else if (before === 0 || link.joiner.steps !== steps) link.joiningSince = now
    this.#joiningBytes += heldBytes - before
    if (this.#joiningBytes > settings.streams.joiningBytes && heldBytes > before) this.#cutJoining()
  }

  #malformed(link: Link, error: unknown): void {
    this.#context.handle({ type: 'malformed', stream: link.id, error: StaticError.from(error) })
  }

  #cell(link: Link, event: CellEvent, now: Time): void {
    // Whatever follows the closing message is ignored.
    if (link.ending) return
    const { type, payload } = event
    switch (type) {
      case 'envelope':
        if (this.#isFree(link, payload)) this.#take(link, event, now)
        else this.#wait(link, event, now)
        return
      case 'ack':
        if (link.waiting.length === 0) this.#take(link, event, now)
        else this.#wait(link, event, now)
        return
      case 'ping': {
        const pong = makeCell('pong', payload)
        if (link.paced) link.transport.write([link.id], pong, true)
        else this.#writer.push(link, this.#writer.packet(pong))
        return
      }
      case 'coverAsk':
        this.#shaping.asked(link.id)
        return
      case 'pong':
        if (!link.pong(payload, now)) throw new WireError('range')
        this.#writer.schedule(link)
    }
  }

  /** Whether a request needs no turn. */
  #isFree(link: Link, payload: Uint8Array): boolean {
    if (link.waiting.length > 0) return false
    const { form, proxy } = link.peer
    const request = peekEnvelope(form, ClientMessageSchema, payload)
    if (!proxy || request !== 'proxyHello') return !isCostly(request)
    // Not in the proxy's turn, which all of its agents would share.
    const { body } = decodeEnvelope(form, ClientMessageSchema, payload, ENVELOPE_LIMITS.unauthenticated)
    return body.case === 'proxyHello' && link.proxied(body.value)
  }

  /** Decodes and handles a cell that arrived at `at`. */
  #take(link: Link, { type, payload }: CellEvent, at: Time): void {
    const { handle } = this.#context
    const { form } = link.peer
    if (type === 'ack') {
      const ack = decodeEnvelope(form, AckRequestSchema, payload, payload.length)
      return handle({ type: 'acknowledged', stream: link.id, ack })
    }
    const message = decodeEnvelope(form, ClientMessageSchema, payload, ENVELOPE_LIMITS.member)
    const bytes = holdsBody(message) ? payload.length : REQUEST_BYTES
    if (message.body.case === 'sendMessage') link.timed ??= { requestId: message.requestId, at }
    handle({ type: 'received', stream: link.id, message, bytes })
  }

  /** Handles a cell when it is its turn, and keeps it until then. The cells of a stream stay in order. */
  #wait(link: Link, { type, payload }: CellEvent, at: Time): void {
    const { settings, handle } = this.#context
    const { requests, requestBytes, totalRequestBytes } = settings.streams
    const bytes = Math.max(payload.length, REQUEST_BYTES)
    const isFull = link.waiting.length >= requests || link.waitingBytes + bytes > requestBytes
    if (isFull) return handle({ type: 'flooded', stream: link.id })
    const isFirst = link.waiting.push({ type, payload: owned(payload), at, bytes }) === 1
    link.waitingBytes += bytes
    this.#waitingBytes += bytes
    if (this.#waitingBytes > totalRequestBytes) this.#cutWaiting()
    if (isFirst) this.#queue(link)
  }

  /** Queues a stream for its next waiting cell only, so that a busy stream does not delay others from its address. */
  #queue(link: Link): void {
    const { turns } = this.#context
    turns.add(link.address, {
      isGone: () => link.waiting.length === 0,
      run: () => {
        const next = link.waiting.shift()
        if (!next) return
        link.waitingBytes -= next.bytes
        this.#waitingBytes -= next.bytes
        try {
          this.#take(link, next, next.at)
        } catch (error) {
          this.#malformed(link, error)
        }
        if (link.waiting.length > 0) this.#queue(link)
      },
    })
  }

  /** Waiting cells take too much memory: closes the heaviest stream of the heaviest address. */
  #cutWaiting(): void {
    let worst: Link | undefined
    const links = heaviest(this.#links.values(), ({ waitingBytes }) => waitingBytes)
    for (const link of links) if (link.waitingBytes > (worst?.waitingBytes ?? 0)) worst = link
    if (worst) this.#context.handle({ type: 'flooded', stream: worst.id })
  }

  #forgetWaiting(link: Link): void {
    this.#waitingBytes -= link.waitingBytes
    link.waiting = []
    link.waitingBytes = 0
  }

  /**
   * Incomplete envelopes take too much memory: drops the longest one of the heaviest address and, among equals, the one
   * that has waited longest for its next cell. If only waiting time counted, the largest holders could stay by sending
   * small pieces and push out senders on a slow clock.
   */
  #cutJoining(): void {
    let worst: Link | undefined
    const links = heaviest(this.#links.values(), ({ joiningSince, ending, joiner: { heldBytes } }) => {
      return joiningSince === undefined || ending || heldBytes <= CELL_BYTES ? 0 : heldBytes
    })
    for (const link of links) {
      const more = link.joiner.heldBytes - (worst?.joiner.heldBytes ?? 0)
      const isOlder = (link.joiningSince ?? Infinity) < (worst?.joiningSince ?? Infinity)
      if (more > 0 || (more === 0 && isOlder)) worst = link
    }
    if (worst) this.#unfinished(worst)
  }

  #unfinished(link: Link): void {
    const error = StaticError.of('unavailable', 'An envelope was not completed in time.', { retryAfter: 5 })
    this.#context.handle({ type: 'malformed', stream: link.id, error })
  }

  #remove(link: Link): void {
    // If the relay ended it and the peer closed it in the same turn, it counts once.
    if (!this.#links.delete(link.id)) return
    this.#joiningBytes -= link.joiner.heldBytes
    this.#forgetWaiting(link)
    this.#shaping.end(link.id)
  }

  /** Extends all deadlines of peers by that much. */
  excuse(ms: number): void {
    for (const link of this.#links.values()) {
      link.progressAt += ms
      if (link.pingedAt !== undefined) link.pingedAt += ms
      if (link.joiningSince !== undefined) link.joiningSince += ms
    }
  }

  /** Pings silent peers, and reports slow ones to the core. */
  tick(now: Time): void {
    const { settings, handle } = this.#context
    const { pingMs, pongMs, stallMs } = settings.session
    for (const link of this.#links.values()) {
      if (link.ending) continue
      const dead = link.pingedAt !== undefined && now - link.pingedAt > pongMs
      // At one cell per second, a mark takes 20 s to come back.
      const stuck = link.congested && now - link.progressAt > (link.paced ? PACED_STALL : 1) * stallMs
      const unfinished = link.joiningSince !== undefined && now - link.joiningSince > stallMs
      if (dead || stuck) handle({ type: 'stalled', stream: link.id })
      else if (unfinished) this.#unfinished(link)
      else if (link.pingedAt === undefined && now - link.heardAt > pingMs) this.#writer.ping(link, now)
    }
  }
}

/** The bytes in a buffer of their own: otherwise they would keep the whole chunk's buffer in memory. */
function owned(bytes: Uint8Array): Uint8Array {
  return bytes.length === bytes.buffer.byteLength ? bytes : new Uint8Array(bytes)
}
