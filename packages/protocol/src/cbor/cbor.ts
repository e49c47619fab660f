/**
 * The CBOR form of the relay's messages (SPEC.md, "Relay"): core deterministic CBOR (RFC 8949 §4.2.1) in a profile that
 * allows exactly one encoding for each message. Decoding bytes and encoding the result gives the same bytes.
 *
 * Unknown keys are refused, not skipped. Peers of different versions are compatible through the protocol revision
 * instead: both state theirs when a session opens, the session uses the lower one, every new field increments it, and a
 * proxy below the agent's revision is refused. So an unknown key is never a message from the future but always a bug or
 * an attack, and skipping it would allow what the profile excludes: second encodings of the same message, unchecked
 * items, and depth that no schema bounds.
 *
 * Decoding does not validate the content of a message: the code that uses it checks sizes of ids and the like.
 */
import type { DescMessage, MessageShape } from '@bufbuild/protobuf'
import { planOf } from './plan.ts'
import { CborReader } from './reader.ts'
import { CborWriter } from './writer.ts'
import { WireError } from '../wire/wire-error.ts'

/**
 * The maximum number of items in one message, keys included. The largest commit needs a few thousand; without a limit,
 * 4 MiB of one-byte items would use a hundred times as much memory.
 */
export const MAX_ITEMS = 65_536
/**
 * The number of objects in a message's lists that may have any length, and the minimum average size of the others in
 * bytes.
 */
const FREE_OBJECTS = 64
const LEAST_OBJECT_BYTES = 16

/**
 * The maximum number of messages, texts and byte strings in the lists of a message of this many bytes. In our schema,
 * each of them has an id or is longer than one. Without this limit, an empty one would use 70 times as much memory as
 * its byte.
 */
export function maxObjects(bytes: number): number {
  return FREE_OBJECTS + Math.floor(bytes / LEAST_OBJECT_BYTES)
}

const writer = new CborWriter()

/**
 * Encodes a message.
 *
 * @throws {WireError} if a value is out of its type's range or a oneof is not set
 * @throws {TypeError} if the type is outside the profile
 */
export function encodeCbor<Type extends DescMessage>(type: Type, message: MessageShape<Type>): Uint8Array<ArrayBuffer> {
  const plan = planOf(type)
  writer.start()
  plan.write(writer, message)
  return writer.finish()
}

/**
 * Decodes a message of at most `maxBytes`. Byte strings in it are views of `bytes`: copy them before you reuse that
 * buffer.
 *
 * @throws {WireError} for anything but the single valid encoding of a message
 * @throws {TypeError} if the type is outside the profile
 */
export function decodeCbor<Type extends DescMessage>(
  type: Type,
  bytes: Uint8Array,
  maxBytes: number,
): MessageShape<Type> {
  if (bytes.length > maxBytes) throw new WireError('too-large')
  const plan = planOf(type)
  const reader = new CborReader(bytes, MAX_ITEMS, maxObjects(bytes.length))
  const message = plan.read(reader)
  reader.end()
  return message as MessageShape<Type>
}

/**
 * The name of the field set in a message's oneof. The rest is not read and may be malformed.
 *
 * @throws {WireError} if the bytes do not begin like such a message
 */
export function peekCbor(type: DescMessage, bytes: Uint8Array): string {
  return planOf(type).peek(new CborReader(bytes, MAX_ITEMS, maxObjects(bytes.length)))
}
