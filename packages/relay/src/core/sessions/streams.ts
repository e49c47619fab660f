/**
 * The open streams and their limits: in total, at a QUIC endpoint, per address, and without a session. Streams of
 * agents not yet authenticated have places of their own, so that agents of accounts can authenticate even if guests
 * have taken all that they may.
 */
import { addressKey, Holdings, networkLimit, networkOf, Shares, sourceOf } from '@static/protocol'
import type { Peer, StreamId } from '../../ports.ts'
import type { Settings } from '../../settings.ts'
import type { Effects } from '../effects.ts'
import type { StreamKind } from '../io.ts'
import { excessRefusal, guestRefusal, redirectRefusal, type StreamLimit } from './limits.ts'
import { Rates, takeFor } from '../requests/rates.ts'
import { wrong } from '../requests/request-fields.ts'
import { type Closing, closingMessage, type RefusalDetails, serverMessage } from '../server-messages.ts'
import type { Stream } from './stream.ts'

/** The share of all places that guests can take at most. */
const GUESTS_SHARE = 0.75
/** Places for streams of agents not yet authenticated: as a share of all, and the minimum. */
const UNKNOWN_SHARE = 0.125
const LEAST_UNKNOWN = 16

interface AddressCounts {
  streams: number
  unopened: number
}

/** What a proxy states about a stream. */
export interface Proxied {
  readonly revision: number
  /** The agent's. */
  readonly address: string
  /** Whether it is for a single call. */
  readonly call: boolean
}

export class Streams {
  readonly #effects: Effects
  readonly #limits: Settings['streams']
  readonly #removed: (stream: Stream) => void
  readonly #streams = new Map<StreamId, Stream>()
  readonly #unopened = new Set<Stream>()
  /** Streams of agents not yet authenticated, including calls, by source. */
  readonly #unknown = new Holdings<Stream>()
  readonly #mostUnknown: number
  /** Streams of authenticated agents. */
  readonly #places: Shares<Stream>
  /** The same at each QUIC endpoint, by port. */
  readonly #endpoints = new Map<number, Shares<Stream>>()
  readonly #addresses = new Map<string, AddressCounts>()
  readonly #openings: Rates
  readonly #calls: Rates

  /** `removed` is called for every stream that has ended, for whatever reason. */
  constructor(effects: Effects, limits: Settings['streams'], removed: (stream: Stream) => void) {
    this.#effects = effects
    this.#limits = limits
    this.#removed = removed
    this.#mostUnknown = Math.max(LEAST_UNKNOWN, Math.floor(limits.total * UNKNOWN_SHARE))
    this.#places = sharesOf(limits.total)
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
    // A proxy's stream counts for its agent, which its hello names.
    if (!peer.proxy) this.#unknown.add(stream, sourceOf(stream.address))
    return stream
  }

