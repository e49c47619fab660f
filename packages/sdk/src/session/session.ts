/**
 * Runs a session's core: dials, keeps time, fetches tokens, and tells the listener. What one turn of the event loop
 * brings leaves in one write, because a write costs more than what is in it.
 */
import { hash as digest, randomBytes } from 'node:crypto'
import { ConnectionError } from '@static/node/connection-error'
import { type Pace, paceOf, StaticError, type TrafficProfileName, wholeUnits } from '@static/protocol'
import type { Endpoint } from '../endpoint.ts'
import type {
  CellStream,
  Outcome,
  RelaySession,
  RequestBody,
  SessionListener,
  StreamHandlers,
  Time,
  Transport,
} from '../ports.ts'
import type { TokenSource } from '../tokens.ts'
import { SessionCore } from './core.ts'
import type { Effect, Input, Position, StreamNumber, Way } from './io.ts'

/** What a session is opened with. */
export interface SessionOptions {
  readonly endpoint: Endpoint
  /** Where the same relay takes gRPC, for an agent whose QUIC does not get through; without it there is one way only. */
  readonly fallback?: Endpoint | undefined
  /** The authority of the relay's certificate, PEM; undefined: those that Node knows. */
  readonly ca: string | undefined
  readonly transports: { readonly quic?: Transport | undefined; readonly grpc: Transport }
  /** The relays that were found before, by the endpoint's host. */
  readonly pins: ReadonlyMap<string, Uint8Array>
  /** Ed25519, 32 bytes. */
  readonly publicKey: Uint8Array
  /** Signs with the key that belongs to it. */
  readonly sign: (bytes: Uint8Array) => Uint8Array
  /** Without it the agent is a guest. */
  readonly tokens?: TokenSource | undefined
  /** Announced to the relay; `standard` by default. */
  readonly traffic?: TrafficProfileName | undefined
  /** Of the strict profile, when it is not the default. */
  readonly cellsPerSecond?: number | undefined
  readonly listener: SessionListener
  /** Takes what a listener or a callback throws; by default it ends the process, as what nobody catches does. */
  readonly onBug?: ((error: unknown) => void) | undefined
  /** For tests. */
  readonly now?: (() => Time) | undefined
  readonly random?: ((bytes: number) => Uint8Array) | undefined
}

/** A session that was begun. */
export interface OpenedSession {
  readonly session: RelaySession
  /** Settled with the first session: open, or why there will be none. */
  readonly ready: Promise<void>
}

/** Begins a session; it goes on until it is closed, unless the first one cannot be opened. */
export function openSession(options: SessionOptions): OpenedSession {
  const session = new Session(options)
  return { session, ready: session.ready }
}

type Done = (outcome: Outcome) => void

/** A stream that was dialled. */
interface Line {
  readonly stream: CellStream
  readonly over: PromiseWithResolvers<void>
  /** What leaves at the end of this turn. */
  cells: Uint8Array[]
  /** The same, before those. */
  urgent: Uint8Array[]
}

const MAX_TIMER_MS = 2 ** 31 - 1
/** Longer than a transport waits for the other side's end. */
const CLOSE_MS = 3000

class Session implements RelaySession {
  readonly #options: SessionOptions
  readonly #core: SessionCore<Done>
  readonly #now: () => Time
  readonly #ready: PromiseWithResolvers<void> = Promise.withResolvers<void>()
  readonly #lines = new Map<StreamNumber, Line>()
  readonly #dirty = new Set<Line>()
  readonly #inputs: Input<Done>[] = []
  #handling = false
  #flushing = false
  #timer: NodeJS.Timeout | undefined
  #closing: Promise<void> | undefined

