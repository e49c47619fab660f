/** Limits of connections, so that no small client can stall the port. */
import type { ServerResponse } from 'node:http'
import { constants, type Http2Session, type SecureServerOptions, type ServerHttp2Session } from 'node:http2'
import type { Socket } from 'node:net'
import { subjectOf } from '@static/node/address'
import { Balancers } from '@static/node/balancers'
import { Pace } from '@static/node/pace'
import { Connected, networkLimit, networkOf } from '@static/protocol'
import type { FullTransport } from '../../ports.ts'
import { RESET_WINDOW_MS, Resets } from './resets.ts'
import { wasCutOff } from './responses.ts'
import { Streak } from './streak.ts'

/** The limits of a port. Times are in milliseconds. */
export interface Http2Limits {
  /** Connections in total, and from one address (IPv6: one /64). */
  readonly connections: number
  readonly connectionsPerAddress: number
  /** Concurrent streams on one connection. */
  readonly streams: number
  /** Resets within 10 s on one connection and on all of one address, without calls that the relay cuts off itself. */
  readonly resets: number
  readonly resetsPerAddress: number
  /** Timeout for a TLS handshake, the headers of an HTTP/1.1 request, and the first settings of HTTP/2. */
  readonly headersMs: number
  /** Timeout for the body of a unary call, and for reading its response. */
  readonly bodyMs: number
  /** How long a connection without a stream is kept. */
  readonly idleMs: number
  /** Time in which a stream must close after its end was sent, and all of them when the port stops. */
  readonly closeMs: number
  /** Bytes that may wait for the reader of one stream. */
  readonly unsentBytes: number
  /** Bytes of calls held at once, in total and for one address (`CallBudget`). */
  readonly bodyBytes: number
  readonly bodyBytesPerAddress: number
}

export const HTTP2_LIMITS: Http2Limits = {
  connections: 20_000,
  connectionsPerAddress: 1_000,
  streams: 128,
  resets: 200,
  resetsPerAddress: 1_000,
  headersMs: 10_000,
  bodyMs: 30_000,
  idleMs: 60_000,
  closeMs: 5_000,
  unsentBytes: 8 * 1024 * 1024,
  bodyBytes: 128 * 1024 * 1024,
  bodyBytesPerAddress: 32 * 1024 * 1024,
}

/** Why a connection was dropped. */
export type CutReason = 'resets' | 'pipelining'

/** Receives reports about connections that exceed a limit. */
export interface ConnectionLog {
  /** A connection was dropped because its peer exceeded a limit of one connection. */
  readonly cut: (address: string, reason: CutReason) => void
  /** A connection exceeds a limit. */
  readonly full: (address: string, full: FullTransport) => void
}

/** Number of connections beyond a limit that may wait for their refusal: a share of the limit, but always a few. */
const REFUSED_SHARE = 0.1
const LEAST_REFUSED = 8

/**
 * A slowed address may begin one handshake per this many milliseconds, and has a limited number of connections waiting
 * for theirs.
 */
export const SLOW_MS = 200
const MOST_WAITING = 100

const MAX_HEADER_BYTES = 16 * 1024
const TCP_KEEP_ALIVE_MS = 60_000
/** Unanswered requests allowed on one HTTP/1.1 connection: Node keeps reading while responses are pending. */
const MOST_PIPELINED = 16

/** The limits that Node enforces itself. */
export function serverOptions(limits: Http2Limits): SecureServerOptions {
  const http1: object = {
    headersTimeout: Math.min(limits.headersMs, limits.bodyMs),
    requestTimeout: limits.bodyMs,
    connectionsCheckingInterval: Math.min(1_000, limits.headersMs),
    keepAliveTimeout: limits.idleMs,
    maxHeaderSize: MAX_HEADER_BYTES,
  }
  return {
    ...http1,
    allowHTTP1: true,
    handshakeTimeout: limits.headersMs,
    unknownProtocolTimeout: limits.headersMs,
    settings: { maxConcurrentStreams: limits.streams, maxHeaderListSize: MAX_HEADER_BYTES, enablePush: false },
    maxHeaderListPairs: 64,
    // In megabytes: what Node itself may hold for one connection.
    maxSessionMemory: 16,
    // Counted within the library, before it creates anything for the streams; `watch` counts after that.
    streamResetBurst: limits.resets,
    streamResetRate: Math.ceil((limits.resets * 1000) / RESET_WINDOW_MS),
    maxSessionInvalidFrames: 100,
    maxSessionRejectedStreams: 100,
  }
}

