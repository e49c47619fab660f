/**
 * The relay's messages in both wire forms, and the conversion between them for proxies. Driven by the descriptors
 * alone, so a new field needs no code here. The conversion preserves the message, not its bytes, so an envelope must
 * never be signed or hashed.
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
 * The name of the field set in the oneof of a message such as ClientMessage. Cheap, because that field is not decoded
 * and may be malformed.
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
