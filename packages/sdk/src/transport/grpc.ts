/**
 * gRPC transport: an HTTP/2 connection with one `Session` call that carries protobuf cells. Uses node:http2 directly:
 * every message is one cell, so a gRPC library would only add copies.
 */
import { once } from 'node:events'
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect as connectHttp2,
  type IncomingHttpHeaders,
} from 'node:http2'
import { connect as connectTls } from 'node:tls'
import { ConnectionError } from '@static/node/connection-error'
import { CONNECT_TIMEOUT_MS, dialAddresses, placeOf } from '@static/node/dial'
import { TLS_GROUPS } from '@static/node/tls-groups'
import { CellUnframer, frameCells, StaticError } from '@static/protocol'
import { Relay } from '@static/protocol/relay'
import type { CellStream, StreamHandlers, Target, Transport } from '../ports/index.ts'
import { StreamEvents } from './stream-events.ts'
import type { DialOptions } from './dial-options.ts'
import { refusalOf, statusOf } from './grpc-status.ts'
import { tcpFailure } from './tcp-failure.ts'

const PATH = `/${Relay.typeName}/${Relay.method.session.name}`
/**
 * Receive window. The session's own marks limit data in flight much earlier; HTTP/2's defaults would limit throughput.
 */
const WINDOW_BYTES = 8 * 1024 * 1024
/** Time for the relay to end its side of a stream, and then to close the connection. */
const END_MS = 2_000
/** Limit for unsent data if the relay does not read. The session's marks limit requests much earlier, but not cover. */
const MAX_UNSENT_BYTES = 8 * 1024 * 1024

export function makeGrpcTransport({ connectTimeoutMs = CONNECT_TIMEOUT_MS }: DialOptions = {}): Transport {
  return {
    form: 'protobuf',
    dial: (target, handlers) =>
      dialAddresses(target, connectTimeoutMs, (address, timeoutMs) => dial(address, target, timeoutMs, handlers)),
  }
}

async function dial(
  address: string,
  { port, serverName, ca }: Target,
  connectTimeoutMs: number,
  handlers: StreamHandlers,
): Promise<CellStream> {
  const place = placeOf(address, port)
  const socket = connectTls({
    host: address,
    port,
    servername: serverName,
    minVersion: 'TLSv1.3',
    ecdhCurve: TLS_GROUPS,
    ALPNProtocols: ['h2'],
    // Regardless of NODE_TLS_REJECT_UNAUTHORIZED.
    rejectUnauthorized: true,
    ...(ca === undefined ? {} : { ca }),
  })
  // Awaiting code gets the error. Without a listener it would end the process.
  socket.on('error', () => {})
  const timer = setTimeout(() => {
    const late = new ConnectionError('timed_out', `Connecting to ${place} timed out.`)
    if (line === undefined) socket.destroy(late)
    else line.cut(late)
  }, connectTimeoutMs)
  let line: GrpcLine | undefined
  try {
    await once(socket, 'secureConnect')
    if (socket.alpnProtocol !== 'h2') throw new ConnectionError('wrong_protocol', `${place} does not speak HTTP/2.`)
    // Writes are whole cells already, so there is nothing to coalesce.
    socket.setNoDelay(true)
    const session = connectHttp2(`https://${serverName}:${port}`, {
      createConnection: () => socket,
      settings: { enablePush: false, initialWindowSize: WINDOW_BYTES },
    })
    const events = new StreamEvents(handlers)
    line = new GrpcLine(session, events, { address, place })
    await line.accepted
    events.begin()
    return line
  } catch (cause) {
    socket.destroy()
    throw tcpFailure({ place, serverName, cause })
  } finally {
    clearTimeout(timer)
  }
}

/** A connection and its only call. Closing one closes the other. */
class GrpcLine implements CellStream {
  readonly address: string
  /** Resolves when the relay has accepted the call. If it rejects, nothing is delivered. */
  readonly accepted: Promise<void>
  readonly #session: ClientHttp2Session
  readonly #stream: ClientHttp2Stream
  readonly #events: StreamEvents
  readonly #place: string
  readonly #accepting: PromiseWithResolvers<void> = Promise.withResolvers<void>()
  readonly #unframer = new CellUnframer()
  #late: NodeJS.Timeout | undefined
  /** Headers and trailers together. */
  #metadata: IncomingHttpHeaders = {}
  #failure: Error | undefined

  constructor(
    session: ClientHttp2Session,
    events: StreamEvents,
    { address, place }: { readonly address: string; readonly place: string },
  ) {
    this.address = address
    this.#session = session
    this.#events = events
    this.#place = place
    this.accepted = this.#accepting.promise
    const note = (error: Error): void => {
      this.#failure ??= error
    }
    session.on('error', note)
    session.once('connect', () => session.setLocalWindowSize(WINDOW_BYTES))
    session.once('close', () => clearTimeout(this.#late))
    const stream = session.request({
      ':method': 'POST',
      ':path': PATH,
      'content-type': 'application/grpc+proto',
      te: 'trailers',
    })
    this.#stream = stream
    stream.on('error', note)
    stream.on('response', (headers) => this.#response(headers))
    stream.on('trailers', (trailers) => (this.#metadata = { ...this.#metadata, ...trailers }))
    stream.on('data', (chunk: Buffer) => this.#data(chunk))
    // The relay has ended its side, so this side ends as well.
    stream.on('end', () => this.end())
    stream.on('close', () => this.#closed())
  }

  write(cells: Uint8Array): void {
    if (this.#isOver) return
    this.#stream.write(frameCells(cells, (size) => Buffer.allocUnsafe(size)))
    if (this.#stream.writableLength <= MAX_UNSENT_BYTES) return
    this.cut(new ConnectionError('closed', `The relay at ${this.#place} stopped reading.`))
  }

  end(): void {
    if (this.#isOver) return
    this.#stream.end()
    this.#boundEnd()
  }

  /** Closes the call and the connection immediately. */
  cut(error: StaticError): void {
    this.#failure = error
    this.#session.destroy()
  }

  get #isOver(): boolean {
    return this.#stream.destroyed || this.#stream.writableEnded
  }

  #response(headers: IncomingHttpHeaders): void {
    this.#metadata = headers
    const refusal = refusalOf(headers, this.#place)
    if (refusal === undefined) this.#accepting.resolve()
    else this.cut(refusal)
  }

  #data(chunk: Buffer): void {
    this.#events.data(this.#unframer.push(chunk))
    if (this.#unframer.fault !== undefined) {
      this.cut(new ConnectionError('wrong_protocol', `The relay at ${this.#place} sent a message that is not a cell.`))
    }
  }

  #closed(): void {
    const reason = this.#reason()
    this.#accepting.reject(reason)
    this.#events.closed(reason)
    if (this.#session.destroyed) return
    this.#session.close()
    this.#boundEnd()
  }

  /** Undefined if the relay ended the stream cleanly. */
  #reason(): StaticError | undefined {
    const place = this.#place
    if (this.#failure instanceof StaticError) return this.#failure
    const status = statusOf(this.#metadata, place)
    if (status === 'ok' && this.#unframer.isWhole) return undefined
    if (status instanceof StaticError) return status
    const { rstCode } = this.#stream
    const how = rstCode === 0 ? 'was lost' : `was reset by the relay (HTTP/2 code ${rstCode})`
    return new ConnectionError('closed', `The connection to ${place} ${how}.`, this.#failure)
  }

  #boundEnd(): void {
    clearTimeout(this.#late)
    this.#late = setTimeout(() => this.#session.destroy(), END_MS)
  }
}