  /** Why there is no room for a stream, from its address or in total. A proxy's streams count for its agents. */
  refusal(stream: Stream): RefusalDetails | undefined {
    const { full } = stream.peer
    if (full) return excessRefusal(full.limit, full.value)
    if (stream.peer.proxy && stream.proxyRevision === undefined) return undefined
    const isCall = stream.kind === 'call'
    const wait = takeFor(isCall ? this.#calls : this.#openings, stream.address, this.#effects.monotonic)
    const crowd = this.#crowd(stream.address)
    if (crowd) return this.#beyond(stream, crowd)
    if (wait > 0) return this.#beyond(stream, isCall ? 'callsPerSecond' : 'openingsPerSecond', wait)
    const redirect = this.#redirect(stream)
    if (!redirect) this.#boundUnknown()
    return redirect
  }

  /**
   * Whether there is a place for the stream of an authenticated agent, of an account or a guest, even if others must
   * give way; none does so yet. Closes the stream if there is none.
   */
  admits(stream: Stream, account: string | undefined): boolean {
    if (!this.#unknown.has(stream)) return true
    const redirect = this.#redirect(stream)
    if (redirect) return this.#refuse(stream, redirect, 'full')
    const claimant = { account, source: sourceOf(stream.address) }
    const isRoomHere = this.#endpointOf(stream)?.hasRoomFor(claimant) ?? true
    if (isRoomHere && this.#places.hasRoomFor(claimant)) return true
    const limit = isRoomHere ? 'total' : 'quicPerEndpoint'
    const refusal = this.#beyond(stream, limit)
    const own = account === undefined ? guestRefusal(limit) : refusal
    return this.#refuse(stream, own, isRoomHere ? 'busy' : 'full')
  }

  /** Gives an admitted stream its place, even if others were closed since. Others may lose theirs to it. */
  enter(stream: Stream, account: string | undefined): void {
    if (!this.#unknown.remove(stream)) return
    const claimant = { account, source: sourceOf(stream.address) }
    const here = this.#endpointOf(stream)?.take(stream, claimant)
    for (const other of here?.ousted ?? []) this.#oust(other, 'quicPerEndpoint')
    for (const other of this.#places.take(stream, claimant).ousted) this.#oust(other, 'total')
    if (this.#unopened.delete(stream)) this.#count(stream, 0, -1)
  }

  /** Called when a request came on a stream: others of its account or address then give way first. */
  used(stream: Stream): void {
    this.#places.touch(stream)
    this.#endpointOf(stream)?.touch(stream)
  }

  /**
   * Counts a stream from a proxy towards the address of the agent behind it. A call also counts as unopened until its
   * token is verified: unlike a direct call, it does not end by itself.
   */
  proxied(stream: Stream, { revision, address, call }: Proxied): void {
    this.#count(stream, -1, -1)
    if (call) stream.kind = 'call'
    stream.proxyRevision = revision
    stream.address = addressKey(address)
    this.#count(stream, 1, 1)
    this.#unknown.add(stream, sourceOf(stream.address))
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
    this.#unknown.remove(stream)
    this.#places.leave(stream)
    this.#endpointOf(stream)?.leave(stream)
    this.#removed(stream)
  }

  /** If the stream's QUIC endpoint is full, and another one is not: the port of the emptiest. */
  #redirect({ peer }: Stream): RefusalDetails | undefined {
    const { endpoint } = peer
    if (!endpoint || peer.proxy || !this.#endpoint(endpoint.port).isFull) return undefined
    const held = (port: number): number => this.#endpoint(port).total
    const emptiest = endpoint.ports.reduce((best, port) => (held(port) < held(best) ? port : best), endpoint.port)
    if (this.#endpoint(emptiest).isFull) return undefined
    return redirectRefusal(this.#limits.quicPerEndpoint, emptiest)
  }

  /** The places of the QUIC endpoint that a stream came to. A proxy's agents share its connection. */
  #endpointOf({ peer }: Stream): Shares<Stream> | undefined {
    return peer.endpoint && !peer.proxy ? this.#endpoint(peer.endpoint.port) : undefined
  }

  #endpoint(port: number): Shares<Stream> {
    const known = this.#endpoints.get(port)
    if (known) return known
    const made = sharesOf<Stream>(this.#limits.quicPerEndpoint)
    this.#endpoints.set(port, made)
    return made
  }

  /** Among streams of agents not yet authenticated, the oldest of the source with the most gives way. */
  #boundUnknown(): void {
    if (this.#unknown.total <= this.#mostUnknown) return
    const oldest = this.#unknown.first()
    if (oldest) this.#oust(oldest, 'total')
  }

  #oust(stream: Stream, limit: 'total' | 'quicPerEndpoint'): void {
    const refusal = this.#beyond(stream, limit)
    const isGuest = stream.session && !stream.session.account
    this.close(stream, limit === 'total' ? 'busy' : 'full', isGuest ? guestRefusal(limit) : refusal)
  }

  #refuse(stream: Stream, refusal: RefusalDetails, closing: Closing): false {
    this.close(stream, closing, refusal)
    return false
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

function sharesOf<Item>(capacity: number): Shares<Item> {
  return new Shares(capacity, Math.max(1, Math.floor(capacity * GUESTS_SHARE)))
}
