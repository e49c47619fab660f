/**
 * The stand-alone proxy: gRPC agents on one side, a relay's QUIC port on the other. It turns protobuf into CBOR and back
 * by the descriptors alone and passes everything else through: the session's opening, pings and pongs (which bound what
 * is under way from end to end), acknowledgements. It sees sessions and tokens, never content.
 */
import { isIPv4 } from 'node:net'
import { create } from '@bufbuild/protobuf'
import {
  type CellEvent,
  CellJoiner,
  convertEnvelope,
  cutEnvelope,
  decodeEnvelope,
  ENVELOPE_LIMITS,
  encodeEnvelope,
  makeCell,
  paceOf,
  REVISION,
  StaticError,
  type TrafficProfileName,
} from '@static/protocol'
import {
  AckRequestSchema,
  type ClientMessage,
  ClientMessageSchema,
  Purpose,
  type ServerMessage,
  ServerMessageSchema,
} from '@static/protocol/relay'
import { TRAFFIC } from '../core/opening.ts'
import type { CallHandler, Peer, PushSink, StreamHandler, StreamId, Subscription, Transport } from '../ports.ts'
import { DEFAULT_SETTINGS, type Settings } from '../settings.ts'
import { Shaping } from '../session/shaping.ts'

/** Opens streams to the relay, over few connections. */
export interface Upstream {
  /** Rejects with `unavailable` when the relay is out of reach. */
  open(handlers: UpstreamHandlers): Promise<UpstreamStream>
}

export interface UpstreamHandlers {
  data(bytes: Uint8Array): void
  /** The reason is missing when the relay ended the stream in order. */
  closed(reason?: StaticError): void
}

export interface UpstreamStream {
  write(bytes: Uint8Array): void
  end(): void
  readonly bufferedBytes: number
}

/** The hello's request id: agents count theirs up from 1 and never get there. */
const HELLO_ID = 0xffff_ffff_ffff_ffffn
const UNKNOWN_PROXY =
  'The relay does not know this proxy: its --proxy-ca must be the authority that signed the client certificate.'
/** What an agent may send while the stream to the relay opens. */
const EARLY_BYTES = 65_536
const MAX_BUFFERED_BYTES = 8 * 1024 * 1024
const CALL_MS = 70_000
const TOKEN = /^[\w-]{64,900}\.[\w-]{43}$/
const GREETING_MS = 5000
/** How often a relay hears of an agent that sends nothing but cover. */
const ALIVE_MS = 1000

/** The two ends of a session. */
interface Session {
  readonly id: StreamId
  readonly fromAgent: CellJoiner
  upstream: UpstreamStream | undefined
  /** What the agent has announced; it counts when the relay has opened the session. */
  traffic: { readonly profile: TrafficProfileName; readonly cellsPerSecond: number }
  paced: boolean
  /** A message whose answer is waited for, and when it came. */
  timed: { readonly requestId: bigint; readonly at: number } | undefined
  /** When the relay last heard something. */
  toldAt: number
  /** What an unfinished envelope holds, and when its last cell came. */
  heldBytes: number
  steppedAt: number
  early: Uint8Array[]
  earlyBytes: number
}

/** Joins agents and relay. */
export class Proxy implements CallHandler {
  readonly #upstream: Upstream
  readonly #sessions = new Map<StreamId, Session>()
  readonly #shaping = new Shaping(() => false)
  readonly #onError: (error: unknown) => void
  readonly #settings: Settings
  #lastStream = 0
  #joiningBytes = 0

  /** The bounds of unfinished envelopes are a relay's own: it sees only whole ones. */
  constructor(upstream: Upstream, onError: (error: unknown) => void, settings: Settings = DEFAULT_SETTINGS) {
    this.#upstream = upstream
    this.#onError = onError
    this.#settings = settings
  }

