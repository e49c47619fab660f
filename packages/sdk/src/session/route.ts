/**
 * Which way to dial next. An agent whose QUIC does not get through takes gRPC on the same host, stays with it as long as
 * it works, and looks now and then whether QUIC does again.
 */
import type { Time } from '../ports.ts'
import type { Way } from './io.ts'

/** So many QUIC dials in a row must fail. */
const QUIC_DIALS = 2
const PROBE_MS = { first: 60_000, max: 600_000 } as const

/** The ways of one endpoint. */
export class Route {
  readonly #preferred: Way
  readonly #fallback: boolean
  #way: Way
  #quicFailures = 0
  #probeMs: number = PROBE_MS.first
  /** When to look whether QUIC works again. */
  probeAt: Time = Infinity

  constructor(preferred: Way, fallback: boolean) {
    this.#preferred = preferred
    this.#way = preferred
    this.#fallback = fallback && preferred === 'quic'
  }

  /** The way of the next dial. */
  get next(): Way {
    return this.#way
  }

  /** Whether failed dials lead to another way. */
  get hasFallback(): boolean {
    return this.#fallback
  }

  /** A dial did not get through. That QUIC does not, while gRPC is the way, is known. */
  unreachable(way: Way): void {
    if (!this.#fallback || way !== this.#way) return
    this.#quicFailures = way === 'quic' ? this.#quicFailures + 1 : 0
    this.#way = this.#quicFailures >= QUIC_DIALS ? 'grpc' : 'quic'
  }

  opened(way: Way, now: Time): void {
    this.#way = way
    this.#quicFailures = 0
    if (way === this.#preferred) this.#probeMs = PROBE_MS.first
    this.probeAt = way === this.#preferred ? Infinity : now + this.#probeMs
  }

  /** The session is over, or a probe is under way: no probe for now. */
  stopProbing(): void {
    this.probeAt = Infinity
  }

  /** QUIC still does not get through. */
  probeFailed(now: Time): void {
    this.#probeMs = Math.min(PROBE_MS.max, this.#probeMs * 2)
    this.probeAt = now + this.#probeMs
  }
}
