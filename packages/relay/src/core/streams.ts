/** The open streams and their limits: in total, per address, and without a session. */
import { addressKey, networkLimit, networkOf } from '@static/protocol'
import type { Peer, StreamId } from '../ports.ts'
import type { Settings } from '../settings.ts'
import type { Effects } from './effects.ts'
import type { StreamKind } from './io.ts'
import { excessRefusal, redirectRefusal, type StreamLimit } from './limits.ts'
import { Rates, takeFor } from './rates.ts'
import { wrong } from './request-fields.ts'
import { type Closing, closingMessage, type RefusalDetails, serverMessage } from './server-messages.ts'
import type { Stream } from './stream.ts'

interface AddressCounts {
  streams: number
  unopened: number
}

/** What a proxy says about a stream. */
export interface Proxied {
  readonly revision: number
  /** The agent's. */
  readonly address: string
  /** Whether it is for a single call. */
  readonly call: boolean
}

/** The streams of one node. */
export class Streams {
  readonly #effects: Effects
  readonly #limits: Settings['streams']
  readonly #removed: (stream: Stream) => void
  readonly #streams = new Map<StreamId, Stream>()
  readonly #unopened = new Set<Stream>()
  readonly #addresses = new Map<string, AddressCounts>()
  readonly #openings: Rates
  readonly #calls: Rates

  /** `removed` is called for every stream that has ended, for whatever reason. */
  constructor(effects: Effects, limits: Settings['streams'], removed: (stream: Stream) => void) {
    this.#effects = effects
    this.#limits = limits
    this.#removed = removed
    this.#openings = new Rates(limits.openingsPerSecond, limits.openingsBurst)
    this.#calls = new Rates(limits.callsPerSecond, limits.callsBurst)
  }

  get size(): number {
    return this.#streams.size
  }

  get(id: StreamId): Stream | undefined {
    return this.#streams.get(id)
  }

  /** Whether a stream is still open. */
  has({ id }: Stream): boolean {
    return this.#streams.has(id)
  }

  all(): Iterable<Stream> {
    return this.#streams.values()
  }

  /** Streams whose peer is not authenticated. */
  unopened(): Iterable<Stream> {
    return this.#unopened
  }

  /** Adds a stream. It counts towards the limits even if it is then refused. */
  add(id: StreamId, peer: Peer, kind: StreamKind): Stream {
    const stream: Stream = {
      id,
      peer,
      kind,
      openedAt: this.#effects.monotonic,
      address: addressKey(peer.address),
      proxyRevision: undefined,
      called: false,
      challenge: undefined,
      opening: false,
      session: undefined,
      congested: false,
      requests: 0,
      requestBytes: 0,
    }
    this.#streams.set(id, stream)
    if (kind !== 'call') this.#unopened.add(stream)
    this.#count(stream, 1, kind === 'call' ? 0 : 1)
    return stream
  }

  /** Why there is no room for a stream, from its address or at all. A proxy's streams count for its agents. */
  refusal(stream: Stream): RefusalDetails | undefined {
    const { full } = stream.peer
    if (full?.redirectPort !== undefined) return redirectRefusal(full.value, full.redirectPort)
    if (full) return excessRefusal(full.limit, full.value)
    if (this.#streams.size > this.#limits.total) return this.#beyond(stream, 'total')
    if (stream.peer.proxy && stream.proxyRevision === undefined) return undefined
    const isCall = stream.kind === 'call'
    const wait = takeFor(isCall ? this.#calls : this.#openings, stream.address, this.#effects.monotonic)
    const crowd = this.#crowd(stream.address)
    if (crowd) return this.#beyond(stream, crowd)
    if (wait === 0) return undefined
    const rate = isCall ? 'callsPerSecond' : 'openingsPerSecond'
    return this.#beyond(stream, rate, wait)
  }

  /** The peer is authenticated: the stream may stay open. */
  opened(stream: Stream): void {
    if (this.#unopened.delete(stream)) this.#count(stream, 0, -1)
  }

  /**
   * The stream comes from a proxy and counts towards the address of the agent behind it. A call counts as unopened, too,
   * until its token is verified: unlike a direct one, it does not end by itself.
   */
  proxied(stream: Stream, { revision, address, call }: Proxied): void {
    this.#count(stream, -1, -1)
    if (call) stream.kind = 'call'
    stream.proxyRevision = revision
    stream.address = addressKey(address)
    this.#count(stream, 1, 1)
  }

  /** Throws at the second request of a call that came through a proxy: the stream counts as one call. */
  checkRequest(stream: Stream): void {
    if (stream.kind !== 'call' || stream.proxyRevision === undefined) return
    if (stream.called) throw wrong('A stream for a call carries one request. Open another stream for the next call')
    stream.called = true
  }

  /** Sends a closing message and ends the stream. */
  close(stream: Stream, closing: Closing, refusal?: RefusalDetails): void {
    const message = closingMessage(closing, refusal)
    // A unary call gets exactly one response, so its error is sent as the response.
    const error = message.body.case === 'sessionClosing' ? message.body.value.error : undefined
    const last = stream.kind === 'call' && error ? serverMessage({ case: 'error', value: error }) : message
    this.#effects.send([stream.id], last)
    this.end(stream)
  }

  /** Ends a stream once everything sent to it has gone out. */
  end(stream: Stream): void {
    this.#effects.end(stream.id)
    this.remove(stream)
  }

  /** Removes a stream that has ended. */
  remove(stream: Stream): void {
    if (!this.#streams.delete(stream.id)) return
    this.#count(stream, -1, this.#unopened.delete(stream) ? -1 : 0)
    this.#removed(stream)
  }

  /** The limit that the open streams of an address, or of its /48, exceed. */
  #crowd(address: string): 'perAddress' | 'unauthenticatedPerAddress' | undefined {
    const { total, perAddress, unauthenticatedPerAddress } = this.#limits
    const none = { streams: 0, unopened: 0 }
    const own = this.#addresses.get(address) ?? none
    const all = this.#addresses.get(networkOf(address) ?? '') ?? none
    if (own.streams > perAddress || all.streams > networkLimit(perAddress, total)) return 'perAddress'
    const isFull =
      own.unopened > unauthenticatedPerAddress || all.unopened > networkLimit(unauthenticatedPerAddress, total)
    return isFull ? 'unauthenticatedPerAddress' : undefined
  }

  #beyond({ address }: Stream, limit: StreamLimit, waitMs = 0): RefusalDetails {
    const value = this.#limits[limit]
    this.#effects.excess({ limit, value, address })
    return excessRefusal(limit, value, waitMs)
  }

  #count({ address }: Stream, streams: number, unopened: number): void {
    for (const key of [address, networkOf(address)]) {
      if (key === undefined) return
      const counts = this.#addresses.get(key) ?? { streams: 0, unopened: 0 }
      counts.streams += streams
      counts.unopened += unopened
      if (counts.streams > 0) this.#addresses.set(key, counts)
      else this.#addresses.delete(key)
    }
  }
}
