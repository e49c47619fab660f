/** The interface of a proxy's connection to its relay. */
import type { StaticError } from '@static/protocol'

/** Opens streams to the relay, over few connections. */
export interface Upstream {
  /** Rejects with `unavailable` if the relay is unreachable. */
  open(handlers: UpstreamHandlers): Promise<UpstreamStream>
}

export interface UpstreamHandlers {
  data(bytes: Uint8Array): void
  /** The reason is undefined if the relay ended the stream cleanly. */
  closed(reason?: StaticError): void
}

export interface UpstreamStream {
  write(bytes: Uint8Array): void
  end(): void
  readonly bufferedBytes: number
  /** The node at the other end sends its sessions elsewhere: later streams go to another node, if there is one. */
  retire(): void
}
