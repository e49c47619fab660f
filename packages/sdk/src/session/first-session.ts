/** The first session: decides when to give up on it, and with which error. */
import { AuthError, StaticError } from '@static/protocol'
import type { Failure, FailureRule } from './failure.ts'
import type { Way } from './io.ts'

const MIN_DIALS = 2
const MAX_TOKEN_FAILURES = 3

/** Counts the failures before the first session. */
export class FirstSession {
  readonly #hasFallback: boolean
  readonly #addresses: number
  readonly #dials = { quic: 0, grpc: 0 }
  #quicError: StaticError | undefined
  #untrusted: StaticError | undefined
  #tokenFailures = 0

  /** Each of the `addresses` is tried before giving up. */
  constructor(hasFallback: boolean, addresses: number) {
    this.#hasFallback = hasFallback
    this.#addresses = addresses
  }

  /** Records a failed dial. Returns the error to give up with, if it is time to. */
  failed(way: Way, { kind, error }: Failure, { final }: Pick<FailureRule, 'final'>): StaticError | undefined {
    if (final) return error
    if (kind === 'certificate' || kind === 'untrusted') this.#untrusted ??= error
    this.#dials[way]++
    const { quic, grpc } = this.#dials
    if (way === 'quic') this.#quicError = error
    const addresses = this.#addresses
    const over = this.#hasFallback ? grpc >= addresses : quic + grpc >= Math.max(MIN_DIALS, addresses)
    // No caller waits for more dials than these.
    if (!over && quic + grpc < MIN_DIALS + addresses) return undefined
    // A peer that answers in the relay's place is the most important reason to report, and the one to look into.
    if (this.#untrusted) return this.#untrusted
    if (way === 'quic' || !this.#quicError || kind !== 'unreachable') return error
    const message = `${this.#quicError.message} The gRPC fallback also failed: ${error.message}`
    return StaticError.of('connection_error', message, { cause: error })
  }

  /** Records a failed token request. Returns the error to give up with, if it is time to. */
  tokenFailed(error: StaticError): StaticError | undefined {
    this.#tokenFailures++
    return error instanceof AuthError || this.#tokenFailures >= MAX_TOKEN_FAILURES ? error : undefined
  }
}
