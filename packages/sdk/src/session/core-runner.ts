/**
 * Runs a session's core: dials, runs timers, fetches tokens, and calls the listener. Everything from one turn of the
 * event loop goes out in one write, because a write costs more than its contents.
 */
import { randomBytes, sha256 } from '#platform/crypto'
import { cancelTimer, startTimer, type Timer } from '#platform/turn'
import { ConnectionError } from '@static/node/connection-error'
import { type Pace, paceOf, StaticError, type TrafficProfileName, wholeUnits } from '@static/protocol'
import { type Endpoint, GRPC_PORT } from '../account/endpoint.ts'
import type {
  CellStream,
  KnownRelay,
  Outcome,
  RelaySession,
  RequestBody,
  SessionInfo,
  SessionListener,
  StreamHandlers,
  Time,
  Transport,
} from '../ports/index.ts'
import { concatAll } from '../platform/bytes.ts'
import type { TokenSource } from '../account/token-source.ts'
import { SessionCore } from './core.ts'
import { filesPlaceOf } from './files-place.ts'
import type { Effect, Input, OpenedInfo, Position, StreamNumber } from './io.ts'

export interface SessionOptions {
  readonly endpoint: Endpoint
  /** Whether to use gRPC at the same host if QUIC cannot connect. Default: false. */
  readonly fallback?: boolean | undefined
  /** The port of gRPC. Default: the one that the relay announced, or 5000. */
  readonly grpcPort?: number | undefined
  /** CA of the relay's certificate, PEM; undefined: Node's default authorities. */
  readonly ca: string | undefined
  readonly transports: { readonly quic?: Transport | undefined; readonly grpc: Transport }
  /** Known relays, by the name in their certificate. */
  readonly pins: ReadonlyMap<string, KnownRelay>
  /** Id of a relay to accept in place of the known one. */
  readonly acceptRelay?: Uint8Array | undefined
  /** Ed25519, 32 bytes. */
  readonly publicKey: Uint8Array
  /** Signs with the private key of `publicKey`. */
  readonly sign: (bytes: Uint8Array) => Uint8Array
  /** Undefined for a guest. */
  readonly tokens?: TokenSource | undefined
  /** Sent to the relay. Default: `standard`. */
  readonly traffic?: TrafficProfileName | undefined
  /** Rate of the strict profile, if it is not the default. */
  readonly cellsPerSecond?: number | undefined
  /**
   * Whether to continue if the relay or the API cannot be reached at first; if so, `ready` resolves then. Default:
   * false.
   */
  readonly wait?: boolean | undefined
  readonly listener: SessionListener
  /** Receives errors thrown by a listener or callback. By default they end the process, like any uncaught exception. */
  readonly onBug?: ((error: unknown) => void) | undefined
  /** For tests. */
  readonly now?: (() => Time) | undefined
  readonly random?: ((bytes: number) => Uint8Array) | undefined
}

/** A session that has been started. */
export interface OpenedSession {
  readonly session: RelaySession
  /** Settles with the first session: resolves when it is open, rejects with the reason if it cannot be opened. */
  readonly ready: Promise<void>
}

/** Starts a session. It runs until it is closed, or until the first session cannot be opened. */
export function openSession(options: SessionOptions): OpenedSession {
  const session = new CoreRunner(options)
  return { session, ready: session.ready }
}

type Done = (outcome: Outcome) => void

/** A dialed stream. */
interface Line {
  readonly stream: CellStream
  readonly over: PromiseWithResolvers<void>
  /** Cells to write at the end of this turn. */
  cells: Uint8Array[]
  /** Urgent cells, written before those. */
  urgent: Uint8Array[]
}

const MAX_TIMER_MS = 2 ** 31 - 1
/** Longer than a transport waits for the peer to close its side. */
const CLOSE_MS = 3000

class CoreRunner implements RelaySession {
  readonly #options: SessionOptions
  readonly #core: SessionCore<Done>
  readonly #now: () => Time
  readonly #ready: PromiseWithResolvers<void> = Promise.withResolvers<void>()
  readonly #lines = new Map<StreamNumber, Line>()
  readonly #dirty = new Set<Line>()
  readonly #inputs: Input<Done>[] = []
  #handling = false
  #flushing = false
  #timer: Timer | undefined
  /** The resolved address of the last stream. */
  #lastAddress: string | undefined
  #closing: Promise<void> | undefined

