/**
 * Writes messages in protobuf, with plans computed once from their descriptors. It produces the same bytes as the
 * library's own encoder, in a buffer that is reused for one message after another. Every message of a channel is
 * encoded several times, and a new growing buffer for each cost more than the rest of its encoding.
 */
import { type DescField, type DescMessage, type Message, ScalarType } from '@bufbuild/protobuf'
import { WireError } from './wire-error.ts'

/** The wire type of strings, bytes and messages. */
const DELIMITED = 2
const BYTES_8 = 1
const BYTES_4 = 5
const MAX_INT32 = 0x7fff_ffff
const MAX_UINT32 = 0xffff_ffff
const MAX_INT64 = 0x7fff_ffff_ffff_ffffn
const MAX_UINT64 = 0xffff_ffff_ffff_ffffn
/** A larger buffer is not kept for the next message. */
const KEPT_BYTES = 65_536
/** A varint has at most this many bytes. */
const VARINT_BYTES = 10

const encoder = new TextEncoder()

type WriteMessage = (output: Output, message: Message) => void
type WriteValue = (output: Output, value: never) => void
type Fields = Record<string, unknown>
type Choice = { readonly case: string | undefined; readonly value?: unknown }

/** How a value is written after its tag. */
interface ValuePlan {
  readonly wireType: number
  readonly write: WriteValue
}

/** A growing buffer. */
class Output {
  #bytes = new Uint8Array(4096)
  #view = new DataView(this.#bytes.buffer)
  #at = 0

  /** Empties it. A message that failed halfway may have left bytes. */
  start(): void {
    this.#at = 0
  }

  /** The bytes written since `start`, as a copy. */
  finish(): Uint8Array<ArrayBuffer> {
    const bytes = this.#bytes.slice(0, this.#at)
    if (this.#bytes.length > KEPT_BYTES) this.#resize(KEPT_BYTES)
    return bytes
  }

  /** A whole number up to 2^53. */
  varint(value: number): void {
    this.#room(VARINT_BYTES)
    let left = value
    for (; left > MAX_INT32; left = Math.floor(left / 128)) this.#bytes[this.#at++] = (left % 128) | 0x80
    for (; left > 0x7f; left >>>= 7) this.#bytes[this.#at++] = (left & 0x7f) | 0x80
    this.#bytes[this.#at++] = left
  }

  /** Up to 2^64. */
  bigVarint(value: bigint): void {
    if (value <= Number.MAX_SAFE_INTEGER) {
      this.varint(Number(value))
      return
    }
    this.#room(VARINT_BYTES)
    let left = value
    for (; left > 0x7fn; left >>= 7n) this.#bytes[this.#at++] = Number(left & 0x7fn) | 0x80
    this.#bytes[this.#at++] = Number(left)
  }

  fixed32(value: number): void {
    this.#room(4)
    this.#view.setUint32(this.#at, value, true)
    this.#at += 4
  }

  fixed64(value: bigint): void {
    this.#room(8)
    this.#view.setBigUint64(this.#at, value, true)
    this.#at += 8
  }

  bytes(value: Uint8Array): void {
    if (!(value instanceof Uint8Array)) throw new WireError('range')
    this.varint(value.length)
    this.#room(value.length)
    this.#bytes.set(value, this.#at)
    this.#at += value.length
  }

  /** A message after its length. */
  message(write: WriteMessage, message: Message): void {
    // Most are short enough for a length of one byte. For others, the content is moved.
    this.#room(VARINT_BYTES)
    const head = this.#at
    this.#at = head + 1
    write(this, message)
    const length = this.#at - head - 1
    const headBytes = length < 0x80 ? 1 : length < 0x4000 ? 2 : length < 0x20_0000 ? 3 : length < 0x1000_0000 ? 4 : 5
    this.#room(headBytes)
    if (headBytes > 1) this.#bytes.copyWithin(head + headBytes, head + 1, head + 1 + length)
    this.#at = head
    this.varint(length)
    this.#at += length
  }

  #room(length: number): void {
    if (this.#at + length > this.#bytes.length) this.#resize(2 * (this.#at + length))
  }

  #resize(length: number): void {
    const bytes = new Uint8Array(length)
    bytes.set(this.#bytes.subarray(0, Math.min(this.#at, length)))
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer)
  }
}

const output = new Output()
const writers = new WeakMap<DescMessage, WriteMessage>()

/**
 * Encodes a message.
 *
 * @throws {WireError} if a value is out of its type's range
 */
export function writeProtobuf(type: DescMessage, message: Message): Uint8Array<ArrayBuffer> {
  output.start()
  writerOf(type)(output, message)
  return output.finish()
}

function writerOf(type: DescMessage): WriteMessage {
  const known = writers.get(type)
  if (known !== undefined) return known
  const fields = [...type.fields].sort((one, other) => one.number - other.number).map(fieldWriter)
  const write: WriteMessage = (to, message) => {
    for (const field of fields) field(to, message)
  }
  writers.set(type, write)
  return write
}

