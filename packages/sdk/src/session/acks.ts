/** Acknowledgements, sent in separate cells so that a long envelope does not delay them. */
import { makeCell, message } from '@static/protocol'
import { encodeEnvelope, type WireForm } from '@static/protocol/envelope'
import { AckPositionSchema, AckRequestSchema } from '@static/protocol/relay'
import type { Position } from './io.ts'

/** A position takes at most 31 bytes in protobuf and 29 in CBOR; a cell carries 1,021. */
const POSITIONS_PER_CELL = 32

/** Packs positions into as few cells as possible. */
export function ackCells(form: WireForm, positions: readonly Position[]): Uint8Array[] {
  const cells: Uint8Array[] = []
  for (let at = 0; at < positions.length; at += POSITIONS_PER_CELL) {
    const some = positions
      .slice(at, at + POSITIONS_PER_CELL)
      .map(({ channelId, index }) => message(AckPositionSchema, { channelId, index }))
    const ack = message(AckRequestSchema, { positions: some })
    cells.push(makeCell('ack', encodeEnvelope(form, AckRequestSchema, ack)))
  }
  return cells
}
