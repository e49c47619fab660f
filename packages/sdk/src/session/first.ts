/** The first session: decides when to give up on it, and with which error. */
import { AuthError, StaticError } from '@static/protocol'
import { type Failure, FAILURES } from './failure.ts'
import type { Way } from './io.ts'

const DIALS = 2
/** No caller waits for more dials than this. */
const MAX_DIALS = 3
const MAX_TOKEN_FAILURES = 3

/** Counts the failures before the first session. */
export class FirstSession {
  readonly #hasFallback: boolean
  readonly #dials = { quic: 0, grpc: 0 }
  #quicError: StaticError | undefined
  #tokenFailures = 0

  constructor(hasFallback: boolean) {
    this.#hasFallback = hasFallback
  }

  /** Records a failed dial. Returns the error to give up with, if it is time to. */
  failed(way: Way, { kind, error }: Failure): StaticError | undefined {
    if (FAILURES[kind].final) return error
    this.#dials[way]++
    const { quic, grpc } = this.#dials
    if (way === 'quic') this.#quicError = error
    const over = this.#hasFallback ? grpc > 0 : quic + grpc >= DIALS
    if (!over && quic + grpc < MAX_DIALS) return undefined
    if (way === 'quic' || !this.#quicError || kind !== 'unreachable') return error
    const message = `${this.#quicError.message} The gRPC fallback failed, too: ${error.message}`
    return StaticError.of('connection_error', message, { cause: error })
  }

  /** Records a failed token request. Returns the error to give up with, if it is time to. */
  tokenFailed(error: StaticError): StaticError | undefined {
    this.#tokenFailures++
    return error instanceof AuthError || this.#tokenFailures >= MAX_TOKEN_FAILURES ? error : undefined
  }
}