export class Connections {
  readonly #limits: Http2Limits
  readonly #log: ConnectionLog
  readonly #balancers: Balancers
  readonly #sockets = new Map<string, Socket>()
  readonly #sessions = new Set<ServerHttp2Session>()
  readonly #served = new Tally()
  readonly #places: Connected<Socket>
  /** Connections beyond a limit, by name: they are only served a refusal. */
  readonly #refused = new Map<string, FullTransport>()
  readonly #refusals = new Tally()
  readonly #unanswered = new WeakMap<Socket, number>()
  readonly #resets: Resets
  readonly #pace = new Pace(SLOW_MS, MOST_WAITING)

  constructor(limits: Http2Limits, log: ConnectionLog, balancers: Balancers = new Balancers()) {
    this.#limits = limits
    this.#balancers = balancers
    this.#places = new Connected(limits.connections)
    this.#resets = new Resets(limits.resetsPerAddress)
    this.#log = log
  }

  /**
   * Counts a connection before its handshake, and returns its address as limits count it. Beyond a limit, a connection
   * stays just long enough to get an answer; if too many wait for theirs, it is dropped. A slowed address waits for its
   * turn.
   */
  admit(socket: Socket): string | undefined | Promise<string | undefined> {
    const client = this.#balancers.clientOf(socket)
    if (typeof client === 'string') return this.#admit(socket, client)
    return client.then((address) => (address === undefined ? undefined : this.#admit(socket, address)))
  }

  #admit(socket: Socket, address: string): string | undefined | Promise<string | undefined> {
    const subject = subjectOf(address)
    const full = this.#crowded(this.#served, subject, (limit) => limit) ?? this.#placeless(socket, subject)
    if (full) this.#log.full(address, full)
    if (full && this.#tooManyRefused(subject)) {
      socket.destroy()
      return undefined
    }
    // The kernel detects a peer that vanished.
    socket.setKeepAlive(true, TCP_KEEP_ALIVE_MS)
    const name = nameOf(socket)
    const tally = full ? this.#refusals : this.#served
    this.#sockets.set(name, socket)
    tally.add(subject, 1)
    if (full) this.#refused.set(name, full)
    else this.#refused.delete(name)
    const late = full && setTimeout(() => socket.destroy(), this.#limits.headersMs)
    socket.once('close', () => {
      clearTimeout(late)
      this.#places.leave(socket)
      tally.add(subject, -1)
      // A later connection from the same port may have arrived before this one's end was read.
      if (this.#sockets.get(name) !== socket) return
      this.#sockets.delete(name)
      this.#refused.delete(name)
    })
    const slowed = this.#resets.slowed(subject, performance.now())
    return slowed === undefined ? subject : this.#wait(socket, subject, slowed)
  }

  /** Waits for the turn of a slowed address: the handshake is the most expensive part. */
  async #wait(socket: Socket, subject: string, slowed: string): Promise<string | undefined> {
    if (await this.#pace.turn(slowed, () => socket.destroyed)) return subject
    if (socket.destroyed) return undefined
    this.#log.cut(this.#balancers.addressOf(socket), 'resets')
    socket.destroy()
    return undefined
  }

  /** The limit that a request's connection exceeds: the request must be refused. */
  fullFor(socket: Socket): FullTransport | undefined {
    return this.#refused.size === 0 ? undefined : this.#refused.get(nameOf(socket))
  }

  /** Enforces the limits of an HTTP/2 connection. */
  watch(session: ServerHttp2Session): void {
    const address = this.#balancers.addressOf(session.socket)
    const subject = subjectOf(address)
    const socket = this.#sockets.get(nameOf(session.socket))
    this.#sessions.add(session)
    const isRefused = this.fullFor(session.socket) !== undefined
    let streams = 0
    const expectSettings = setTimeout(() => session.destroy(), this.#limits.headersMs)
    const idle = setTimeout(() => {
      // Restarted when the last stream ends.
      if (streams > 0) return
      leave(session)
      // A peer that does not read would not see the GOAWAY either.
      const late = setTimeout(() => socket?.destroy(), this.#limits.closeMs)
      session.once('close', () => clearTimeout(late))
    }, this.#limits.idleMs)
    const streak = new Streak(this.#limits, this.#resets, subject)
    session.once('remoteSettings', () => clearTimeout(expectSettings))
    session.on('stream', (stream) => {
      streams++
      if (socket) this.#places.busy(socket)
      const check = (isOver: boolean): void => {
        if (!isOver || session.destroyed) return
        this.#log.cut(address, 'resets')
        session.destroy(undefined, constants.NGHTTP2_ENHANCE_YOUR_CALM)
      }
      // One read can bring thousands of streams that are reset at once: the first to exceed the limit end the rest.
      check(streak.opened(performance.now()))
      stream.once('close', () => {
        streams--
        if (isRefused) leave(session)
        if (streams === 0) idle.refresh()
        if (streams === 0 && socket) this.#places.idle(socket)
        // It may have been cut off because others use up the memory, which must slow no one. It stays unfinished, so
        // that a flood of such streams also ends.
        if (session.destroyed || wasCutOff(stream)) return
        check(streak.closed(stream.rstCode, performance.now()))
      })
    })
    session.once('close', () => {
      this.#sessions.delete(session)
      clearTimeout(expectSettings)
      clearTimeout(idle)
    })
  }

  /** Counts an HTTP/1.1 request. Drops the connection and returns false if too many are unanswered. */
  admitPipelined(socket: Socket, response: ServerResponse): boolean {
    const count = (this.#unanswered.get(socket) ?? 0) + 1
    if (count > MOST_PIPELINED) {
      // Data already read may contain more requests, which also end up here.
      if (!socket.destroyed) this.#log.cut(this.#balancers.addressOf(socket), 'pipelining')
      socket.destroy()
      return false
    }
    this.#unanswered.set(socket, count)
    if (this.fullFor(socket)) response.shouldKeepAlive = false
    const own = this.#sockets.get(nameOf(socket))
    if (own) this.#places.busy(own)
    response.once('close', () => {
      const left = (this.#unanswered.get(socket) ?? 1) - 1
      this.#unanswered.set(socket, left)
      if (left === 0 && own) this.#places.idle(own)
    })
    return true
  }

  /** The limit that one more connection of this address would exceed. `most` turns a limit into the most of a tally. */
  #crowded(tally: Tally, subject: string, most: (limit: number) => number): FullTransport | undefined {
    const { connections, connectionsPerAddress } = this.#limits
    const network = networkOf(subject)
    const isCrowded =
      network !== undefined && tally.of(network) >= most(networkLimit(connectionsPerAddress, connections))
    if (!isCrowded && tally.of(subject) < most(connectionsPerAddress)) return undefined
    return { limit: 'connectionsPerAddress', value: connectionsPerAddress }
  }

  /** Takes a place for a connection, which may cost another one its place; returns the limit if there is none. */
  #placeless(socket: Socket, subject: string): FullTransport | undefined {
    const { taken, ousted } = this.#places.take(socket, subject)
    for (const other of ousted) other.destroy()
    return taken ? undefined : { limit: 'connections', value: this.#limits.connections }
  }

  #tooManyRefused(subject: string): boolean {
    const isFull = this.#refusals.total >= refusedAtOnce(this.#limits.connections)
    return isFull || this.#crowded(this.#refusals, subject, refusedAtOnce) !== undefined
  }

  /** Notifies every peer that no new streams are accepted. Connections close with their last stream. */
  leave(): void {
    for (const session of this.#sessions) leave(session)
  }

  /** Drops every connection. */
  destroy(): void {
    for (const session of this.#sessions) session.destroy()
    for (const socket of this.#sockets.values()) socket.destroy()
  }
}

function refusedAtOnce(limit: number): number {
  return Math.max(LEAST_REFUSED, Math.ceil(limit * REFUSED_SHARE))
}

/** Counts connections, in total, by address and by /48. */
class Tally {
  total = 0
  readonly #counts = new Map<string, number>()

  of(subject: string): number {
    return this.#counts.get(subject) ?? 0
  }

  add(subject: string, change: number): void {
    this.total += change
    for (const key of [subject, networkOf(subject)]) {
      if (key === undefined) return
      const count = this.of(key) + change
      if (count === 0) this.#counts.delete(key)
      else this.#counts.set(key, count)
    }
  }
}

/** The library hides the socket of a session; this key finds the underlying one. */
function nameOf({ remoteAddress, remotePort, localAddress }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress}`
}

function leave(session: Http2Session): void {
  if (!session.closed && !session.destroyed) session.close()
}
