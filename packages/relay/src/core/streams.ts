/** The streams that are open, and how many there may be: in all, from one address, and before their session is open. */
import type { Peer, StreamId } from '../ports.ts'
import type { Settings } from '../settings.ts'
import { addressKey } from './address.ts'
import type { Effects } from './effects.ts'
import type { StreamKind } from './io.ts'
import { Rates } from './rates.ts'
import { type Closing, closingMessage, type RefusalDetails, serverMessage } from './server-messages.ts'
import type { Stream } from './stream.ts'

interface AddressCounts {
  streams: number
  unopened: number
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

  /** `removed` is told of every stream that is over, however it ended. */
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

  /** Those whose peer has not shown who it is. */
  unopened(): Iterable<Stream> {
    return this.#unopened
  }

  /** Adds a stream. It counts, whether it is turned away or not. */
  add(id: StreamId, peer: Peer, kind: StreamKind): Stream {
    const stream: Stream = {
      id,
      peer,
      kind,
      openedAt: this.#effects.monotonic,
      address: addressKey(peer.address),
      proxyRevision: undefined,
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
    const { total, perAddress, unauthenticatedPerAddress } = this.#limits
    const { redirectPort } = stream.peer
    if (redirectPort !== undefined) {
      return { refused: 'unavailable', redirectPort, message: `This port is full: dial port ${redirectPort}.` }
    }
    if (this.#streams.size > total) return { refused: 'unavailable', retryAfterMs: 5000 }
    if (stream.peer.proxy && stream.proxyRevision === undefined) return undefined
    const counts = this.#addresses.get(stream.address) ?? { streams: 0, unopened: 0 }
    const rates = stream.kind === 'call' ? this.#calls : this.#openings
    const wait = rates.take(stream.address, this.#effects.monotonic)
    if (counts.streams > perAddress || counts.unopened > unauthenticatedPerAddress || wait > 0) {
      return { refused: 'rate_limited', retryAfterMs: Math.max(wait, 1000), message: 'Too many from this address.' }
    }
    return undefined
  }

  /** The peer has shown who it is: the stream may stay. */
  opened(stream: Stream): void {
    if (this.#unopened.delete(stream)) this.#count(stream, 0, -1)
  }

  /** The stream is a proxy's, and counts for the address of the agent behind it. */
  proxied(stream: Stream, revision: number, address: string): void {
    this.#count(stream, -1, -1)
    stream.proxyRevision = revision
    stream.address = addressKey(address)
    this.#count(stream, 1, 1)
  }

  /** Says the last word and ends the stream. */
  close(stream: Stream, closing: Closing, refusal?: RefusalDetails): void {
    const message = closingMessage(closing, refusal)
    // A unary call has one answer, whatever it says.
    const error = message.body.case === 'sessionClosing' ? message.body.value.error : undefined
    const last = stream.kind === 'call' && error ? serverMessage({ case: 'error', value: error }) : message
    this.#effects.send([stream.id], last)
    this.end(stream)
  }

  /** Ends a stream after what was sent. */
  end(stream: Stream): void {
    this.#effects.end(stream.id)
    this.remove(stream)
  }

  /** The stream is over. */
  remove(stream: Stream): void {
    if (!this.#streams.delete(stream.id)) return
    this.#count(stream, -1, this.#unopened.delete(stream) ? -1 : 0)
    this.#removed(stream)
  }

  #count({ address }: Stream, streams: number, unopened: number): void {
    const counts = this.#addresses.get(address) ?? { streams: 0, unopened: 0 }
    counts.streams += streams
    counts.unopened += unopened
    if (counts.streams > 0) this.#addresses.set(address, counts)
    else this.#addresses.delete(address)
  }
}
