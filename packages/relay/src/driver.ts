/**
 * Runs the core: turns cells into its inputs and its effects into cells, asks the store, the token verifier and the quota
 * source, and keeps time. What one turn of the event loop brings for a stream leaves in one write, and what many streams
 * get alike is encoded and handed to the transport once.
 */
import { randomInt } from 'node:crypto'
import { toBinary } from '@bufbuild/protobuf'
import {
  CELL_BYTES,
  type CellEvent,
  cutEnvelope,
  decodeEnvelope,
  ENVELOPE_LIMITS,
  encodeEnvelope,
  type Lease,
  makeCell,
  paceOf,
  StaticError,
  type TokenClaims,
  WireError,
  type WireForm,
} from '@static/protocol'
import {
  AckRequestSchema,
  type ClientMessage,
  ClientMessageSchema,
  type ServerMessage,
  ServerMessageSchema,
} from '@static/protocol/relay'
import type { Effect, Input, Outcome } from './core/io.ts'
import type { Relay, RelayCounts } from './core/relay.ts'
import { Link, type Mark, markCell, type Packet } from './session/link.ts'
import type {
  Account,
  CallHandler,
  Peer,
  PushSink,
  Store,
  StoreEvent,
  StreamHandler,
  StreamId,
  Subscription,
  Time,
  Transport,
} from './ports.ts'
import type { Settings } from './settings.ts'
import { Shaping, type ShapingCounts } from './session/shaping.ts'

/** Where the driver gets what the core asks for. */
export interface DriverOptions {
  readonly relay: Relay
  readonly store: Store
  readonly settings: Settings
  readonly verify: (jwt: string) => Promise<TokenClaims>
  readonly quota: QuotaSource
  readonly now: () => Time
  /** What nobody waits for and went wrong all the same. */
  readonly onError: (error: unknown) => void
  /** Every message that leaves, for metrics. */
  readonly onSend: (message: ServerMessage, receivers: number) => void
}

/** Who lends quota. */
export interface QuotaSource {
  lease(account: Account, wanted: number): Promise<Lease>
  settle(lease: string, spent: number, final: boolean): Promise<unknown>
}

/** A unary call or a subscription: messages, not cells. */
interface Exchange {
  /** Since when a subscriber has taken nothing. */
  congestedSince?: Time | undefined
  write(message: ServerMessage): void
  end(): void
}

const TICK_MS = 200
const SWEEP_MS = 1000
const DRAIN_STEP_MS = 5
const STORE_LOG_MS = 1000
const MAX_MARK = 2 ** 48 - 1
/** How many times longer a reader on a clock may take. */
const PACED_STALL = 4
/** What a request without a long field holds in memory while it waits. */
const REQUEST_BYTES = 512

/** The moving parts of a relay. */
export class Driver implements CallHandler {
  readonly #relay: Relay
  readonly #store: Store
  readonly #settings: Settings
  readonly #options: DriverOptions
  readonly #links = new Map<StreamId, Link>()
  readonly #exchanges = new Map<StreamId, Exchange>()
  readonly #dirty = new Set<Link>()
  readonly #timers: NodeJS.Timeout[] = []
  readonly #shaping = new Shaping((stream) => this.#links.get(stream)?.hasRoom !== true)
  #lastStream = 0
  #lastPacket = 0
  #joiningBytes = 0
  #flushing = false
  #sweeping = false
  #storeFailedAt = -Infinity

  constructor(options: DriverOptions) {
    this.#options = options
    this.#relay = options.relay
    this.#store = options.store
    this.#settings = options.settings
    this.#timers.push(
      setInterval(() => this.tick(), TICK_MS),
      setInterval(() => this.#sweep(), SWEEP_MS),
    )
  }

  get counts(): RelayCounts {
    return this.#relay.counts
  }

  /** Cells of sessions without a clock. */
  get traffic(): ShapingCounts {
    return this.#shaping.counts
  }

  /** Takes the streams of a transport. */
  streams(transport: () => Transport): StreamHandler {
    return {
      opened: (peer) => {
        const id = ++this.#lastStream
        const limit = ENVELOPE_LIMITS.unauthenticated
        this.#links.set(id, new Link(id, peer, transport(), limit, this.#options.now()))
        this.#handle({ type: 'opened', stream: id, peer, kind: 'session' })
        return id
      },
      received: (id, chunk) => {
        const link = this.#links.get(id)
        if (link && !link.ending) this.#received(link, chunk)
      },
      closed: (id) => this.#forget(id),
    }
  }

  /** What happened in the store. */
  event(event: StoreEvent): void {
    this.#handle({ type: 'event', event })
  }