  /** Says hello for nobody. Rejects with `connection_error` when the relay does not take this for a proxy of its own. */
  async greet(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const fail = (text: string, cause?: unknown): void => reject(StaticError.of('connection_error', text, { cause }))
    const stream = await this.#upstream
      .open({
        data: this.#reader(
          ({ type, payload }) => {
            if (type !== 'envelope') return
            const { body } = decodeEnvelope('cbor', ServerMessageSchema, payload, payload.length)
            if (body.case === 'proxyHello') resolve()
            else fail(UNKNOWN_PROXY, body)
          },
          () => fail(UNKNOWN_PROXY),
        ),
        closed: (reason) => fail(reason?.message ?? UNKNOWN_PROXY, reason),
      })
      .catch((error: unknown) => {
        // Here the operator reads it, who needs the reason.
        throw error instanceof StaticError && error.cause instanceof StaticError ? error.cause : error
      })
    const late = setTimeout(() => fail('The relay does not answer.'), GREETING_MS)
    stream.write(requestCells(helloMessage('127.0.0.1')))
    try {
      await promise
    } finally {
      clearTimeout(late)
      stream.end()
    }
  }

  /** Takes the session streams of the agents' transport. */
  streams(transport: () => Transport): StreamHandler {
    return {
      opened: (peer) => {
        const id = ++this.#lastStream
        const fromAgent = new CellJoiner(ENVELOPE_LIMITS.unauthenticated)
        const session: Session = {
          id,
          fromAgent,
          upstream: undefined,
          traffic: { profile: 'off', cellsPerSecond: 0 },
          paced: false,
          timed: undefined,
          toldAt: 0,
          heldBytes: 0,
          steppedAt: 0,
          early: [],
          earlyBytes: 0,
        }
        this.#sessions.set(id, session)
        this.#connect(session, peer, transport()).catch((error: unknown) => {
          this.#onError(error)
          this.#end(session, transport())
        })
        return id
      },
      received: (id, chunk) => {
        const session = this.#sessions.get(id)
        if (session) this.#guard(session, transport(), () => this.#fromAgent(session, chunk, transport()))
      },
      closed: (id) => {
        const session = this.#sessions.get(id)
        if (session) this.#forget(session)
      },
    }
  }

  /** Only the relay can check a token; a text of another form is none. */
  knows(token: string): boolean {
    return TOKEN.test(token)
  }

  /** Passes a call on over a stream of its own: streams are cheap, and each tells the agent's address. */
  async call(peer: Peer, message: ClientMessage, signal?: AbortSignal): Promise<ServerMessage> {
    const { promise, resolve, reject } = Promise.withResolvers<ServerMessage>()
    // The caller may go before there is a stream, and then nobody waits for this.
    promise.catch(() => {})
    const gone = (): void => reject(StaticError.of('unavailable', 'The relay is out of reach.', { retryAfter: 1 }))
    signal?.addEventListener('abort', () => reject(StaticError.of('closed', 'The caller has gone.')))
    const stream = await this.#exchange(peer, message, { message: resolve, ping: (pong) => pong(), closed: gone })
    const late = setTimeout(gone, CALL_MS)
    try {
      return await promise
    } finally {
      clearTimeout(late)
      stream.end()
    }
  }

  subscribe(peer: Peer, message: ClientMessage, sink: PushSink): Subscription {
    let over = false
    let congested = false
    // Pongs wait for room: so the relay sends no more than a window ahead of what the agent takes.
    let held: (() => void)[] = []
    let stream: UpstreamStream | undefined
    const end = (): void => {
      if (over) return
      over = true
      sink.end()
    }
    const handlers: Exchange = {
      message: (push) => {
        if (!over && !sink.write(push)) congested = true
      },
      ping: (pong) => {
        if (congested) held.push(pong)
        else pong()
      },
      closed: end,
    }
    this.#exchange(peer, message, handlers).then(
      (opened) => {
        stream = opened
        if (over) opened.end()
      },
      (error: unknown) => {
        this.#onError(error)
        const value = { code: 'unavailable', message: 'The relay is out of reach.', retryAfterMs: 1000 }
        sink.write(create(ServerMessageSchema, { requestId: message.requestId, body: { case: 'error', value } }))
        end()
      },
    )
    return {
      room: () => {
        congested = false
        const pongs = held
        held = []
        for (const pong of pongs) pong()
      },
      close: () => {
        over = true
        stream?.end()
      },
    }
  }

  async #connect(session: Session, peer: Peer, transport: Transport): Promise<void> {
    const fromRelay = new CellJoiner(Number.MAX_SAFE_INTEGER)
    const upstream = await this.#upstream.open({
      data: (bytes) =>
        this.#guard(session, transport, () => {
          fromRelay.push(bytes, (event) => this.#toAgent(session, event, transport))
        }),
      closed: () => this.#end(session, transport),
    })
    if (!this.#sessions.has(session.id)) return upstream.end()
    upstream.write(requestCells(helloMessage(peer.address)))
    session.upstream = upstream
    for (const chunk of session.early) this.#fromAgent(session, chunk, transport)
    session.early = []
  }

  #fromAgent(session: Session, chunk: Uint8Array, transport: Transport): void {
    const { upstream } = session
    if (!upstream) {
      session.earlyBytes += chunk.length
      if (session.earlyBytes > EARLY_BYTES) throw StaticError.of('unavailable', 'The relay is not there yet.')
      session.early.push(chunk)
      return
    }
    const now = performance.now()
    const { steps } = session.fromAgent
    session.fromAgent.push(chunk, ({ type, payload }) => {
      // Cover ends at each side of a proxy: whoever sees only one side must find the same there.
      if (type === 'coverAsk') return this.#shaping.asked(session.id)
      session.toldAt = now
      upstream.write(type === 'envelope' ? this.#request(session, payload, now) : cellsToRelay(type, payload))
    })
    // Whose cover is dropped here is alive all the same.
    if (now - session.toldAt > ALIVE_MS) {
      session.toldAt = now
      upstream.write(makeCell('cover'))
    }
    if (upstream.bufferedBytes > MAX_BUFFERED_BYTES) this.#end(session, transport)
    else this.#hold(session, session.fromAgent.steps !== steps, now, transport)
  }

  /** Bounds what unfinished envelopes hold, in time and over all agents: whoever holds most goes. */
  #hold(session: Session, stepped: boolean, now: number, transport: Transport): void {
    if (!this.#sessions.has(session.id)) return
    const { heldBytes } = session.fromAgent
    const more = heldBytes - session.heldBytes
    if (stepped || session.heldBytes === 0) session.steppedAt = now
    session.heldBytes = heldBytes
    this.#joiningBytes += more
    if (heldBytes > 0 && now - session.steppedAt > this.#settings.session.stallMs) throw unfinished()
    if (more <= 0 || this.#joiningBytes <= this.#settings.streams.joiningBytes) return
    const most = [...this.#sessions.values()].reduce((one, other) => (other.heldBytes > one.heldBytes ? other : one))
    this.#onError(unfinished())
    this.#end(most, transport)
  }

  #toAgent(session: Session, { type, payload }: CellEvent, transport: Transport): void {
    if (type !== 'envelope') return this.#cellToAgent(session, makeCell(type, payload), type === 'pong', transport)
    const message = decodeEnvelope('cbor', ServerMessageSchema, payload, payload.length)
    if (message.requestId === HELLO_ID) {
      if (message.body.case === 'error') throw StaticError.of('unavailable', message.body.value.message)
      return
    }
    // From here on the relay decides how long its envelopes may be.
    if (message.body.case === 'openSession') {
      const { profile, cellsPerSecond } = session.traffic
      session.fromAgent.limit = ENVELOPE_LIMITS.member
      session.paced = paceOf(profile, cellsPerSecond) !== undefined
      this.#shaping.begin(session.id, transport, profile, cellsPerSecond)
    }
    if (session.timed?.requestId === message.requestId) {
      if (message.body.case === 'sendMessage') this.#shaping.answered(performance.now() - session.timed.at)
      session.timed = undefined
    }
    const cells = cutEnvelope(encodeEnvelope('protobuf', ServerMessageSchema, message))
    this.#cellToAgent(session, cells, false, transport)
  }

  /** On a clock pongs overtake; the relay's pings do not, because they mark places in what it sends. */
  #cellToAgent({ id, paced }: Session, cells: Uint8Array, urgent: boolean, transport: Transport): void {
    if (paced) transport.write([id], cells, urgent)
    else this.#shaping.write(transport, [id], cells)
  }

  /** An agent's request, for the relay. */
  #request(session: Session, payload: Uint8Array, now: number): Uint8Array {
    const message = decodeEnvelope('protobuf', ClientMessageSchema, payload, payload.length)
    const { body } = message
    // Tokens are for unary calls, and only the hello says which proxy this is.
    const unary = body.case === 'openSession' && body.value.purpose !== Purpose.SESSION
    if (message.sessionToken !== '' || body.case === 'proxyHello' || message.requestId >= HELLO_ID || unary) {
      throw StaticError.of('invalid_request', 'A session stream carries the requests of one session.')
    }
    if (body.case === 'sendMessage') session.timed ??= { requestId: message.requestId, at: now }
    if (body.case === 'openSession') {
      const profile = TRAFFIC[body.value.trafficProfile] ?? 'off'
      session.traffic = { profile, cellsPerSecond: body.value.cellsPerSecond }
    }
    return requestCells(message)
  }

  /** Ends a session whose bytes no decoder takes, on both sides. */
  #guard(session: Session, transport: Transport, work: () => void): void {
    try {
      work()
    } catch (error) {
      this.#onError(error)
      this.#end(session, transport)
    }
  }

  #end(session: Session, transport: Transport): void {
    if (this.#forget(session)) transport.end(session.id)
  }

  #forget(session: Session): boolean {
    if (!this.#sessions.delete(session.id)) return false
    this.#joiningBytes -= session.heldBytes
    this.#shaping.end(session.id)
    session.upstream?.end()
    return true
  }

  /** Takes the relay's cells; what no decoder takes is the end. */
  #reader(take: (event: CellEvent) => void, failed: () => void): (bytes: Uint8Array) => void {
    const joiner = new CellJoiner(Number.MAX_SAFE_INTEGER)
    return (bytes) => {
      try {
        joiner.push(bytes, take)
      } catch (error) {
        this.#onError(error)
        failed()
      }
    }
  }

  /** A stream with one request; hands over what the relay says. */
  async #exchange(peer: Peer, message: ClientMessage, handlers: Exchange): Promise<UpstreamStream> {
    const opened: { stream?: UpstreamStream } = {}
    const closed = (): void => handlers.closed()
    const stream = await this.#upstream.open({
      data: this.#reader(({ type, payload }) => {
        if (type === 'ping') handlers.ping(() => opened.stream?.write(makeCell('pong', payload)))
        if (type !== 'envelope') return
        const answer = decodeEnvelope('cbor', ServerMessageSchema, payload.slice(), payload.length)
        if (answer.requestId !== HELLO_ID) handlers.message(answer)
        else if (answer.body.case === 'error') closed()
      }, closed),
      closed,
    })
    opened.stream = stream
    stream.write(requestCells(helloMessage(peer.address)))
    stream.write(requestCells(message))
    return stream
  }
}

