/** The only error of this package's decoders: CBOR, protobuf and cells (SPEC.md, "Relay"). */
import { StaticError } from '../errors/errors.ts'

/** The fault of the bytes. These names are stable: the vectors in tests/vectors use them. */
export type WireFault =
  // Any form
  | 'too-large'
  | 'too-many-items'
  | 'truncated'
  | 'trailing'
  | 'oneof'
  // CBOR
  | 'not-minimal'
  | 'indefinite'
  | 'reserved'
  | 'tag'
  | 'simple'
  | 'type'
  | 'range'
  | 'utf8'
  | 'key-order'
  | 'duplicate-key'
  | 'unknown-key'
  | 'explicit-default'
  // Protobuf
  | 'protobuf'
  // Cells
  | 'cell-type'
  | 'cell-length'
  | 'cell-padding'
  | 'cell-order'

/**
 * Malformed bytes from a peer. The session that carried them is closed. The code is `invalid_request`, for callers that
 * ignore `fault`.
 */
export class WireError extends StaticError {
  readonly fault: WireFault

  constructor(fault: WireFault, offset?: number, cause?: unknown) {
    const place = offset === undefined ? '' : ` at byte ${offset}`
    super('invalid_request', `Malformed bytes: ${fault}${place}.`, cause === undefined ? {} : { cause })
    this.fault = fault
  }
}
