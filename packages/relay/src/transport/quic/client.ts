/**
 * A QUIC connection to a relay, for the stand-alone proxy, tests and benches. As on the relay's side, what arrives is
 * handled in a microtask: the library loses writes that are made inside its 'data' event. It gives one message for
 * every connection that fails; `quic-diagnosis.ts` finds the words.
 */
import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { StaticError } from '@static/protocol'
import { connectQuic as connectLibrary, type QuicClientSession, type QuicStream } from '@currentspace/http3'
import { closeReason, connectFailure } from './diagnosis.ts'
import { withPrivateTemp } from './private-temp.ts'
import { QUIC_SETTINGS } from './settings.ts'

/** Where to connect, and whom to trust. */
export interface QuicTarget {
  readonly host: string
  readonly port: number
  /** The DNS name in the relay's certificate; the library cannot check an address. */
  readonly serverName: string
  /** The authority of that certificate, PEM. */
  readonly ca: string
  /** Shows the relay that this is a stand-alone proxy. */
  readonly clientCertificate?: { readonly cert: string; readonly key: string }
  readonly idleTimeoutMs?: number
  readonly connectTimeoutMs?: number
}

/** Takes what comes by a stream. */
export interface QuicStreamHandlers {
  /** The chunk is the handler's to keep. */
  data(chunk: Uint8Array): void
  /** The last word; the reason is missing when the relay ended the stream in order. */
  closed(reason: StaticError | undefined): void
}

/** A session stream. */
export interface QuicClientStream {
  /** The bytes must not change any more. Does nothing once the stream is over. */
  write(bytes: Uint8Array): void
  /** Ends our side after what was written. */
  end(): void
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
 * Connects, by IPv4 or else by IPv6. Throws `connection_error` with a reason for people, `invalid_request` when the
 * server name is not a DNS name.
 */
export async function connectQuic(target: QuicTarget): Promise<QuicConnection> {
  if (isIP(target.serverName) !== 0) {
    throw StaticError.of('invalid_request', `The server name must be a DNS name, not ${target.serverName}.`)
  }
  let failure: unknown
  for (const address of await resolve(target.host)) {
    try {
      return new Connection(await dial(address, target), target)
    } catch (error) {
      failure ??= error
    }
  }
  throw failure
}

/** The first address of each family, IPv4 first. */
async function resolve(host: string): Promise<readonly string[]> {
  if (isIP(host) !== 0) return [host]
  try {
    const found = await lookup(host, { all: true })
    const first = (family: number): string | undefined => found.find((entry) => entry.family === family)?.address
    return [first(4), first(6)].filter((address) => address !== undefined)
  } catch (cause) {
    throw StaticError.of('connection_error', `The name ${host} has no address.`, { cause })
  }
}

async function dial(address: string, target: QuicTarget): Promise<QuicClientSession> {
  const { port, serverName, ca, clientCertificate, idleTimeoutMs = 30_000, connectTimeoutMs = 5_000 } = target
  let session: QuicClientSession | undefined
  let closeCode: number | undefined
  try {
    // The library reads the certificates before it says which runtime it has chosen.
    await withPrivateTemp(async () => {
      const begun = connectLibrary(
        { address, port, servername: serverName },
        { ...QUIC_SETTINGS, ca, ...clientCertificate, maxIdleTimeoutMs: idleTimeoutMs, connectTimeoutMs },
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
    if (session === undefined) throw new Error('no session')
    return session
  } catch (cause) {
    await session?.close()
    throw await connectFailure({ address, port, serverName, closeCode, shown: clientCertificate !== undefined, cause })
  }
}

class Connection implements QuicConnection {
  readonly #session: QuicClientSession
  readonly #target: QuicTarget
  readonly closed: Promise<void>
  /** Why the connection is over. */
  #reason: StaticError | undefined

  constructor(session: QuicClientSession, target: QuicTarget) {
    this.#session = session
    this.#target = target
    const { promise, resolve } = Promise.withResolvers<void>()
    this.closed = promise
    session.on('close', ({ errorCode, reason }) => {
      this.#reason = closeReason(errorCode, reason)
      resolve()
    })
  }

  openStream(handlers: QuicStreamHandlers): QuicClientStream {
    let stream: QuicStream
    try {
      stream = this.#session.openStream()
    } catch (cause) {
      const { host, port } = this.#target
      throw this.#reason ?? StaticError.of('connection_error', `The connection to ${host}:${port} is over.`, { cause })
    }
    return this.#carry(stream, handlers)
  }

  async close(): Promise<void> {
    await this.#session.close()
  }

  #carry(stream: QuicStream, handlers: QuicStreamHandlers): QuicClientStream {
    let ended = false
    let failure: Error | undefined
    stream.on('data', (chunk: Buffer) => {
      // A copy: the chunk may be a view of a large native buffer.
      const bytes = new Uint8Array(chunk)
      queueMicrotask(() => handlers.data(bytes))
    })
    stream.on('end', () => {
      ended = true
      // The answer tells the relay that all was read.
      queueMicrotask(() => {
        if (!stream.destroyed && !stream.writableEnded) stream.end()
      })
    })
    stream.on('error', (error: Error) => {
      failure = error
    })
    stream.on('close', () => {
      // After the microtasks of the last data, and after the session's own 'close', which says why.
      setImmediate(() => handlers.closed(ended ? undefined : (this.#reason ?? this.#broken(failure))))
    })
    return {
      write: (bytes) => {
        if (!stream.destroyed && !stream.writableEnded) stream.write(bytes)
      },
      end: () => {
        if (!stream.destroyed && !stream.writableEnded) stream.end()
      },
      get bufferedBytes(): number {
        return stream.writableLength
      },
    }
  }

  #broken(cause: Error | undefined): StaticError {
    const { host, port } = this.#target
    return StaticError.of('connection_error', `The stream to ${host}:${port} was cut off.`, { cause })
  }
}