  knows(token: string): boolean {
    return this.#relay.knows(token, this.#options.now())
  }

  call(peer: Peer, message: ClientMessage, signal?: AbortSignal): Promise<ServerMessage> {
    const { promise, resolve, reject } = Promise.withResolvers<ServerMessage>()
    const id = ++this.#lastStream
    const done = (): void => {
      if (this.#exchanges.delete(id)) this.#handle({ type: 'closed', stream: id })
    }
    this.#exchanges.set(id, {
      write: (answer) => {
        resolve(answer)
        // Not inside the effects that are being carried out.
        queueMicrotask(done)
      },
      end: done,
    })
    // A caller that has gone waits for nothing: a poll ends with it.
    signal?.addEventListener('abort', () => {
      done()
      reject(StaticError.of('closed', 'The caller has gone.'))
    })
    this.#handle({ type: 'opened', stream: id, peer, kind: 'call' })
    this.#handle({ type: 'received', stream: id, message, bytes: sizeOf(message) })
    return promise
  }

  subscribe(peer: Peer, message: ClientMessage, sink: PushSink): Subscription {
    const id = ++this.#lastStream
    const exchange: Exchange = {
      write: (push) => {
        if (sink.write(push)) return
        exchange.congestedSince ??= this.#options.now()
        // At once: what else comes in this turn waits in the log.
        this.#handle({ type: 'congested', stream: id })
      },
      end: () => {
        this.#exchanges.delete(id)
        sink.end()
      },
    }
    this.#exchanges.set(id, exchange)
    this.#handle({ type: 'opened', stream: id, peer, kind: 'subscribe' })
    this.#handle({ type: 'received', stream: id, message, bytes: sizeOf(message) })
    return {
      room: () => {
        exchange.congestedSince = undefined
        this.#handle({ type: 'drained', stream: id })
      },
      close: () => {
        if (this.#exchanges.delete(id)) this.#handle({ type: 'closed', stream: id })
      },
    }
  }

  /** Tells every session to dial again and waits until what was accepted has been answered, bounded in time. */
  async drain(): Promise<void> {
    this.#handle({ type: 'drain' })
    const busy = (): boolean => {
      const { requests, pending } = this.#relay.counts
      return requests > 0 || pending > 0 || this.#links.size > 0
    }
    for (let left = this.#settings.session.drainMs; busy() && left > 0; left -= DRAIN_STEP_MS) {
      await new Promise((resolve) => setTimeout(resolve, DRAIN_STEP_MS))
    }
  }

  /** Stops the clock. */
  stop(): void {
    for (const timer of this.#timers) clearInterval(timer)
  }

  // ---- In ----

  #received(link: Link, chunk: Uint8Array): void {
    const now = this.#options.now()
    link.heardAt = now
    link.pingedAt = undefined
    const before = link.joiner.heldBytes
    const { steps } = link.joiner
    try {
      link.joiner.push(chunk, (event) => this.#cell(link, event, now))
    } catch (error) {
      this.#handle({ type: 'malformed', stream: link.id, error: StaticError.from(error) })
    }
    const { heldBytes } = link.joiner
    if (heldBytes === 0) link.joiningSince = undefined
    else if (before === 0 || link.joiner.steps !== steps) link.joiningSince = now
    this.#joiningBytes += heldBytes - before
    if (this.#joiningBytes > this.#settings.streams.joiningBytes && heldBytes > before) this.#cutJoining()
  }

  /**
   * Unfinished envelopes take too much: the longest goes, and of equal ones that which has waited longest for its next
   * cell. By the wait alone, those who hold most could stay by small steps, and push out senders on a slow clock.
   */
  #cutJoining(): void {
    let worst: Link | undefined
    for (const link of this.#links.values()) {
      const { joiningSince, ending } = link
      const { heldBytes } = link.joiner
      if (joiningSince === undefined || ending || heldBytes <= CELL_BYTES) continue
      const more = heldBytes - (worst?.joiner.heldBytes ?? 0)
      if (more > 0 || (more === 0 && joiningSince < (worst?.joiningSince ?? Infinity))) worst = link
    }
    if (worst) this.#busy(worst)
  }

  #busy(link: Link): void {
    const error = StaticError.of('unavailable', 'An envelope was not finished in time.', { retryAfter: 5 })
    this.#handle({ type: 'malformed', stream: link.id, error })
  }

  #cell(link: Link, { type, payload }: CellEvent, now: Time): void {
    // Whatever comes after the last word is not heard.
    if (link.ending) return
    const { form } = link.peer
    switch (type) {
      case 'envelope': {
        const message = decodeEnvelope(form, ClientMessageSchema, payload, ENVELOPE_LIMITS.member)
        const bytes = holdsBody(message) ? payload.length : REQUEST_BYTES
        if (message.body.case === 'sendMessage') link.timed ??= { requestId: message.requestId, at: now }
        this.#handle({ type: 'received', stream: link.id, message, bytes })
        return
      }
      case 'ack': {
        const ack = decodeEnvelope(form, AckRequestSchema, payload, payload.length)
        this.#handle({ type: 'acknowledged', stream: link.id, ack })
        return
      }
      case 'ping': {
        const pong = makeCell('pong', payload)
        if (link.paced) link.transport.write([link.id], pong, true)
        else this.#push(link, this.#packet(pong))
        return
      }
      case 'coverAsk':
        this.#shaping.asked(link.id)
        return
      case 'pong':
        if (!link.pong(payload, now)) throw new WireError('range')
        this.#schedule(link)
    }
  }

  #forget(id: StreamId): void {
    const link = this.#links.get(id)
    if (!link) return
    this.#links.delete(id)
    this.#dirty.delete(link)
    this.#joiningBytes -= link.joiner.heldBytes
    this.#shaping.end(id)
    this.#handle({ type: 'closed', stream: id })
  }

  // ---- Core ----

  #handle(input: Input): void {
    try {
      for (const effect of this.#relay.handle(input, this.#options.now())) this.#carryOut(effect)
    } catch (error) {
      // A bug of ours: told, and the relay goes on for everybody else.
      this.#options.onError(error)
    }
  }

  #carryOut(effect: Effect): void {
    switch (effect.type) {
      case 'send':
        this.#send(effect.streams, effect.message)
        return
      case 'end':
        this.#end(effect.stream)
        return
      case 'limit': {
        const link = this.#links.get(effect.stream)
        if (link) link.joiner.limit = effect.bytes
        return
      }
      case 'shape':
        this.#shape(effect)
        return
      case 'store':
        this.#wait(
          effect.id,
          this.#store.run(effect.name, effect.request).catch((error) => this.#storeFailed(error)),
        )
        return
      case 'verify':
        this.#wait(effect.id, this.#options.verify(effect.jwt))
        return
      case 'lease':
        this.#wait(effect.id, this.#options.quota.lease(effect.account, this.#settings.leaseUnits))
        return
      case 'report':
        this.#options.onError(effect.error)
        return
      case 'settle':
        this.#wait(effect.id, this.#options.quota.settle(effect.lease, effect.spent, effect.final))
    }
  }

  #shape({ stream, traffic, cellsPerSecond }: Extract<Effect, { type: 'shape' }>): void {
    const link = this.#links.get(stream)
    if (!link) return
    if (paceOf(traffic, cellsPerSecond)) link.pace()
    // A proxy shapes what its agents get; the way to the proxy is not theirs.
    if (!link.peer.proxy) this.#shaping.begin(stream, link.transport, traffic, cellsPerSecond)
  }

  /** Whoever waits is told that it did not work; why is for the operator, and not for every request. */
  #storeFailed(error: unknown): never {
    const now = this.#options.now()
    if (now - this.#storeFailedAt > STORE_LOG_MS) this.#options.onError(error)
    this.#storeFailedAt = now
    throw error
  }

  #wait(id: number, result: Promise<unknown>): void {
    const done = (outcome: Outcome<unknown>): void => this.#handle({ type: 'done', id, outcome })
    result.then(
      (value) => done({ ok: true, value }),
      (error: unknown) => {
        const known = StaticError.from(error)
        if (known.code === 'internal_error') this.#options.onError(error)
        done({ ok: false, error: known })
      },
    )
  }

  /** Does what is due by now. */
  tick(): void {
    const now = this.#options.now()
    const { pingMs, pongMs, stallMs } = this.#settings.session
    for (const link of this.#links.values()) {
      if (link.ending) continue
      const dead = link.pingedAt !== undefined && now - link.pingedAt > pongMs
      // At one cell a second a mark takes 20 s to come back.
      const stuck = link.congested && now - link.progressAt > (link.paced ? PACED_STALL : 1) * stallMs
      const unfinished = link.joiningSince !== undefined && now - link.joiningSince > stallMs
      if (dead || stuck) this.#handle({ type: 'stalled', stream: link.id })
      else if (unfinished) this.#busy(link)
      else if (link.pingedAt === undefined && now - link.heardAt > pingMs) this.#ping(link, now)
    }
    for (const [id, { congestedSince }] of this.#exchanges) {
      if (congestedSince !== undefined && now - congestedSince > stallMs) this.#handle({ type: 'stalled', stream: id })
    }
    this.#handle({ type: 'tick' })
  }

  #sweep(): void {
    if (this.#sweeping) return
    this.#sweeping = true
    this.#store
      .run('sweep', { now: this.#options.now() })
      .catch(this.#options.onError)
      .finally(() => (this.#sweeping = false))
  }

  // ---- Out ----

  #send(streams: readonly StreamId[], message: ServerMessage): void {
    this.#options.onSend(message, streams.length)
    const packets: Partial<Record<WireForm, Packet>> = {}
    for (const id of streams) {
      const link = this.#links.get(id)
      if (link) {
        const { form } = link.peer
        packets[form] ??= this.#packet(cutEnvelope(encodeEnvelope(form, ServerMessageSchema, message)))
        if (link.timed?.requestId === message.requestId) {
          // A refusal may be quicker, and is not what cover looks like.
          if (message.body.case === 'sendMessage') this.#shaping.answered(this.#options.now() - link.timed.at)
          link.timed = undefined
        }
        this.#push(link, packets[form], message.body.case === 'sessionClosing')
      } else {
        this.#exchanges.get(id)?.write(message)
      }
    }
  }

  #packet(cells: Uint8Array): Packet {
    this.#lastPacket++
    return { id: String(this.#lastPacket), cells }
  }

  /** A number that nobody can guess: who answers it has read what came before it. */
  #mark(): Mark {
    const number = randomInt(MAX_MARK)
    return { ...this.#packet(markCell(number)), number }
  }

  #push(link: Link, packet: Packet, last = false): void {
    if (link.ending) return
    if (!link.push(packet, last)) {
      queueMicrotask(() => this.#handle({ type: 'stalled', stream: link.id }))
      return
    }
    this.#schedule(link)
    // Told at once: what else comes in this turn waits in the log.
    if (link.isFull) this.#tellRoom(link)
  }

  #ping(link: Link, now: Time): void {
    const { number, cells } = this.#mark()
    link.ping(number, now)
    if (link.paced) link.transport.write([link.id], cells, true)
    else this.#shaping.write(link.transport, [link.id], cells)
  }

  #end(id: StreamId): void {
    const link = this.#links.get(id)
    if (!link) {
      this.#exchanges.get(id)?.end()
      return
    }
    link.ending = true
    this.#schedule(link)
  }

  #schedule(link: Link): void {
    this.#dirty.add(link)
    if (this.#flushing) return
    this.#flushing = true
    // After the last microtask, so that all results of one batch of the store are in: a sender's answer and its own
    // entry leave in one unit, as cover does.
    queueMicrotask(() => process.nextTick(() => this.#flush()))
  }

  #flush(): void {
    this.#flushing = false
    const groups = new Map<string, { transport: Transport; packets: Packet[]; streams: StreamId[] }>()
    const ended: Link[] = []
    for (const link of this.#dirty) {
      const packets = link.take(() => this.#mark())
      if (packets.length > 0) {
        const key = `${link.peer.transport}${packets.map(({ id }) => id).join()}`
        const group = groups.get(key)
        if (group) group.streams.push(link.id)
        else groups.set(key, { transport: link.transport, packets, streams: [link.id] })
      }
      if (link.ending) ended.push(link)
    }
    const links = [...this.#dirty]
    this.#dirty.clear()
    for (const { transport, packets, streams } of groups.values())
      this.#shaping.write(transport, streams, joined(packets))
    for (const link of ended) {
      this.#links.delete(link.id)
      this.#joiningBytes -= link.joiner.heldBytes
      this.#shaping.end(link.id)
      link.transport.end(link.id)
    }
    for (const link of links) this.#tellRoom(link)
  }

  #tellRoom(link: Link): void {
    if (link.ending || link.congested === !link.hasRoom) return
    link.congested = !link.hasRoom
    if (link.congested) link.progressAt = this.#options.now()
    this.#handle({ type: link.congested ? 'congested' : 'drained', stream: link.id })
  }
}

function joined(packets: readonly Packet[]): Uint8Array {
  const [first] = packets
  if (first && packets.length === 1) return first.cells
  return Buffer.concat(packets.map(({ cells }) => cells))
}

/** Requests whose bytes are kept until they are answered; of the others only a few fields are. */
function holdsBody({ body }: ClientMessage): boolean {
  return HOLDING.includes(body.case)
}

const HOLDING: readonly ClientMessage['body']['case'][] = [
  'sendMessage',
  'sendCommit',
  'sendWelcome',
  'createChannel',
  'requestJoin',
]

/** About what a request that did not come in cells holds. */
function sizeOf(message: ClientMessage): number {
  return holdsBody(message) ? toBinary(ClientMessageSchema, message).length : REQUEST_BYTES
}
