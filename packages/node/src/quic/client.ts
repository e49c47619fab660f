/**
 * A QUIC connection to a relay. Rules that defects of @currentspace/http3 0.9.0 and a soak test taught:
 *
 * - What arrives is handled in a microtask, the stream's end too: a write inside the library's 'data' event may be lost.
 * - Nothing holds back what arrives, and a write counts as done when the native side has it: whoever uses a stream bounds
 *   both. There is no keep-alive either, and `ping()` blocks the process.
 * - The library tells one message for every connection that fails; `diagnosis.ts` finds the words.
 */
import { getCACertificates } from 'node:tls'
import { isMainThread } from 'node:worker_threads'
import type { StaticError } from '@static/protocol'
import type { connectQuic as connectLibrary, QuicClientSession, QuicStream } from '@currentspace/http3'
import { ConnectionError } from '../connection-error.ts'
import { CONNECT_TIMEOUT_MS, dialAddresses, placeOf } from '../dial.ts'
import { closeReason, connectFailure, isRefused } from './diagnosis.ts'
import { type Shield, withPrivateTemp } from './private-temp.ts'
import { QUIC_SETTINGS } from './settings.ts'

const IDLE_TIMEOUT_MS = 30_000

/** Where to connect, and whom to trust. */
export interface QuicTarget {
  readonly host: string
  readonly port: number
  /** The DNS name in the relay's certificate; the library cannot check an address. */
  readonly serverName: string
  /** The authority of that certificate, PEM; undefined: those that Node knows. */
  readonly ca?: string | undefined
  /** Shows the relay that this is a stand-alone proxy. */
  readonly clientCertificate?: { readonly cert: string; readonly key: string }
  readonly idleTimeoutMs?: number
  /** How long the name, and then each address, may take. */
  readonly connectTimeoutMs?: number
  /**
   * After so long without an answer the port is asked whether it is open at all, and a closed one is given up at once.
   * Undefined: it may open until `connectTimeoutMs` is over.
   */
  readonly probeAfterMs?: number
}

/** Takes what comes by a stream. */
export interface QuicStreamHandlers {
  /** The chunk is the handler's to keep. */
  data(chunk: Uint8Array): void
  /** The relay has ended its side; ours ends right after. */
  ended?(): void
  /** The last word; the reason is missing when the relay ended the stream in order. */
  closed(reason: StaticError | undefined): void
}

/** A session stream. */
export interface QuicClientStream {
  /** The bytes must not change any more. Does nothing once the stream is over. */
  write(bytes: Uint8Array): void
  /** Ends our side after what was written. */
  end(): void
  /** Whether our side has ended, or the stream is gone. */
  readonly isOver: boolean
  /** What the native side has not taken yet; what it took may still be far from delivered. */
  readonly bufferedBytes: number
}

/** A connection that is up. */
export interface QuicConnection {
  /** Throws `connection_error` when the connection is over. */
  openStream(handlers: QuicStreamHandlers): QuicClientStream
  /** Fulfilled when the connection is over, whoever ended it. */
  readonly closed: Promise<void>
  /** The relay learns of it at once; streams are closed. */
  close(): Promise<void>
}

/**
 * Connects, by IPv4 or else by IPv6.
 *
 * @throws {StaticError} `connection_error` with a reason for people; `invalid_request` when the server name is not a DNS
 *   name
 */
export function connectQuic(target: QuicTarget): Promise<QuicConnection> {
  const { connectTimeoutMs = CONNECT_TIMEOUT_MS } = target
  return dialAddresses(target, connectTimeoutMs, (address) => dialQuic(address, target))
}

/**
 * Connects to one address. Other threads than the main one need a `shield` that has it done there.
 *
 * @throws {StaticError} `connection_error` with a reason for people
 */
export async function dialQuic(
  address: string,
  target: QuicTarget,
  shield: Shield | undefined = isMainThread ? withPrivateTemp : undefined,
): Promise<QuicConnection> {
  if (!shield) throw wrongThread()
  return new Connection(await connect(address, target, shield), placeOf(address, target.port), target)
}

/** The certificates cannot be shielded from here. */
export function wrongThread(): ConnectionError {
  return new ConnectionError('unusable', 'QUIC works on the main thread only: use an https endpoint in others.')
}

async function connect(address: string, target: QuicTarget, shield: Shield): Promise<QuicClientSession> {
  const { port, serverName, ca = getCACertificates('default').join('\n'), clientCertificate } = target
  const { idleTimeoutMs = IDLE_TIMEOUT_MS, connectTimeoutMs = CONNECT_TIMEOUT_MS, probeAfterMs } = target
  const dialLibrary = await loadLibrary()
  let session: QuicClientSession | undefined
  let closeCode: number | undefined
  const giveUpIfClosed = (): void => {
    isRefused(address, port)
      .then((refused) => (refused && session?.handshakeComplete === false ? session.close() : undefined))
      // It was only to be quicker: the time to connect runs out by itself.
      .catch(() => {})
  }
  const doubt = probeAfterMs === undefined ? undefined : setTimeout(giveUpIfClosed, probeAfterMs)
  try {
    // The library reads the certificates before it says which runtime it has chosen.
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
      begun.on('close', ({ errorCode }) => (closeCode ??= errorCode))
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

/** Only who dials by QUIC pays for the library, or needs a system on which it runs. */
async function loadLibrary(): Promise<typeof connectLibrary> {
  try {
    return (await import('@currentspace/http3')).connectQuic
  } catch (cause) {
    throw unusable(cause)
  }
}

function unusable(cause: unknown): ConnectionError {
  const text = 'QUIC cannot be used here, because its native library does not load: use an https endpoint.'
  return new ConnectionError('unusable', text, cause)
}

class Connection implements QuicConnection {
  readonly #session: QuicClientSession
  readonly #place: string
  readonly closed: Promise<void>
  /** Why the connection is over. */
  #reason: StaticError | undefined

  constructor(session: QuicClientSession, place: string, { clientCertificate }: QuicTarget) {
    this.#session = session
    this.#place = place
    const { promise, resolve } = Promise.withResolvers<void>()
    this.closed = promise
    session.on('close', ({ errorCode, reason }) => {
      this.#reason = closeReason(errorCode, reason, clientCertificate !== undefined)
      resolve()
    })
  }

  openStream(handlers: QuicStreamHandlers): QuicClientStream {
    let stream: QuicStream
    try {
      stream = this.#session.openStream()
    } catch (cause) {
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
      // A copy: the chunk may be a view of a large native buffer.
      const bytes = new Uint8Array(chunk)
      queueMicrotask(() => handlers.data(bytes))
    })
    stream.on('end', () => {
      ended = true
      // The answer tells the relay that all was read.
      queueMicrotask(() => {
        handlers.ended?.()
        carried.end()
      })
    })
    stream.on('error', (error: Error) => {
      failure = error
    })
    stream.on('close', () => {
      // After the microtasks of the last data, and after the session's own 'close', which says why.
      setImmediate(() => handlers.closed(ended ? undefined : (this.#reason ?? this.#cutOff(failure))))
    })
    return carried
  }

  #cutOff(cause: Error | undefined): ConnectionError {
    return new ConnectionError('closed', `The connection to ${this.#place} was cut off.`, cause)
  }
}
