/** A connection to the relay: a stream of cells. */
import type { Pace, StaticError } from '@static/protocol'
import type { WireForm } from '@static/protocol/envelope'

/** A relay's address, and how to authenticate it. */
export interface Target {
  readonly host: string
  readonly port: number
  /** The name that the relay's certificate must contain. The relay's challenge must contain the same name. */
  readonly serverName: string
  /** CA of that certificate, PEM; undefined: Node's default authorities. */
  readonly ca: string | undefined
  /** Among the host's addresses, the one to try last. */
  readonly avoid?: string | undefined
}

/** Receives what arrives on a stream of cells. */
export interface StreamHandlers {
  /** The handler may keep the chunk. Called only after `dial` has returned the stream. */
  data(chunk: Uint8Array): void
  /** Called once, last. The reason is undefined if the relay ended the stream cleanly. */
  closed(reason: StaticError | undefined): void
}

/** A stream of cells to a relay, on its own connection. */
export interface CellStream {
  /** The address that the host resolved to; undefined if there is no network. */
  readonly address?: string | undefined
  /**
   * Writes whole cells, which the caller must not change afterwards. Does nothing once the stream is closed. On a
   * clocked stream, urgent cells are sent before the others.
   */
  write(cells: Uint8Array, urgent?: boolean): void
  /** From now on, sends one cell at each tick. Only clocked transports have it. */
  pace?(pace: Pace): void
  /** Ends the stream after all written data, then closes the connection. */
  end(): void
}

export interface Transport {
  readonly form: WireForm
  /**
   * Connects to a relay.
   *
   * @throws {StaticError} `connection_error`, with the reason in its message
   */
  dial(target: Target, handlers: StreamHandlers): Promise<CellStream>
}
