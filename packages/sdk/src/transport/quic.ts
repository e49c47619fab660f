/**
 * The relay by QUIC: a connection with one stream, CBOR in its cells. Rules that defects of @currentspace/http3 0.9.0
 * and a soak test taught:
 *
 * - What arrives is handled in a microtask, the stream's end too: a write inside the library's 'data' event may be lost.
 * - `portable` needs no io_uring, and the flow-control windows stay at their defaults: smaller ones kill connections.
 * - Nothing holds back what arrives, and a write counts as done when the native side has it: the session above bounds
 *   both by its marks. There is no keep-alive either, and `ping()` blocks: the session's own pings do that.
 * - The library tells one message for every connection that fails; `quic-diagnosis.ts` finds the words.
 */
import { getCACertificates } from 'node:tls'
import { isMainThread } from 'node:worker_threads'
import { ALPN, StaticError } from '@static/protocol'
import type { connectQuic, QuicClientSession, QuicConnectOptions, QuicStream } from '@currentspace/http3'
import type { CellStream, StreamHandlers, Target, Transport } from '../ports.ts'
import { CONNECT_TIMEOUT_MS, dialAddresses, type DialOptions, placeOf } from './address.ts'
import { Delivery } from './delivery.ts'
import { closeReason, connectFailure, isRefused } from './quic-diagnosis.ts'
import { withPrivateTemp } from './quic-private-temp.ts'

const IDLE_TIMEOUT_MS = 30_000
/** A relay that is there has answered by then; otherwise its port is asked whether it is open at all. */
const DOUBT_MS = 500
/** How long the relay may take to answer the end of a stream with its own. */
const END_MS = 2_000

const SETTINGS: QuicConnectOptions = {
  alpn: [ALPN],
  runtimeMode: 'portable',
  fallbackPolicy: 'error',
  // Passes IPv6, tunnels and overlay networks, which the default does not.
  maxUdpPayloadSize: 1350,
  maxIdleTimeoutMs: IDLE_TIMEOUT_MS,
  rejectUnauthorized: true,
}

/** Makes the transport. Other threads than the main one need a `shield` that has it done there. */
export function makeQuicTransport(options: DialOptions = {}): Transport {
  const { connectTimeoutMs = CONNECT_TIMEOUT_MS, shield = isMainThread ? withPrivateTemp : undefined } = options
  return {
    form: 'cbor',
    dial: (target, handlers) =>
      dialAddresses(target, connectTimeoutMs, async (address) => {
        const session = await connect(address, target, connectTimeoutMs, shield)
        return openLine(session, handlers, placeOf(address, target.port))
      }),
  }
}

async function connect(
  address: string,
  target: Target,
  connectTimeoutMs: number,
  shield: DialOptions['shield'],
): Promise<QuicClientSession> {
  if (!shield) throw wrongThread()
  const { port, serverName, ca = getCACertificates('default').join('\n') } = target
  const dialLibrary = await loadLibrary()
  let session: QuicClientSession | undefined
  let closeCode: number | undefined
  const doubt = setTimeout(() => {
    isRefused(address, port)
      .then((refused) => (refused && session?.handshakeComplete === false ? session.close() : undefined))
      // It was only to be quicker: the time to connect runs out by itself.
      .catch(() => {})
  }, DOUBT_MS)
  try {
    // The library reads the certificates before it says which runtime it has chosen.
    await shield(async () => {
      const begun = dialLibrary({ address, port, servername: serverName }, { ...SETTINGS, ca, connectTimeoutMs })
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
    throw await connectFailure({ address, port, serverName, closeCode, cause })
  } finally {
    clearTimeout(doubt)
  }
}

/** Only who dials by QUIC pays for the library, or needs a system on which it runs. */
async function loadLibrary(): Promise<typeof connectQuic> {
  try {
    return (await import('@currentspace/http3')).connectQuic
  } catch (cause) {
    throw unusable(cause)
  }
}

/** The certificates cannot be shielded from here. */
export function wrongThread(): StaticError {
  return StaticError.of('connection_error', 'QUIC works on the main thread only: use an https endpoint in others.')
}

function unusable(cause: unknown): StaticError {
  const text = 'QUIC cannot be used here, because its native library does not load: use an https endpoint.'
  return StaticError.of('connection_error', text, { cause })
}

function openLine(session: QuicClientSession, handlers: StreamHandlers, place: string): CellStream {
  let stream: QuicStream
  try {
    stream = session.openStream()
  } catch (cause) {
    session.close().catch(() => {})
    throw StaticError.of('connection_error', `${place} closed the connection at once.`, { cause })
  }
  const delivery = new Delivery(handlers)
  const line = new QuicLine(session, stream, delivery, place)
  delivery.begin()
  return line
}

/** A connection and its only stream: one takes the other along. */
class QuicLine implements CellStream {
  readonly #session: QuicClientSession
  readonly #stream: QuicStream
  #late: NodeJS.Timeout | undefined

  constructor(session: QuicClientSession, stream: QuicStream, delivery: Delivery, place: string) {
    this.#session = session
    this.#stream = stream
    let inOrder = false
    let reason: StaticError | undefined
    let cause: Error | undefined
    session.on('close', ({ errorCode, reason: words }) => {
      reason = closeReason(errorCode, words)
    })
    stream.on('data', (chunk: Buffer) => {
      // A copy: the chunk may be a view of a large native buffer.
      const bytes = new Uint8Array(chunk)
      queueMicrotask(() => delivery.data(bytes))
    })
    stream.on('end', () => {
      inOrder = true
      // Our own end tells the relay that all was read.
      queueMicrotask(() => this.end())
    })
    stream.on('error', (error: Error) => {
      cause = error
    })
    stream.on('close', () => {
      // After the microtasks of the last data, and after the session's own 'close', which says why.
      setImmediate(() => {
        const broken = (): StaticError =>
          StaticError.of('connection_error', `The connection to ${place} was cut off.`, { cause })
        delivery.closed(inOrder ? undefined : (reason ?? broken()))
        this.#hangUp()
      })
    })
  }

  write(cells: Uint8Array): void {
    if (!this.#stream.destroyed && !this.#stream.writableEnded) this.#stream.write(cells)
  }

  end(): void {
    if (this.#stream.destroyed || this.#stream.writableEnded) return
    this.#stream.end()
    // The stream closes when the relay has read everything and ended its side; the connection goes either way.
    this.#late = setTimeout(() => this.#hangUp(), END_MS)
  }

  #hangUp(): void {
    clearTimeout(this.#late)
    this.#session.close().catch(() => {})
  }
}
