/**
 * Chooses the transport of the next dial. An agent that cannot connect by QUIC uses gRPC on the same host, keeps it
 * while it works, and probes from time to time whether QUIC works again.
 */
import type { Time } from '../ports/index.ts'
import type { Way } from './io.ts'

/** Number of consecutive QUIC dials that must fail before gRPC is used. */
const QUIC_DIALS = 2
const PROBE_MS = { first: 60_000, max: 600_000 } as const

/** The transports of one endpoint. */
export class Route {
  #preferred: Way
  #fallback: boolean
  readonly #addresses: number
  #way: Way
  #quicFailures = 0
  #grpcFailures = 0
  #probeMs: number = PROBE_MS.first
  /** When to probe QUIC again. */
  probeAt: Time = Infinity

  constructor(preferred: Way, fallback: boolean, addresses: number) {
    this.#addresses = addresses
    this.#preferred = preferred
    this.#way = preferred
    this.#fallback = fallback && preferred === 'quic'
  }

  /** The transport of the next dial. */
  get next(): Way {
    return this.#way
  }

  /** Whether failed dials lead to another transport. */
  get hasFallback(): boolean {
    return this.#fallback
  }

  /** Records a dial that could not connect. While gRPC is in use, failures of QUIC change nothing. */
  unreachable(way: Way): void {
    if (!this.#fallback || way !== this.#way) return
    if (way === 'quic') this.#quicFailures++
    else this.#grpcFailures++
    // Every address is tried over gRPC before the next attempt with QUIC.
    if (this.#grpcFailures >= this.#addresses) this.#forget()
    this.#way = this.#quicFailures >= QUIC_DIALS ? 'grpc' : 'quic'
  }

  /** QUIC can never work in this process: from now on gRPC is the only transport, without a wait or a probe. */
  unusable(): void {
    this.#preferred = 'grpc'
    this.#fallback = false
    this.#way = 'grpc'
  }

  opened(way: Way, now: Time): void {
    this.#way = way
    this.#forget()
    if (way === this.#preferred) this.#probeMs = PROBE_MS.first
    this.probeAt = way === this.#preferred ? Infinity : now + this.#probeMs
  }

  #forget(): void {
    this.#quicFailures = 0
    this.#grpcFailures = 0
  }

  /** Cancels probing: the session is over, or a probe is in progress. */
  stopProbing(): void {
    this.probeAt = Infinity
  }

  /** Schedules the next probe: QUIC still cannot connect. */
  probeFailed(now: Time): void {
    this.#probeMs = Math.min(PROBE_MS.max, this.#probeMs * 2)
    this.probeAt = now + this.#probeMs
  }
}
