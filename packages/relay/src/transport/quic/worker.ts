/**
 * The thread of a QUIC endpoint: its sockets and connections. It decides nothing about sessions; it carries bytes and
 * limits memory. The library has no back-pressure for incoming data and reports a write as done once its native side
 * has it, so both directions are limited here: by the bytes that the relay, or the native side, has not yet taken.
 * Nothing is ever written inside a 'data' event, which loses writes in version 0.9.0; writes arrive as messages.
 */
import { isMainThread, type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { createQuicServer, type QuicServer, type QuicServerSession, type QuicStream } from '@currentspace/http3'
import { plainAddress, subjectOf } from '@static/node/address'
import { QUIC_SETTINGS } from '@static/quic'
import { Holdings, type Pace, sourceOf } from '@static/protocol'
import { Pacing } from '../../session/pacing.ts'
import { ArrivalBatch } from './arrivals.ts'
import type { Departures, EndpointSettings, FromEndpoint, StreamNumber, ToEndpoint } from './worker-messages.ts'
import { close, noteClosed, QUIC_CLOSE, type QuicClose } from './close.ts'

/** How long a connection may stay without a session: as long as an unauthenticated session may. */
const FIRST_STREAM_MS = 5_000
/** How long a peer may keep reading after the end. */
const LINGER_MS = 1_000
/** How long data may still arrive on a reset stream, because it is in transit between two threads. */
const GHOST_MS = 100
/** Bytes of one stream that may wait for the native side. */
const MAX_WAITING_BYTES = 8 * 1024 * 1024

/**
 * The library silently drops connections beyond its own limit, and the peer waits for its timeout. That limit is
 * therefore higher than ours by this factor: connections closed with a reason still count until their peers have
 * received it.
 */
const LIBRARY_ROOM = 2

/** Number of fields before the streams of a write. */
const WRITE_HEAD = 3
/** Interval for reporting the clocks to the relay. */
const REPORT_MS = 1_000

/** A session stream. */
interface Open {
  readonly number: StreamNumber
  readonly stream: QuicStream
  readonly session: QuicServerSession
  readonly proxy: boolean
  /** Whether the relay has ended it or knows that it has ended. */
  over: boolean
  /** Whether our side has ended; the peer may read on for a while. */
  finishing: boolean
}

class Endpoint {
  readonly #port: MessagePort
  readonly #settings: EndpointSettings
  readonly #servers: QuicServer[] = []
  readonly #streams = new Map<StreamNumber, Open>()
  readonly #arrivals: ArrivalBatch
  readonly #pacing = new Pacing()
  #hasPaced = false
  /** The agents' connections, with where they come from. */
  readonly #sources = new Map<QuicServerSession, string>()
  /** Connections that give way at a full endpoint: the agent is not authenticated yet, or its session is over. */
  readonly #yielding = new Holdings<QuicServerSession>()
  #connections = 0
  #lastNumber = 0

  constructor(port: MessagePort, settings: EndpointSettings) {
    this.#port = port
    this.#settings = settings
    this.#arrivals = new ArrivalBatch(port, settings.taken, (number) => this.#drop(number, QUIC_CLOSE.tooFast))
  }

  async listen(): Promise<void> {
    const { addresses, port, cert, key, proxyCa, maxConnections, idleTimeoutMs } = this.#settings
    for (const address of addresses) {
      const server = createQuicServer({
        ...QUIC_SETTINGS,
        cert,
        key,
        // Agents have no certificate. If one is presented it must be valid: a wrong one fails the handshake.
        ...(proxyCa === undefined ? {} : { ca: proxyCa, clientAuth: 'request' as const }),
        maxConnections: maxConnections * LIBRARY_ROOM,
        maxIdleTimeoutMs: idleTimeoutMs,
        disableRetry: false,
      })
      server.on('error', (error: Error) => this.#warn('QUIC endpoint error.', error.message))
      server.on('session', (session) => this.#connected(session))
      this.#servers.push(server)
      await server.listen(port, address)
    }
  }

  async stop(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.close()))
  }

  take({ writes, bytes, paced, known, ended }: Departures): void {
    for (const { stream, pace } of paced) this.#pace(stream, pace)
    let offset = 0
    for (let at = 0; at < writes.length;) {
      const length = writes[at] ?? 0
      const urgent = writes[at + 1] === 1
      const end = at + WRITE_HEAD + (writes[at + 2] ?? 0)
      const cells = Buffer.from(bytes, offset, length)
      for (at += WRITE_HEAD; at < end; at++) this.#write(writes[at] ?? 0, cells, urgent)
      offset += length
    }
    for (const number of known) this.#known(number)
    for (const number of ended) this.#end(number)
  }

  #connected(session: QuicServerSession): void {
    session.on('error', () => {})
    if (this.#connections >= this.#settings.maxConnections && !this.#makeRoom()) {
      close(session, QUIC_CLOSE.full)
      this.#say({ type: 'full', address: plainAddress(session.remoteAddress) })
      return
    }
    this.#connections++
    const proxy = session.peerCertificatePresented
    let used = false
    // A proxy may wait for its first agent; the idle timeout is enough for it.
    const timer = proxy ? undefined : setTimeout(() => close(session, QUIC_CLOSE.noStream), FIRST_STREAM_MS)
    if (!proxy) this.#sources.set(session, sourceOf(subjectOf(plainAddress(session.remoteAddress))))
    this.#yield(session)
    session.on('close', () => {
      clearTimeout(timer)
      noteClosed(session)
      this.#sources.delete(session)
      this.#yielding.remove(session)
      this.#connections--
    })
    session.on('stream', (stream) => {
      stream.on('error', () => {})
      // Only bidirectional streams are sessions. RFC 9000 marks the others in the second bit of the id.
      if ((used && !proxy) || (stream.id & 2) !== 0) {
        reset(session, stream, QUIC_CLOSE.extraStream)
        return
      }
      used = true
      clearTimeout(timer)
      this.#opened(session, stream, proxy)
    })
  }

  /**
   * Closes a connection of an agent that is not authenticated or whose session is over: the oldest one of the address
   * with the most. Agents authenticate within a few round trips, so connections that merely occupy places cannot keep
   * others out; and the relay has already given away the place of a session that is over, however long its peer takes
   * to read the rest.
   */
  #makeRoom(): boolean {
    const oldest = this.#yielding.first()
    if (oldest === undefined) return false
    this.#sources.delete(oldest)
    this.#yielding.remove(oldest)
    close(oldest, QUIC_CLOSE.full)
    return true
  }

  #known(number: StreamNumber): void {
    const open = this.#streams.get(number)
    if (open && !open.over) this.#yielding.remove(open.session)
  }

  /** Lets an agent's connection give way to others, unless it is already closing. */
  #yield(session: QuicServerSession): void {
    const source = this.#sources.get(session)
    if (source !== undefined && !this.#yielding.has(session)) this.#yielding.add(session, source)
  }

  #opened(session: QuicServerSession, stream: QuicStream, proxy: boolean): void {
    const open: Open = { number: ++this.#lastNumber, stream, session, proxy, over: false, finishing: false }
    this.#streams.set(open.number, open)
    this.#arrivals.opened(open.number, plainAddress(session.remoteAddress), proxy)
    stream.on('data', (chunk: Buffer) => {
      if (!open.over) this.#arrivals.received(open.number, chunk)
    })
    // In a microtask, because nothing may be written inside the library's events.
    stream.on('end', () => queueMicrotask(() => this.#peerEnded(open)))
    stream.on('close', () => {
      this.#streams.delete(open.number)
      this.#pacing.drop(open.number)
      this.#report(open)
      this.#arrivals.forget(open.number)
      if (!proxy && !open.finishing) close(session, QUIC_CLOSE.done)
    })
  }

  #peerEnded(open: Open): void {
    // The relay ended it first: the peer has read everything and answered with its own end.
    const answered = open.over
    this.#report(open)
    this.#yield(open.session)
    if (answered && !open.proxy) close(open.session, QUIC_CLOSE.done)
    else this.#finish(open)
  }

  /** Reports the clocks, for the relay's metrics. */
  reportPacing(): void {
    if (!this.#hasPaced) return
    this.#say({ type: 'pacing', counts: this.#pacing.counts })
  }

  #pace(number: StreamNumber, pace: Pace): void {
    const open = this.#streams.get(number)
    if (open === undefined || open.over) return
    this.#hasPaced = true
    this.#pacing.start(number, pace, (cell) => this.#send(open, cell))
  }

  #write(number: StreamNumber, cells: Buffer, urgent: boolean): void {
    const open = this.#streams.get(number)
    if (open === undefined || open.over) return
    if (!this.#pacing.push(number, cells, urgent)) this.#send(open, cells)
  }

  #send({ number, stream }: Open, cells: Uint8Array): void {
    if (stream.destroyed || stream.writableEnded) return
    stream.write(cells)
    if (stream.writableLength > MAX_WAITING_BYTES) this.#drop(number, QUIC_CLOSE.tooSlow)
  }

  #end(number: StreamNumber): void {
    const open = this.#streams.get(number)
    if (open === undefined || open.over) return
    open.over = true
    this.#yield(open.session)
    this.#pacing.end(number, () => this.#finish(open))
  }

  /** Ends our side, and closes the rest after the peer has had time to read. */
  #finish(open: Open): void {
    const { stream, session, proxy } = open
    if (open.finishing || stream.destroyed) return
    open.finishing = true
    this.#pacing.drop(open.number)
    stream.end()
    const timer = setTimeout(() => {
      if (!proxy) close(session, QUIC_CLOSE.done)
      else reset(session, stream, QUIC_CLOSE.done)
    }, LINGER_MS)
    if (proxy) stream.on('close', () => clearTimeout(timer))
    else session.on('close', () => clearTimeout(timer))
  }

  /** Closes a stream. An agent's connection is closed with it, because it has no other. */
  #drop(number: StreamNumber, why: QuicClose): void {
    const open = this.#streams.get(number)
    if (open === undefined || open.over) return
    this.#warn('Stream closed.', why.reason)
    this.#report(open)
    if (!open.proxy) close(open.session, why)
    else reset(open.session, open.stream, why)
  }

  #report(open: Open): void {
    if (open.over) return
    open.over = true
    this.#arrivals.closed(open.number)
  }

  #warn(message: string, detail: string): void {
    this.#say({ type: 'warning', message, detail })
  }

  #say(message: FromEndpoint): void {
    this.#port.postMessage(message, [])
  }
}

/** Resets a stream. The library opens it again for data in transit, with no reader. */
function reset(session: QuicServerSession, stream: QuicStream, { code }: QuicClose): void {
  if (stream.destroyed) return
  stream.close(code)
  setTimeout(() => session._streams.get(stream.id)?.destroy(), GHOST_MS)
}

async function main(port: MessagePort): Promise<void> {
  const endpoint = new Endpoint(port, workerData as EndpointSettings)
  const say = (message: FromEndpoint): void => port.postMessage(message, [])
  port.on('message', (message: ToEndpoint) => {
    if (message.type === 'departures') endpoint.take(message)
    else void endpoint.stop().finally(() => say({ type: 'stopped' }))
  })
  try {
    await endpoint.listen()
    setInterval(() => endpoint.reportPacing(), REPORT_MS)
    say({ type: 'listening' })
  } catch (error) {
    await endpoint.stop()
    say({ type: 'failed', message: error instanceof Error ? error.message : String(error) })
  }
}

if (!isMainThread && parentPort !== null) await main(parentPort)
