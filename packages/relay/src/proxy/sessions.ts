/**
 * The stand-alone proxy: gRPC agents on one side, a relay's QUIC port on the other. It converts between protobuf and
 * CBOR by the descriptors alone and passes everything else through: the opening of sessions, pings and pongs (which
 * limit the data in flight end to end), acknowledgements. It sees sessions and tokens, never content.
 */
import { subjectOf } from '@static/node/address'
import {
  type CellEvent,
  CellJoiner,
  cutEnvelope,
  ENVELOPE_LIMITS,
  makeCell,
  networkOf,
  paceOf,
  StaticError,
  type TrafficProfileName,
} from '@static/protocol'
import { decodeEnvelope, encodeEnvelope } from '@static/protocol/envelope'
import { ClientMessageSchema, CloseReason, Purpose, ServerMessageSchema } from '@static/protocol/relay'
import { TRAFFIC } from '../core/sessions/opening.ts'
import type { FullTransport, Peer, StreamHandler, StreamId, Transport } from '../ports.ts'
import { heaviest } from '../runner/heaviest.ts'
import { Shaping } from '../session/shaping.ts'
import { DEFAULT_SETTINGS, type Settings } from '../settings.ts'
import { announce, type ProxyPorts } from './files.ts'
import { fullSession } from './full.ts'
import { HELLO_ID, helloCells, loneCell, requestCells } from './relay-cells.ts'
import type { Upstream, UpstreamStream } from './upstream.ts'

/** How much an agent may send while the stream to the relay opens. */
const EARLY_BYTES = 65_536
const MAX_BUFFERED_BYTES = 8 * 1024 * 1024
/** How often the relay hears from an agent that sends only cover. */
const ALIVE_MS = 1000

/** The two ends of a session. */
interface ProxySession {
  readonly id: StreamId
  /** The agent's address in the form that limits count by, and its /48; without one, the address again. */
  readonly address: string
  readonly network: string
  readonly fromAgent: CellJoiner
  upstream: UpstreamStream | undefined
  /** The profile that the agent announced. It applies once the relay has opened the session. */
  traffic: { readonly profile: TrafficProfileName; readonly cellsPerSecond: number }
  /** Whether the relay has opened the session. */
  open: boolean
  paced: boolean
  /** A message waiting for its answer, and when it arrived. */
  timed: { readonly requestId: bigint; readonly at: number } | undefined
  /** When something was last sent to the relay. */
  sentAt: number
  /** Bytes of an incomplete envelope, and when its last cell arrived. */
  heldBytes: number
  steppedAt: number
  early: Uint8Array[]
  earlyBytes: number
}

/** Connects the sessions of agents with the relay. */
export class ProxySessions {
  readonly #upstream: Upstream
  readonly #sessions = new Map<StreamId, ProxySession>()
  readonly #shaping = new Shaping(() => false)
  readonly #onError: (error: unknown) => void
  readonly #settings: Settings
  readonly #ports: () => ProxyPorts
  #lastStream = 0
  #joiningBytes = 0

  /**
   * Limits incomplete envelopes as a relay would, because the relay behind it sees only complete ones. `ports` are the
   * proxy's own, which agents learn.
   */
  constructor(
    upstream: Upstream,
    ports: () => ProxyPorts,
    onError: (error: unknown) => void,
    settings: Settings = DEFAULT_SETTINGS,
  ) {
    this.#upstream = upstream
    this.#ports = ports
    this.#onError = onError
    this.#settings = settings
  }

  /** The handler for the session streams of the agents' transport. */
  streams(transport: () => Transport): StreamHandler {
    return {
      opened: (peer) => {
        const id = ++this.#lastStream
        if (peer.full) {
          this.#refuse(id, peer.full, transport)
          return id
        }
        const fromAgent = new CellJoiner(ENVELOPE_LIMITS.unauthenticated)
        const address = subjectOf(peer.address)
        const session: ProxySession = {
          id,
          address,
          network: networkOf(address) ?? address,
          fromAgent,
          upstream: undefined,
          traffic: { profile: 'off', cellsPerSecond: 0 },
          open: false,
          paced: false,
          timed: undefined,
          sentAt: 0,
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

  #refuse(id: StreamId, full: FullTransport, transport: () => Transport): void {
    const cells = cutEnvelope(encodeEnvelope('protobuf', ServerMessageSchema, fullSession(full)))
    // The transport does not know the id yet.
    queueMicrotask(() => {
      transport().write([id], cells)
      transport().end(id)
    })
  }

  async #connect(session: ProxySession, peer: Peer, transport: Transport): Promise<void> {
    const fromRelay = new CellJoiner(Number.MAX_SAFE_INTEGER)
    const upstream = await this.#upstream.open({
      data: (bytes) =>
        this.#guard(session, transport, () => {
          fromRelay.push(bytes, (event) => this.#toAgent(session, event, transport))
        }),
      closed: () => this.#end(session, transport),
    })
    if (!this.#sessions.has(session.id)) return upstream.end()
    upstream.write(helloCells(peer.address))
    session.upstream = upstream
    for (const chunk of session.early) this.#fromAgent(session, chunk, transport)
    session.early = []
  }

