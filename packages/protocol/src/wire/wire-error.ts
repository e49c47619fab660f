/** The one way in which the decoders of this package fail: CBOR, protobuf and cells alike (SPEC.md, "Relay"). */
import { StaticError } from '../errors/errors.ts'

/** What is wrong with the bytes. The words are stable: the vectors in tests/vectors name them. */
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
 * Bytes from a peer that no decoder takes. The session that they came by is closed.
 * It is `invalid_request` to everybody who does not look closer.
 */
export class WireError extends StaticError {
  readonly fault: WireFault

  constructor(fault: WireFault, offset?: number, cause?: unknown) {
    const place = offset === undefined ? '' : ` at byte ${offset}`
    super('invalid_request', `Malformed bytes: ${fault}${place}.`, cause === undefined ? {} : { cause })
    this.fault = fault
  }
}
