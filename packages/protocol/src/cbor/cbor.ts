/**
 * The CBOR form of the relay's messages (SPEC.md, "Relay"): core deterministic CBOR (RFC 8949 §4.2.1) in a profile that
 * leaves exactly one encoding for each message. What decodes, encodes to the same bytes again.
 *
 * Keys that the schema does not have are refused, not skipped. Peers of different age get on by the protocol revision
 * instead: both tell theirs when a session opens, the session speaks the lower one, a new field raises it, and a proxy
 * below the agent's revision is turned away. So an unknown key is never a message from the future but always a mistake
 * or an attack, and skipping it would only open what the profile closes: second encodings of the same message, items
 * that nobody has checked, and depth that no schema bounds.
 *
 * This form says nothing about whether a message makes sense: sizes of ids and the like are checked by who uses them.
 */
import type { DescMessage, MessageShape } from '@bufbuild/protobuf'
import { planOf } from './plan.ts'
import { CborReader } from './reader.ts'
import { CborWriter } from './writer.ts'
import { WireError } from '../wire/wire-error.ts'

/**
 * Heads in one message, keys included. The largest commit needs a few thousand; without a bound, 4 MiB of one-byte
 * items would become a hundred times that in memory.
 */
export const MAX_ITEMS = 65_536

const writer = new CborWriter()

/**
 * Encodes a message.
 *
 * @throws {WireError} when a value is out of its type's range or a oneof is not set
 * @throws {TypeError} when the type is outside the profile
 */
export function encodeCbor<Type extends DescMessage>(type: Type, message: MessageShape<Type>): Uint8Array<ArrayBuffer> {
  const plan = planOf(type)
  writer.start()
  plan.write(writer, message)
  return writer.finish()
}

/**
 * Decodes a message of at most `maxBytes`. Byte strings in it are views of `bytes`: whoever uses that buffer again
 * copies them first.
 *
 * @throws {WireError} for everything but the one encoding of a message
 * @throws {TypeError} when the type is outside the profile
 */
export function decodeCbor<Type extends DescMessage>(
  type: Type,
  bytes: Uint8Array,
  maxBytes: number,
): MessageShape<Type> {
  if (bytes.length > maxBytes) throw new WireError('too-large')
  const plan = planOf(type)
  const reader = new CborReader(bytes, MAX_ITEMS)
  const message = plan.read(reader)
  reader.end()
  return message as MessageShape<Type>
}
