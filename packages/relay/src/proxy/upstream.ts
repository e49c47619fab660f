/** What a proxy asks of the way to its relay. */
import type { StaticError } from '@static/protocol'

/** Opens streams to the relay, over few connections. */
export interface Upstream {
  /** Rejects with `unavailable` when the relay is out of reach. */
  open(handlers: UpstreamHandlers): Promise<UpstreamStream>
}

export interface UpstreamHandlers {
  data(bytes: Uint8Array): void
  /** The reason is missing when the relay ended the stream in order. */
  closed(reason?: StaticError): void
}

export interface UpstreamStream {
  write(bytes: Uint8Array): void
  end(): void
  readonly bufferedBytes: number
}