interface Exchange {
  message(message: ServerMessage): void
  ping(pong: () => void): void
  closed(): void
}

function unfinished(): StaticError {
  return StaticError.of('unavailable', 'An envelope was not finished in time.', { retryAfter: 5 })
}

/** What an agent sent, for the relay. */
function cellsToRelay(type: 'ack' | 'ping' | 'pong', payload: Uint8Array): Uint8Array {
  const converted =
    type === 'ack' ? convertEnvelope('protobuf', 'cbor', AckRequestSchema, payload, payload.length) : payload
  return makeCell(type, converted)
}

function requestCells(message: ClientMessage): Uint8Array {
  return cutEnvelope(encodeEnvelope('cbor', ClientMessageSchema, message))
}

function helloMessage(address: string): ClientMessage {
  return create(ClientMessageSchema, {
    requestId: HELLO_ID,
    body: { case: 'proxyHello', value: { revision: REVISION, agentAddress: addressBytes(address) } },
  })
}

/** The 4 or 16 bytes of an address. */
function addressBytes(address: string): Uint8Array {
  if (isIPv4(address)) return Uint8Array.from(address.split('.'), Number)
  const [bare = ''] = address.split('%')
  const [head = '', tail = ''] = bare.split('::')
  const left = head === '' ? [] : head.split(':')
  const right = tail === '' ? [] : tail.split(':')
  const groups = [...left, ...Array<string>(Math.max(0, 8 - left.length - right.length)).fill('0'), ...right]
  return Uint8Array.from(
    groups.flatMap((group) => [Number.parseInt(group, 16) >>> 8, Number.parseInt(group, 16) & 0xff]),
  )
}