  #fromAgent(session: ProxySession, chunk: Uint8Array, transport: Transport): void {
    const { upstream } = session
    if (!upstream) {
      session.earlyBytes += chunk.length
      if (session.earlyBytes > EARLY_BYTES)
        throw StaticError.of('unavailable', 'The stream to the relay is not open yet.')
      session.early.push(chunk)
      return
    }
    const now = performance.now()
    const { steps } = session.fromAgent
    session.fromAgent.push(chunk, ({ type, payload }) => {
      // Cover ends at the proxy, so that an observer of either side sees the same pattern.
      if (type === 'coverAsk') return this.#shaping.asked(session.id)
      session.sentAt = now
      upstream.write(type === 'envelope' ? this.#request(session, payload, now) : loneCell(type, payload))
    })
    // The agent's cover is dropped here, so the proxy must show the relay that the agent is alive.
    if (now - session.sentAt > ALIVE_MS) {
      session.sentAt = now
      upstream.write(makeCell('cover'))
    }
    if (upstream.bufferedBytes > MAX_BUFFERED_BYTES) this.#end(session, transport)
    else this.#hold(session, session.fromAgent.steps !== steps, now, transport)
  }

  /**
   * Limits incomplete envelopes in time and, over all agents, in memory: the address that holds the most loses its
   * largest.
   */
  #hold(session: ProxySession, stepped: boolean, now: number, transport: Transport): void {
    if (!this.#sessions.has(session.id)) return
    const { heldBytes } = session.fromAgent
    const more = heldBytes - session.heldBytes
    if (stepped || session.heldBytes === 0) session.steppedAt = now
    session.heldBytes = heldBytes
    this.#joiningBytes += more
    if (heldBytes > 0 && now - session.steppedAt > this.#settings.session.stallMs) throw unfinished()
    if (more <= 0 || this.#joiningBytes <= this.#settings.streams.joiningBytes) return
    const own = heaviest(this.#sessions.values(), (one) => one.heldBytes)
    const worst = own.reduce((one, other) => (other.heldBytes > one.heldBytes ? other : one), own[0] ?? session)
    this.#onError(unfinished())
    this.#end(worst, transport)
  }

  #toAgent(session: ProxySession, { type, payload }: CellEvent, transport: Transport): void {
    if (type !== 'envelope') return this.#cellToAgent(session, makeCell(type, payload), type === 'pong', transport)
    const message = decodeEnvelope('cbor', ServerMessageSchema, payload, payload.length)
    if (message.requestId === HELLO_ID) {
      if (message.body.case === 'error') throw StaticError.of('unavailable', message.body.value.message)
      return
    }
    // A relay sends the same to an agent that it refuses, for example because its address opens too many sessions.
    const { body } = message
    if (session.open && body.case === 'sessionClosing' && body.value.reason === CloseReason.SHUTDOWN) {
      session.upstream?.retire()
    }
    // From here on the relay decides how long envelopes may be.
    if (message.body.case === 'openSession') {
      const { profile, cellsPerSecond } = session.traffic
      session.open = true
      announce(message.body.value, this.#ports())
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

  /** On a clocked stream pongs overtake. The relay's pings do not, because they mark positions in its data. */
  #cellToAgent({ id, paced }: ProxySession, cells: Uint8Array, urgent: boolean, transport: Transport): void {
    if (paced) transport.write([id], cells, urgent)
    else this.#shaping.write(transport, [id], cells)
  }

  /** Re-encodes an agent's request for the relay. */
  #request(session: ProxySession, payload: Uint8Array, now: number): Uint8Array {
    const message = decodeEnvelope('protobuf', ClientMessageSchema, payload, payload.length)
    const { body } = message
    // Tokens are for unary calls, and only the hello may identify a proxy.
    const unary = body.case === 'openSession' && body.value.purpose !== Purpose.SESSION
    if (message.sessionToken !== '' || body.case === 'proxyHello' || message.requestId >= HELLO_ID || unary) {
      throw StaticError.of('invalid_request', 'This request is not allowed on a session stream.')
    }
    if (body.case === 'sendMessage') session.timed ??= { requestId: message.requestId, at: now }
    if (body.case === 'openSession') {
      const profile = TRAFFIC[body.value.trafficProfile] ?? 'off'
      session.traffic = { profile, cellsPerSecond: body.value.cellsPerSecond }
    }
    return requestCells(message)
  }

  /** Ends a session on both sides if its bytes cannot be decoded. */
  #guard(session: ProxySession, transport: Transport, work: () => void): void {
    try {
      work()
    } catch (error) {
      this.#onError(error)
      this.#end(session, transport)
    }
  }

  #end(session: ProxySession, transport: Transport): void {
    if (this.#forget(session)) transport.end(session.id)
  }

  #forget(session: ProxySession): boolean {
    if (!this.#sessions.delete(session.id)) return false
    this.#joiningBytes -= session.heldBytes
    this.#shaping.end(session.id)
    session.upstream?.end()
    return true
  }
}

function unfinished(): StaticError {
  return StaticError.of('unavailable', 'An envelope was not completed in time.', { retryAfter: 5 })
}
