/** A raw gRPC client over node:http2, for tests and measurements: it does nothing automatically. */
import { once } from 'node:events'
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  type IncomingHttpHeaders,
  type SecureClientSessionOptions,
} from 'node:http2'
import { isIPv6 } from 'node:net'
import { create, type DescMessage, type MessageInitShape, type MessageShape } from '@bufbuild/protobuf'
import { frameCells, frameMessage, GRPC_PREFIX_BYTES } from '@static/protocol'
import { decodeEnvelope, encodeEnvelope } from '@static/protocol/envelope'
import {
  CellSchema,
  Relay,
  type ServerMessage,
  ServerMessageSchema,
  SubscribeRequestSchema,
} from '@static/protocol/relay'

/** Options of a connection. */
export interface GrpcTarget {
  readonly host: string
  readonly port: number
  /** PEM. */
  readonly ca: string
  /** The name that the certificate must have; `localhost` by default. */
  readonly serverName?: string
  /** The local address to connect from. */
  readonly localAddress?: string | undefined
}

/** How a call ended. */
export interface GrpcStatus {
  /** The gRPC status; -1 if the stream broke without one. */
  readonly code: number
  readonly message: string
  /** Headers and trailers together. */
  readonly metadata: IncomingHttpHeaders
}

/** A refused call. */
export class GrpcFailure extends Error {
  readonly status: GrpcStatus

  constructor(status: GrpcStatus) {
    super(`${status.code} ${status.message}`)
    this.status = status
  }
}

/** Handlers for a session stream. */
export interface StreamEvents {
  /** Bytes of cells, in chunks of any size. */
  data(cells: Uint8Array): void
  closed(status: GrpcStatus): void
}

/** A session stream, seen from the client. */
export interface ClientStream {
  /** Sends whole cells. */
  write(cells: Uint8Array): void
  end(): void
  readonly bufferedBytes: number
  /** For special tests: raw bytes, resets, pauses. */
  readonly raw: ClientHttp2Stream
}

/** A subscription, seen from the client. */
export interface ClientSubscription {
  cancel(): void
  readonly raw: ClientHttp2Stream
}

/** A connection. */
export interface GrpcClient {
  openSession(events: StreamEvents, metadata?: Record<string, string>): ClientStream
  unary<Input extends DescMessage, Output extends DescMessage>(
    method: string,
    input: Input,
    message: MessageInitShape<Input>,
    output: Output,
    metadata?: Record<string, string>,
  ): Promise<{ readonly message: MessageShape<Output>; readonly metadata: IncomingHttpHeaders }>
  subscribe(
    request: MessageInitShape<typeof SubscribeRequestSchema>,
    events: { message(message: ServerMessage): void; closed(status: GrpcStatus): void },
    metadata?: Record<string, string>,
  ): ClientSubscription
  /** Any request that the methods above do not cover. */
  request(path: string, headers?: Record<string, string>): ClientHttp2Stream
  readonly session: ClientHttp2Session
  close(): Promise<void>
}

const MOST_MESSAGE_BYTES = 16 * 1024 * 1024

/** Connects and waits for the server's settings. */
export async function connectGrpc(target: GrpcTarget): Promise<GrpcClient> {
  const { host, port, ca, serverName = 'localhost', localAddress } = target
  const socket: SecureClientSessionOptions = { ca, servername: serverName, ...(localAddress && { localAddress }) }
  const session = connect(`https://${isIPv6(host) ? `[${host}]` : host}:${port}`, socket)
  await once(session, 'remoteSettings')
  // Pending calls fail on their own.
  session.on('error', () => {})

  const request = (path: string, headers: Record<string, string> = {}): ClientHttp2Stream =>
    session.request({ ':method': 'POST', ':path': path, ':authority': `${serverName}:${port}`, ...headers })
  const call = (method: string, metadata: Record<string, string> = {}): ClientHttp2Stream =>
    request(method.includes('/') ? method : `/${Relay.typeName}/${method}`, {
      'content-type': 'application/grpc+proto',
      te: 'trailers',
      ...metadata,
    })
  return {
    session,
    request,
    openSession(events, metadata) {
      const raw = call('Session', metadata)
      onMessages(raw, (message) => events.data(decodeEnvelope('protobuf', CellSchema, message, message.length).data))
      onClosed(raw, (status) => events.closed(status))
      return {
        raw,
        write: (cells) => void raw.write(frameCells(cells)),
        end: () => void raw.end(),
        get bufferedBytes() {
          return raw.writableLength
        },
      }
    },
    unary(method, input, message, output, metadata) {
      const raw = call(method, metadata)
      return new Promise((resolve, reject) => {
        let answer: MessageShape<typeof output> | undefined
        onMessages(raw, (bytes) => (answer = decodeEnvelope('protobuf', output, bytes, MOST_MESSAGE_BYTES)))
        onClosed(raw, (status) => {
          if (status.code !== 0 || answer === undefined) reject(new GrpcFailure(status))
          else resolve({ message: answer, metadata: status.metadata })
        })
        raw.end(frameMessage(encodeEnvelope('protobuf', input, create(input, message))))
      })
    },
    subscribe(fields, events, metadata) {
      const raw = call('Subscribe', metadata)
      onMessages(raw, (message) =>
        events.message(decodeEnvelope('protobuf', ServerMessageSchema, message, MOST_MESSAGE_BYTES)),
      )
      onClosed(raw, (status) => events.closed(status))
      const message = create(SubscribeRequestSchema, fields)
      raw.end(frameMessage(encodeEnvelope('protobuf', SubscribeRequestSchema, message)))
      return { raw, cancel: () => raw.close(8) }
    },
    async close() {
      if (session.destroyed) return
      session.destroy()
      await once(session, 'close')
    },
  }
}

/** Passes on each message of a stream. */
function onMessages(stream: ClientHttp2Stream, take: (message: Uint8Array) => void): void {
  let rest: Buffer = Buffer.alloc(0)
  stream.on('data', (chunk: Buffer) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    while (rest.length >= GRPC_PREFIX_BYTES && rest.length >= GRPC_PREFIX_BYTES + rest.readUInt32BE(1)) {
      const end = GRPC_PREFIX_BYTES + rest.readUInt32BE(1)
      take(Uint8Array.from(rest.subarray(GRPC_PREFIX_BYTES, end)))
      rest = rest.subarray(end)
    }
  })
}

/** Reports once how a stream ended. */
function onClosed(stream: ClientHttp2Stream, closed: (status: GrpcStatus) => void): void {
  let metadata: IncomingHttpHeaders = {}
  const gather = (headers: IncomingHttpHeaders): void => void (metadata = { ...metadata, ...headers })
  stream.on('response', gather)
  stream.on('trailers', gather)
  stream.on('error', () => {})
  // The server is done: end our half as well.
  stream.on('end', () => stream.end())
  stream.on('close', () => {
    const { 'grpc-status': code, 'grpc-message': message = '' } = metadata
    closed({
      code: code === undefined ? (String(metadata[':status']) === '404' ? 12 : -1) : Number(code),
      message: decodeURIComponent(String(message)),
      metadata,
    })
  })
}
