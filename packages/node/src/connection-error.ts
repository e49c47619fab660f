/** Why a connection did not come about or was lost. Programs decide by the reason; the message is for people. */
import { TransportError } from '@static/protocol'

/** What went wrong, as far as a program needs to know. */
export type ConnectionFailure =
  /** The name has no address. */
  | 'no_address'
  /** The machine is there, and nobody listens on the port. */
  | 'refused'
  /** There is no way to the machine. */
  | 'unreachable'
  /** No answer. */
  | 'timed_out'
  /** Somebody answered whose certificate is not to be trusted. */
  | 'untrusted_certificate'
  /** The authority to trust cannot be read, so nobody can be trusted. */
  | 'unreadable_authority'
  /** Somebody answered who speaks something else. */
  | 'wrong_protocol'
  /** The other side, or the network, ended the connection. */
  | 'closed'
  /** This machine or thread cannot dial that way. */
  | 'unusable'

/** A `connection_error` with its reason. */
export class ConnectionError extends TransportError {
  // Not a field: applications see the code and the message.
  readonly #reason: ConnectionFailure

  constructor(reason: ConnectionFailure, message: string, cause?: unknown) {
    super('connection_error', message, cause === undefined ? {} : { cause })
    this.#reason = reason
  }

  get reason(): ConnectionFailure {
    return this.#reason
  }
}