  constructor(options: SessionOptions) {
    const { endpoint, fallback, pins, publicKey, sign, tokens, traffic = 'standard', cellsPerSecond = 0 } = options
    this.#options = options
    // Does not jump when somebody sets the clock, so that no wait becomes an hour.
    this.#now = options.now ?? (() => performance.timeOrigin + performance.now())
    const random = options.random ?? ((bytes: number) => new Uint8Array(randomBytes(bytes)))
    this.#core = new SessionCore({
      endpoint: endpoint.host,
      pinned: pins.get(endpoint.host),
      way: endpoint.way,
      fallback: fallback !== undefined,
      tokens: tokens !== undefined,
      signer: { publicKey, sign, random, hash: sha256 },
      traffic,
      cellsPerSecond,
    })
    // Whoever waits for it gets the reason; nobody has to.
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
      // Not before this call has returned.
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
    this.#ready.reject(StaticError.of('closed', 'The session was closed before it was open.'))
    clearTimeout(this.#timer)
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(late.resolve, CLOSE_MS)
    await Promise.race([Promise.all([...this.#lines.values()].map(({ over }) => over.promise)), late.promise])
    clearTimeout(timer)
  }

  // ---- Core ----

  /** What happens while the effects of something are carried out is handled after them. */
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
        return this.#dial(effect.stream, effect.way, effect.port)
      case 'askToken':
        return this.#askToken()
      case 'wakeAt':
        return this.#wakeAt(effect.at)
      case 'firstFailed':
        clearTimeout(this.#timer)
        return this.#ready.reject(effect.error)
      default:
        this.#tell(effect)
    }
  }

  /** A listener that throws does not take the session with it. */
  #tell(effect: Extract<Effect<Done>, { type: 'outcome' | 'push' | 'opened' | 'lost' | 'pin' }>): void {
    const { listener, onBug } = this.#options
    try {
      switch (effect.type) {
        case 'outcome':
          return effect.key(effect.outcome)
        case 'push':
          return listener.push(effect.body)
        case 'opened':
          this.#ready.resolve()
          return listener.opened(effect.info)
        case 'lost':
          return listener.lost(effect.reason)
        case 'pin':
          return listener.pin(effect.endpoint, effect.relayId)
      }
    } catch (error) {
      if (onBug) return onBug(error)
      queueMicrotask(() => {
        throw error
      })
    }
  }

  // ---- World ----

  #dial(number: StreamNumber, way: Way, port: number | undefined): void {
    const { endpoint, fallback, ca, transports } = this.#options
    const { host, port: usual, serverName } = way === endpoint.way ? endpoint : (fallback ?? endpoint)
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
      ? transport.dial({ host, port: port ?? usual, serverName, ca }, handlers).then((stream) => this.#checked(stream))
      : Promise.reject(StaticError.of('connection_error', 'This agent has no QUIC.'))
    dialled.then(
      (stream) => {
        this.#lines.set(number, { stream, over, cells: [], urgent: [] })
        this.#handle({ type: 'dialled', stream: number, serverName })
      },
      (cause: unknown) => {
        const error = StaticError.from(cause)
        this.#handle({ type: 'dialFailed', stream: number, error, untrusted: isUntrusted(error) })
      },
    )
  }

  /** Rather no session than one that is not protected as it was asked for. */
  #checked(stream: CellStream): CellStream {
    const { traffic = 'standard', cellsPerSecond = 0 } = this.#options
    if (stream.pace || !paceOf(traffic, cellsPerSecond)) return stream
    stream.end()
    throw StaticError.of('internal_error', 'A profile with a clock needs a transport that has one.')
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
    // Twice, so that what the answers of this turn lead to, in microtasks themselves, is in.
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

  /** In this profile alone everything leaves in units; on a clock it leaves by cells. */
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
    clearTimeout(this.#timer)
    const wait = Math.min(MAX_TIMER_MS, Math.max(0, Math.ceil(at - this.#now())))
    this.#timer = setTimeout(() => this.#handle({ type: 'tick' }), wait)
  }
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const [first] = parts
  return first && parts.length === 1 ? first : Buffer.concat(parts)
}

/** Whether the transport has met somebody else than the relay, or cannot tell whom. */
function isUntrusted(error: StaticError): boolean {
  if (!(error instanceof ConnectionError)) return false
  return error.reason === 'untrusted_certificate' || error.reason === 'unreadable_authority'
}

function sha256(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(digest('sha256', bytes, 'buffer'))
}
