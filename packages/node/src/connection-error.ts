/** Why a connection failed or was lost. Programs decide by the reason; the message is for people. */
import { TransportError } from '@static/protocol'

/** The reason, in the detail that programs need. */
export type ConnectionFailure =
  /** The host name cannot be resolved. */
  | 'no_address'
  /** The machine responds, but nothing is listening on the port. */
  | 'refused'
  /** There is no route to the machine. */
  | 'unreachable'
  /** No response in time. */
  | 'timed_out'
  /** The server's certificate is not trusted. */
  | 'untrusted_certificate'
  /** The CA certificate cannot be read, so no server can be trusted. */
  | 'unreadable_authority'
  /** The server speaks another protocol. */
  | 'wrong_protocol'
  /** The other side, or the network, ended the connection. */
  | 'closed'
  /** The connection is open and has as many streams as the other side allows. */
  | 'no_stream'
  /** This machine or thread cannot use the transport. */
  | 'unusable'

/** A `connection_error` with its reason. */
export class ConnectionError extends TransportError {
  // Private: applications see only the code and the message.
  readonly #reason: ConnectionFailure

  constructor(reason: ConnectionFailure, message: string, cause?: unknown) {
    super('connection_error', message, cause === undefined ? {} : { cause })
    this.#reason = reason
  }

  get reason(): ConnectionFailure {
    return this.#reason
  }
}