  constructor(options: SessionOptions) {
    const {
      endpoint,
      fallback = false,
      grpcPort,
      pins,
      acceptRelay,
      publicKey,
      sign,
      tokens,
      traffic = 'standard',
      cellsPerSecond = 0,
    } = options
    this.#options = options
    // Monotonic, so that setting the system clock cannot turn a short wait into an hour.
    this.#now = options.now ?? (() => performance.timeOrigin + performance.now())
    const random = options.random ?? randomBytes
    this.#core = new SessionCore({
      relayName: endpoint.serverName,
      addresses: endpoint.addresses.length,
      known: pins.get(endpoint.serverName),
      accepted: acceptRelay,
      way: endpoint.way,
      fallback,
      grpcPort,
      tokens: tokens !== undefined,
      wait: options.wait === true,
      signer: { publicKey, sign, random, hash: sha256 },
      traffic,
      cellsPerSecond,
    })
    // Callers that await it get the reason. If no one does, it must not count as an unhandled rejection.
    this.#ready.promise.catch(() => {})
    this.#handle({ type: 'start' })
  }

  get ready(): Promise<void> {
    return this.#ready.promise
  }

  request(body: RequestBody, done: Done): void {
    const input = { type: 'request', key: done, body } as const
    if (this.#handling) {
      this.#inputs.push(input)
      return
    }
    for (const effect of this.#core.handle(input, this.#now())) {
      // `done` must not be called before `request` has returned.
      if (effect.type === 'outcome') queueMicrotask(() => this.#carryOut(effect))
      else this.#carryOut(effect)
    }
  }

  ack(positions: readonly Position[]): void {
    if (positions.length > 0) this.#handle({ type: 'ack', positions })
  }

  hold(): void {
    this.#handle({ type: 'hold' })
  }

  release(): void {
    this.#handle({ type: 'release' })
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    this.#handle({ type: 'close' })
    this.#ready.reject(StaticError.of('closed', 'The session was closed before it opened.'))
    cancelTimer(this.#timer)
    const late = Promise.withResolvers<void>()
    const timer = startTimer(CLOSE_MS, late.resolve)
    await Promise.race([Promise.all([...this.#lines.values()].map(({ over }) => over.promise)), late.promise])
    cancelTimer(timer)
  }

  // ---- Core ----

  /** Inputs that arise while effects are carried out are handled after them. */
  #handle(input: Input<Done>): void {
    this.#inputs.push(input)
    if (this.#handling) return
    this.#handling = true
    try {
      for (let at = 0; at < this.#inputs.length; at++) {
        const next = this.#inputs[at]
        if (next) for (const effect of this.#core.handle(next, this.#now())) this.#carryOut(effect)
      }
    } finally {
      this.#inputs.length = 0
      this.#handling = false
    }
  }

  #carryOut(effect: Effect<Done>): void {
    switch (effect.type) {
      case 'write':
        return this.#write(effect.stream, effect.cells, effect.urgent)
      case 'pace':
        return this.#pace(effect.stream, effect.pace)
      case 'end':
        return this.#end(effect.stream)
      case 'dial':
        return this.#dial(effect)
      case 'askToken':
        return this.#askToken()
      case 'wakeAt':
        return this.#wakeAt(effect.at)
      case 'firstFailed':
        cancelTimer(this.#timer)
        return this.#ready.reject(effect.error)
      default:
        this.#notify(effect)
    }
  }

  /** Calls the listener. If it throws, the session continues. */
  #notify(effect: Extract<Effect<Done>, { type: 'outcome' | 'push' | 'opened' | 'lost' | 'pin' }>): void {
    const { listener, onBug } = this.#options
    try {
      switch (effect.type) {
        case 'outcome':
          return effect.key(effect.outcome)
        case 'push':
          return listener.push(effect.body)
        case 'opened':
          this.#ready.resolve()
          return listener.opened(this.#infoOf(effect.info))
        case 'lost':
          // Before the first session, which the application does not wait for.
          this.#ready.resolve()
          return listener.lost(effect.reason)
        case 'pin':
          return listener.pin(effect.relayName, effect.relay)
      }
    } catch (error) {
      if (onBug) return onBug(error)
      queueMicrotask(() => {
        throw error
      })
    }
  }

  #infoOf({ node, announced, ...info }: OpenedInfo): SessionInfo {
    const { endpoint } = this.#options
    const { host } = endpoint.addresses[node] ?? endpoint.addresses[0]
    return { ...info, files: filesPlaceOf(announced, { host, serverName: endpoint.serverName }) }
  }

  // ---- Input and output ----

  #dial({ stream: number, way, node, port, avoidsLast }: Extract<Effect<Done>, { type: 'dial' }>): void {
    const { endpoint, ca, transports } = this.#options
    const { serverName } = endpoint
    const address = endpoint.addresses[node] ?? endpoint.addresses[0]
    const { host } = address
    const usual = way === endpoint.way ? address.port : GRPC_PORT
    const avoid = avoidsLast ? this.#lastAddress : undefined
    const transport = transports[way]
    const over = Promise.withResolvers<void>()
    const handlers: StreamHandlers = {
      data: (bytes) => this.#handle({ type: 'data', stream: number, bytes }),
      closed: (reason) => {
        this.#lines.delete(number)
        over.resolve()
        this.#handle({ type: 'streamClosed', stream: number, reason })
      },
    }
    const dialled = transport
      ? transport
          .dial({ host, port: port ?? usual, serverName, ca, avoid }, handlers)
          .then((stream) => this.#checked(stream))
      : Promise.reject(new ConnectionError('unusable', 'This agent has no QUIC transport.'))
    dialled.then(
      (stream) => {
        this.#lastAddress = stream.address
        this.#lines.set(number, { stream, over, cells: [], urgent: [] })
        this.#handle({ type: 'dialled', stream: number, serverName })
      },
      (cause: unknown) => {
        const error = StaticError.from(cause)
        this.#handle({ type: 'dialFailed', stream: number, error, kind: kindOf(error) })
      },
    )
  }

  /** Refuses a stream that cannot protect the session as requested. */
  #checked(stream: CellStream): CellStream {
    const { traffic = 'standard', cellsPerSecond = 0 } = this.#options
    if (stream.pace || !paceOf(traffic, cellsPerSecond)) return stream
    stream.end()
    throw StaticError.of('internal_error', 'This traffic profile needs a clocked transport.')
  }

  #pace(number: StreamNumber, pace: Pace): void {
    const line = this.#lines.get(number)
    if (!line) return
    this.#send(line)
    line.stream.pace?.(pace)
  }

  #write(number: StreamNumber, cells: Uint8Array, urgent: boolean): void {
    const line = this.#lines.get(number)
    if (!line) return
    line[urgent ? 'urgent' : 'cells'].push(cells)
    this.#dirty.add(line)
    if (this.#flushing) return
    this.#flushing = true
    // Twice, so that microtasks queued by this turn's answers are included.
    queueMicrotask(() => queueMicrotask(() => this.#flush()))
  }

  #flush(): void {
    this.#flushing = false
    for (const line of this.#dirty) this.#send(line)
    this.#dirty.clear()
  }

  #end(number: StreamNumber): void {
    const line = this.#lines.get(number)
    if (!line) return
    this.#send(line)
    line.stream.end()
  }

  #send(line: Line): void {
    const { cells, urgent, stream } = line
    line.cells = []
    line.urgent = []
    if (urgent.length > 0) stream.write(joined(urgent), true)
    if (cells.length > 0) stream.write(this.#isCovered ? wholeUnits(joined(cells)) : joined(cells))
  }

  /** Whether everything is sent in whole units, as only this profile does. A clocked stream sends single cells. */
  get #isCovered(): boolean {
    return (this.#options.traffic ?? 'standard') === 'standard'
  }

  #askToken(): void {
    this.#options.tokens?.().then(
      ({ jwt, expiresAt }) => this.#handle({ type: 'token', jwt, expiresAt }),
      (error: unknown) => this.#handle({ type: 'tokenFailed', error: StaticError.from(error) }),
    )
  }

  #wakeAt(at: Time): void {
    cancelTimer(this.#timer)
    const wait = Math.min(MAX_TIMER_MS, Math.max(0, Math.ceil(at - this.#now())))
    this.#timer = startTimer(wait, () => this.#handle({ type: 'tick' }))
  }
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const [first] = parts
  return first && parts.length === 1 ? first : concatAll(parts)
}

/** How the core sees a failed dial. */
function kindOf(error: StaticError): 'certificate' | 'unreachable' | 'unusable' {
  switch (error instanceof ConnectionError ? error.reason : undefined) {
    case 'untrusted_certificate':
    case 'unreadable_authority':
      return 'certificate'
    case 'unusable':
      return 'unusable'
    default:
      return 'unreachable'
  }
}
