/**
 * The relay's messages in both wire forms, and the conversion between them for proxies: driven by the descriptors
 * alone, so that a new field needs no code here. The conversion keeps the message, not its bytes: nothing may sign or
 * hash an envelope.
 */
import type { DescMessage, MessageShape } from '@bufbuild/protobuf'
import { decodeCbor, encodeCbor, peekCbor } from '../cbor/cbor.ts'
import { decodeProtobuf, encodeProtobuf, peekProtobuf } from './protobuf.ts'

/** Protobuf on gRPC, CBOR on QUIC. */
export type WireForm = 'protobuf' | 'cbor'

/**
 * Encodes a message (ClientMessage, ServerMessage, or the AckRequest of an ack cell) in a form.
 *
 * @throws {WireError} if a value is out of its type's range
 */
export function encodeEnvelope<Type extends DescMessage>(
  form: WireForm,
  type: Type,
  message: MessageShape<Type>,
): Uint8Array<ArrayBuffer> {
  return form === 'cbor' ? encodeCbor(type, message) : encodeProtobuf(type, message)
}

/**
 * Decodes a message of at most `maxBytes` from a form. Byte strings in it are views of `bytes`.
 *
 * @throws {WireError} if the bytes are not such a message
 */
export function decodeEnvelope<Type extends DescMessage>(
  form: WireForm,
  type: Type,
  bytes: Uint8Array,
  maxBytes: number,
): MessageShape<Type> {
  return form === 'cbor' ? decodeCbor(type, bytes, maxBytes) : decodeProtobuf(type, bytes, maxBytes)
}

/**
 * What a message with a oneof, such as a ClientMessage, is about: the name of the field that is set. Costs little, because
 * that field is not decoded and may be malformed.
 *
 * @throws {WireError} if the bytes do not begin like such a message
 */
export function peekEnvelope(form: WireForm, type: DescMessage, bytes: Uint8Array): string {
  return form === 'cbor' ? peekCbor(type, bytes) : peekProtobuf(type, bytes)
}

/**
 * Converts a message of at most `maxBytes` from one form to the other. The result can be a few bytes longer.
 *
 * @throws {WireError} if the bytes are not such a message
 */
export function convertEnvelope(
  from: WireForm,
  to: WireForm,
  type: DescMessage,
  bytes: Uint8Array,
  maxBytes: number,
): Uint8Array<ArrayBuffer> {
  return encodeEnvelope(to, type, decodeEnvelope(from, type, bytes, maxBytes))
}
