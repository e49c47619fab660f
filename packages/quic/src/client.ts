/**
 * A QUIC connection to a relay. Rules learned from defects of @currentspace/http3 0.9.0 and a soak test:
 *
 * - Handle data, and the end of a stream, in a microtask: a write inside the library's 'data' event may be lost.
 * - There is no backpressure on incoming data, and a write counts as done once the native side has it: users of a
 *   stream must bound both. There is no keep-alive either, and `ping()` blocks the process.
 * - The library gives the same message for every failed connection; `diagnosis.ts` finds the reason.
 */
import tls from 'node:tls'
import { isMainThread } from 'node:worker_threads'
import type { StaticError } from '@static/protocol'
import type {
  connectQuic as connectLibrary,
  QuicClientSession,
  QuicStream,
  SessionCloseInfo,
} from '@currentspace/http3'
import { ConnectionError } from '@static/node/connection-error'
import { CONNECT_TIMEOUT_MS, dialAddresses, placeOf } from '@static/node/dial'
import { closeReason, connectFailure, isRefused } from './diagnosis.ts'
import { type Shield, withPrivateTemp } from './private-temp.ts'
import { QUIC_SETTINGS } from './settings.ts'

const IDLE_TIMEOUT_MS = 30_000

/** Where to connect, and which CA to trust. */
export interface QuicTarget {
  readonly host: string
  readonly port: number
  /** The DNS name in the relay's certificate; the library cannot check an address. */
  readonly serverName: string
  /** The CA of that certificate, PEM; undefined: the default CAs of Node. */
  readonly ca?: string | undefined
  /** Proves to the relay that this is a stand-alone proxy. */
  readonly clientCertificate?: { readonly cert: string; readonly key: string }
  readonly idleTimeoutMs?: number
  /** Timeout for resolving the name, and then for each address. */
  readonly connectTimeoutMs?: number
  /**
   * After this time without a response, the port is probed, and the attempt fails at once if it is closed. Undefined:
   * the port may open at any time before `connectTimeoutMs`.
   */
  readonly probeAfterMs?: number
}

export interface QuicStreamHandlers {
  /** The handler may keep the chunk. */
  data(chunk: Uint8Array): void
  /** The relay has ended its side; ours ends right after. */
  ended?(): void
  /** The last call; the reason is undefined if the relay ended the stream normally. */
  closed(reason: StaticError | undefined): void
}

/** A session stream. */
export interface QuicClientStream {
  /** The bytes must not be changed afterwards. Does nothing once the stream is over. */
  write(bytes: Uint8Array): void
  /** Ends our side after all pending writes. */
  end(): void
  /** Whether our side has ended, or the stream is gone. */
  readonly isOver: boolean
  /** Bytes that the native side has not accepted yet. Bytes that it has accepted may still be undelivered. */
  readonly bufferedBytes: number
}

export interface QuicConnection {
  /**
   * Throws `connection_error`: with the reason `no_stream` if the relay currently allows no further stream on this
   * connection, otherwise because the connection is closed.
   */
  openStream(handlers: QuicStreamHandlers): QuicClientStream
  /** Resolves when the connection is closed, by either side. */
  readonly closed: Promise<void>
  /** Closes all streams and notifies the relay immediately. */
  close(): Promise<void>
}

/**
 * Connects to the first address of a host that answers.
 *
 * @throws {StaticError} `connection_error` with the reason in its message; `unavailable` if the relay has no room for
 *   it; `invalid_request` if the server name is not a DNS name
 */
export function connectQuic(target: QuicTarget): Promise<QuicConnection> {
  const { connectTimeoutMs = CONNECT_TIMEOUT_MS } = target
  return dialAddresses(target, connectTimeoutMs, (address, timeoutMs) =>
    dialQuic(address, { ...target, connectTimeoutMs: timeoutMs }),
  )
}

/**
 * Connects to one address. Threads other than the main one need a `shield` that runs it there.
 *
 * @throws {StaticError} `connection_error` with the reason in its message; `unavailable` if the relay has no room for
 *   it
 */
export async function dialQuic(
  address: string,
  target: QuicTarget,
  shield: Shield | undefined = isMainThread ? withPrivateTemp : undefined,
): Promise<QuicConnection> {
  if (!shield) throw wrongThread()
  // Listens from the start: a busy thread may learn at the same time that a connection is open and closed.
  const closing = Promise.withResolvers<SessionCloseInfo>()
  const session = await connect(address, target, shield, closing.resolve)
  return new Connection(session, closing.promise, placeOf(address, target.port), target)
}

/** The error on a thread without a `shield`, which cannot protect the certificates. */
export function wrongThread(): ConnectionError {
  return new ConnectionError('unusable', 'QUIC works on the main thread only. Use an https endpoint in other threads.')
}

