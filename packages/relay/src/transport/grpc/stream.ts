/** The response half of a native gRPC stream that is framed here. */
import { constants, type IncomingHttpHeaders, type OutgoingHttpHeaders, type ServerHttp2Stream } from 'node:http2'
import { Code, ConnectError } from '@connectrpc/connect'

const CONTENT_TYPE = 'application/grpc+proto'

/** Whether a request is native gRPC in protobuf. */
export function isNativeGrpc(headers: IncomingHttpHeaders): boolean {
  return /^application\/grpc(\+proto)?$/i.test(headers['content-type'] ?? '')
}

/** Limits of a gRPC stream. */
export interface StreamLimits {
  /** Bytes that may wait for a slow reader. */
  readonly unsentBytes: number
  /** Time in milliseconds in which a stream must close after its end was sent. */
  readonly closeMs: number
}

/** Answers one native gRPC request. */
export class GrpcStream {
  readonly #stream: ServerHttp2Stream
  readonly #limits: StreamLimits
  #outcome: OutgoingHttpHeaders = {}
  #ended = false

  constructor(stream: ServerHttp2Stream, limits: StreamLimits) {
    this.#stream = stream
    this.#limits = limits
    // Resets also arrive as errors. `close` follows either way.
    stream.on('error', () => {})
    // The library's own handler would send trailers without a status.
    stream.removeAllListeners('wantTrailers')
    stream.on('wantTrailers', () => stream.sendTrailers(this.#outcome))
  }

  /** Whether the end was sent. */
  get ended(): boolean {
    return this.#ended || this.#stream.closed || this.#stream.destroyed
  }

  /** Sends the response headers: the call was accepted. */
  open(): void {
    this.#stream.respond(
      { ':status': 200, 'content-type': CONTENT_TYPE, 'grpc-accept-encoding': 'identity' },
      { waitForTrailers: true },
    )
  }

  /** Sends frames; returns false if the reader is behind. Cuts off a reader that is too far behind. */
  write(frames: Uint8Array): boolean {
    if (this.ended) return false
    if (this.#stream.writableLength + frames.length > this.#limits.unsentBytes) {
      this.cut(constants.NGHTTP2_ENHANCE_YOUR_CALM)
      return false
    }
    return this.#stream.write(frames)
  }

  /** Ends the stream after what was written, with status OK or an error. */
  end(error?: ConnectError): void {
    if (this.ended) return
    this.#ended = true
    this.#outcome = outcomeOf(error)
    if (this.#stream.headersSent) {
      this.#stream.end()
    } else {
      this.#stream.respond({ ':status': 200, 'content-type': CONTENT_TYPE, ...this.#outcome }, { endStream: true })
    }
    // A peer that does not read would keep its unsent data in memory, and one that does not end its half would keep the
    // stream open. A reset right after the trailers would overtake them.
    const late = setTimeout(() => this.cut(constants.NGHTTP2_CANCEL), this.#limits.closeMs)
    this.#stream.once('close', () => clearTimeout(late))
  }

  /** Ends the stream immediately and drops unsent data. */
  cut(code: number): void {
    this.#ended = true
    this.#stream.close(code)
    // The reset may be stuck behind data the peer does not read, but its memory can be freed.
    this.#stream.destroy()
  }
}

/** Why a stream cannot be accepted at all. */
export function objection(headers: IncomingHttpHeaders): ConnectError | undefined {
  const encoding = headers['grpc-encoding'] ?? 'identity'
  return encoding === 'identity'
    ? undefined
    : new ConnectError('Compressed messages are not supported.', Code.Unimplemented, {
        'grpc-accept-encoding': 'identity',
      })
}

function outcomeOf(error: ConnectError | undefined): OutgoingHttpHeaders {
  if (error === undefined) return { 'grpc-status': '0' }
  return {
    ...Object.fromEntries(error.metadata),
    'grpc-status': String(error.code),
    'grpc-message': encodeURIComponent(error.rawMessage),
  }
}