function fieldWriter(field: DescField): (output: Output, fields: Fields & Message) => void {
  const { localName: name, number } = field
  const { wireType, write } = valuePlan(field)
  const tag = number * 8 + wireType
  const one = (to: Output, value: unknown): void => {
    to.varint(tag)
    write(to, value as never)
  }
  if (field.fieldKind === 'map') return mapWriter(field, { wireType, write })
  if (field.fieldKind === 'list') {
    if (field.packed) return packedWriter(field, write)
    return (to, fields) => {
      for (const item of fields[name] as unknown[]) one(to, item)
    }
  }
  if (field.oneof !== undefined) {
    const oneof = field.oneof.localName
    return (to, fields) => {
      const choice = fields[oneof] as Choice
      if (choice.case === name) one(to, choice.value)
    }
  }
  // FeatureSet.FieldPresence.IMPLICIT; importing its name would load all of descriptor.proto.
  if ((field.presence as number) !== 2) {
    return (to, fields) => {
      const value = fields[name]
      if (value !== undefined && Object.hasOwn(fields, name)) one(to, value)
    }
  }
  return (to, fields) => {
    const value = fields[name]
    if (!isZero(value)) one(to, value)
  }
}

function isZero(value: unknown): boolean {
  return (
    value === 0 ||
    value === 0n ||
    value === '' ||
    value === false ||
    (value instanceof Uint8Array && value.length === 0)
  )
}

/** The numbers of a list without their own tags: the content of a message without fields. */
function packedWriter({ localName: name, number }: DescField, write: WriteValue): ReturnType<typeof fieldWriter> {
  const writeAll: WriteMessage = (to, fields) => {
    for (const item of (fields as unknown as Fields)[name] as never[]) write(to, item)
  }
  return (to, fields) => {
    if ((fields[name] as unknown[]).length === 0) return
    to.varint(number * 8 + DELIMITED)
    to.message(writeAll, fields)
  }
}

/** A map is a list of messages with a key, which is a string, and a value. */
function mapWriter({ localName: name, number }: DescField, value: ValuePlan): ReturnType<typeof fieldWriter> {
  const writeEntry = (to: Output, [key, item]: readonly [string, unknown]): void => {
    to.varint(1 * 8 + DELIMITED)
    to.bytes(encoder.encode(key))
    to.varint(2 * 8 + value.wireType)
    value.write(to, item as never)
  }
  return (to, fields) => {
    for (const entry of Object.entries(fields[name] as object)) {
      to.varint(number * 8 + DELIMITED)
      to.message(writeEntry as unknown as WriteMessage, entry as unknown as Message)
    }
  }
}

/** The value of a singular field, of a list's item or of a map's value. */
function valuePlan(field: DescField): ValuePlan {
  if (field.message !== undefined) {
    const type = field.message
    let inner: WriteMessage | undefined
    const write = (to: Output, value: Message): void => to.message((inner ??= writerOf(type)), value)
    return { wireType: DELIMITED, write }
  }
  if (field.enum !== undefined) return SCALARS[ScalarType.INT32]
  const plan = SCALARS[field.scalar as keyof typeof SCALARS]
  if (plan === undefined) throw new TypeError(`${String(field)} is outside the profile: a float.`)
  return plan
}

const int = (value: number, min: number, max: number): number => {
  if (!Number.isInteger(value) || value < min || value > max) throw new WireError('range')
  return value
}
const big = (value: bigint, min: bigint, max: bigint): bigint => {
  if (typeof value !== 'bigint' || value < min || value > max) throw new WireError('range')
  return value
}
const int32 = (value: number): number => int(value, -MAX_INT32 - 1, MAX_INT32)
const int64 = (value: bigint): bigint => big(value, -MAX_INT64 - 1n, MAX_INT64)
const plan = (wireType: number, write: WriteValue): ValuePlan => ({ wireType, write })

/** Negative numbers of the plain types are written as 64 bits; those of `sint` types alternate with positive ones. */
const SCALARS = {
  [ScalarType.UINT32]: plan(0, (to, value: number) => to.varint(int(value, 0, MAX_UINT32))),
  [ScalarType.INT32]: plan(0, (to, value: number) => {
    if (int32(value) >= 0) to.varint(value)
    else to.bigVarint(BigInt.asUintN(64, BigInt(value)))
  }),
  [ScalarType.SINT32]: plan(0, (to, value: number) => to.varint(((int32(value) << 1) ^ (value >> 31)) >>> 0)),
  [ScalarType.UINT64]: plan(0, (to, value: bigint) => to.bigVarint(big(value, 0n, MAX_UINT64))),
  [ScalarType.INT64]: plan(0, (to, value: bigint) => to.bigVarint(BigInt.asUintN(64, int64(value)))),
  [ScalarType.SINT64]: plan(0, (to, value: bigint) =>
    to.bigVarint(BigInt.asUintN(64, (int64(value) << 1n) ^ (value >> 63n))),
  ),
  [ScalarType.FIXED32]: plan(BYTES_4, (to, value: number) => to.fixed32(int(value, 0, MAX_UINT32))),
  [ScalarType.SFIXED32]: plan(BYTES_4, (to, value: number) => to.fixed32(int32(value) >>> 0)),
  [ScalarType.FIXED64]: plan(BYTES_8, (to, value: bigint) => to.fixed64(big(value, 0n, MAX_UINT64))),
  [ScalarType.SFIXED64]: plan(BYTES_8, (to, value: bigint) => to.fixed64(BigInt.asUintN(64, int64(value)))),
  [ScalarType.BOOL]: plan(0, (to, value: boolean) => to.varint(value ? 1 : 0)),
  [ScalarType.STRING]: plan(DELIMITED, (to, value: string) => to.bytes(encoder.encode(value))),
  [ScalarType.BYTES]: plan(DELIMITED, (to, value: Uint8Array) => to.bytes(value)),
}