async function connect(
  address: string,
  target: QuicTarget,
  shield: Shield,
  onClose: (info: SessionCloseInfo) => void,
): Promise<QuicClientSession> {
  const { port, serverName, ca = tls.getCACertificates('default').join('\n'), clientCertificate } = target
  const { idleTimeoutMs = IDLE_TIMEOUT_MS, connectTimeoutMs = CONNECT_TIMEOUT_MS, probeAfterMs } = target
  const dialLibrary = await loadLibrary()
  let session: QuicClientSession | undefined
  let closeCode: number | undefined
  const giveUpIfClosed = (): void => {
    isRefused(address, port)
      .then((refused) => (refused && session?.handshakeComplete === false ? session.close() : undefined))
      // The probe is only an optimization: the connection times out anyway.
      .catch(() => {})
  }
  const doubt = probeAfterMs === undefined ? undefined : setTimeout(giveUpIfClosed, probeAfterMs)
  try {
    // The library reads the certificates before it emits `runtime`.
    await shield(async () => {
      const begun = dialLibrary(
        { address, port, servername: serverName },
        {
          ...QUIC_SETTINGS,
          ...clientCertificate,
          ca,
          rejectUnauthorized: true,
          maxIdleTimeoutMs: idleTimeoutMs,
          connectTimeoutMs,
        },
      )
      session = begun
      begun.on('error', () => {})
      begun.on('close', (info) => {
        closeCode ??= info.errorCode
        onClose(info)
      })
      await new Promise<void>((resolve) => {
        begun.once('runtime', () => resolve())
        begun.ready().then(resolve, () => resolve())
      })
    })
    await session?.ready()
    if (session !== undefined) return session
    throw new Error('no session')
  } catch (cause) {
    if (session === undefined) throw unusable(cause)
    await session.close()
    throw await connectFailure({ address, port, serverName, closeCode, shown: clientCertificate !== undefined, cause })
  } finally {
    clearTimeout(doubt)
  }
}

/** Loaded on first use: only programs that use QUIC need the library and a system that supports it. */
async function loadLibrary(): Promise<typeof connectLibrary> {
  try {
    return (await import('@currentspace/http3')).connectQuic
  } catch (cause) {
    throw unusable(cause)
  }
}

function unusable(cause: unknown): ConnectionError {
  const text = 'QUIC is not available here, because its native library cannot be loaded. Use an https endpoint.'
  return new ConnectionError('unusable', text, cause)
}

function noStream(place: string, cause: Error): ConnectionError {
  const text = `${place} allows no further stream on this connection. Retry when others have ended.`
  return new ConnectionError('no_stream', text, cause)
}

class Connection implements QuicConnection {
  readonly #session: QuicClientSession
  readonly #place: string
  readonly closed: Promise<void>
  /** Why the connection was closed. */
  #reason: StaticError | undefined

  constructor(
    session: QuicClientSession,
    closing: Promise<SessionCloseInfo>,
    place: string,
    { clientCertificate }: QuicTarget,
  ) {
    this.#session = session
    this.#place = place
    this.closed = closing.then(({ errorCode, reason }) => {
      this.#reason = closeReason(errorCode, reason, clientCertificate !== undefined)
    })
  }

  openStream(handlers: QuicStreamHandlers): QuicClientStream {
    let stream: QuicStream
    try {
      stream = this.#session.openStream()
    } catch (cause) {
      // The library has no code for this, only a message.
      if (cause instanceof Error && cause.message.includes('StreamLimit')) throw noStream(this.#place, cause)
      throw this.#reason ?? new ConnectionError('closed', `${this.#place} closed the connection.`, cause)
    }
    return this.#carry(stream, handlers)
  }

  async close(): Promise<void> {
    await this.#session.close()
  }

  #carry(stream: QuicStream, handlers: QuicStreamHandlers): QuicClientStream {
    let ended = false
    let failure: Error | undefined
    const carried: QuicClientStream = {
      write: (bytes) => {
        if (!carried.isOver) stream.write(bytes)
      },
      end: () => {
        if (!carried.isOver) stream.end()
      },
      get isOver(): boolean {
        return stream.destroyed || stream.writableEnded
      },
      get bufferedBytes(): number {
        return stream.writableLength
      },
    }
    stream.on('data', (chunk: Buffer) => {
      // Copied, because the chunk may be a view of a large native buffer.
      const bytes = new Uint8Array(chunk)
      queueMicrotask(() => handlers.data(bytes))
    })
    stream.on('end', () => {
      ended = true
      // Ending our side tells the relay that everything was read.
      queueMicrotask(() => {
        handlers.ended?.()
        carried.end()
      })
    })
    stream.on('error', (error: Error) => {
      failure = error
    })
    stream.on('close', () => {
      // After the microtasks of the last data, and after the session's 'close' event, which has the reason.
      setImmediate(() => handlers.closed(ended ? undefined : (this.#reason ?? this.#cutOff(failure))))
    })
    return carried
  }

  #cutOff(cause: Error | undefined): ConnectionError {
    return new ConnectionError('closed', `The connection to ${this.#place} was cut off.`, cause)
  }
}
