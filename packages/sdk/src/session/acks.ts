/** Acknowledgements, sent in separate cells so that a long envelope does not delay them. */
import { CELL_PAYLOAD_BYTES, makeCell, message } from '@static/protocol'
import { encodeEnvelope, type WireForm } from '@static/protocol/envelope'
import { type AckPosition, AckPositionSchema, AckRequestSchema } from '@static/protocol/relay'
import type { Position } from './io.ts'

/** The maximum size of a position in protobuf; CBOR takes two bytes less. */
const POSITION_BYTES = 31
/** The extra bytes of a receipt besides its own: its field and two lengths of two bytes. */
const RECEIPT_OVERHEAD = 4
const NO_RECEIPT = new Uint8Array()

/** Packs positions into as few cells as possible. */
export function ackCells(form: WireForm, positions: readonly Position[]): Uint8Array[] {
  const cells: Uint8Array[] = []
  let some: AckPosition[] = []
  let bytes = 0
  const finish = (): void => {
    const ack = message(AckRequestSchema, { positions: some })
    cells.push(makeCell('ack', encodeEnvelope(form, AckRequestSchema, ack)))
    some = []
    bytes = 0
  }
  for (const { channelId, index, receipt = NO_RECEIPT } of positions) {
    const size = POSITION_BYTES + (receipt.length === 0 ? 0 : receipt.length + RECEIPT_OVERHEAD)
    if (bytes + size > CELL_PAYLOAD_BYTES) finish()
    some.push(message(AckPositionSchema, { channelId, index, receipt }))
    bytes += size
  }
  if (some.length > 0) finish()
  return cells
}
