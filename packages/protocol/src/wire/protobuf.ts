/**
 * The protobuf form of the relay's messages, with limits that a server needs and protobuf itself lacks.
 *
 * Before anything is allocated, the bytes are walked along the descriptor: 4 MiB of two-byte items would otherwise
 * become millions of objects. The walk also refuses groups, fields whose wire type differs from the schema, and a oneof
 * that is not set exactly once, so that both forms accept the same messages. Unlike in CBOR, unknown fields are
 * dropped, because every protobuf peer does so and expects it.
 */
import { type DescField, type DescMessage, fromBinary, type MessageShape, ScalarType } from '@bufbuild/protobuf'
import { MAX_CBOR_DEPTH, planOf } from '../cbor/plan.ts'
import { MAX_ITEMS, maxObjects } from '../cbor/cbor.ts'
import { writeProtobuf } from './protobuf-writer.ts'
import { WireError } from './wire-error.ts'

// Wire types of protobuf.
const VARINT = 0
const BYTES_8 = 1
const DELIMITED = 2
const BYTES_4 = 5

/** The scalar types that are not varints. */
const WIRE_TYPES: Readonly<Partial<Record<ScalarType, number>>> = {
  [ScalarType.STRING]: DELIMITED,
  [ScalarType.BYTES]: DELIMITED,
  [ScalarType.FIXED32]: BYTES_4,
  [ScalarType.SFIXED32]: BYTES_4,
  [ScalarType.FIXED64]: BYTES_8,
  [ScalarType.SFIXED64]: BYTES_8,
}

/** The facts about a message type that the walk needs. */
interface Shape {
  readonly fields: ReadonlyMap<number, FieldShape>
  readonly oneofs: readonly string[]
}

interface FieldShape {
  readonly name: string
  readonly wireType: number
  /** Whether each value becomes one of a list's objects. */
  readonly listed: boolean
  /** A list of numbers, which may be packed into one run of bytes. */
  readonly packable: boolean
  readonly oneof: string | undefined
  readonly inner: Shape | undefined
}

const shapes = new WeakMap<DescMessage, Shape>()

/**
 * Encodes a message.
 *
 * @throws {WireError} if a value is out of its type's range
 */
export function encodeProtobuf<Type extends DescMessage>(
  type: Type,
  message: MessageShape<Type>,
): Uint8Array<ArrayBuffer> {
  return writeProtobuf(type, message)
}

/**
 * Decodes a message of at most `maxBytes`. Byte strings in it are views of `bytes`: copy them before you reuse that
 * buffer.
 *
 * @throws {WireError} if the bytes are not such a message
 * @throws {TypeError} if the type is outside the CBOR profile
 */
export function decodeProtobuf<Type extends DescMessage>(
  type: Type,
  bytes: Uint8Array,
  maxBytes: number,
): MessageShape<Type> {
  if (bytes.length > maxBytes) throw new WireError('too-large')
  new Walk(bytes).message(shapeOf(type), bytes.length)
  try {
    return fromBinary(type, bytes, { readUnknownFields: false, recursionLimit: MAX_CBOR_DEPTH })
  } catch (cause) {
    throw new WireError('protobuf', undefined, cause)
  }
}

/**
 * The name of a field set in a message's oneof. The rest is not read and may be malformed.
 *
 * @throws {WireError} if the bytes do not begin like such a message
 */
export function peekProtobuf(type: DescMessage, bytes: Uint8Array): string {
  return new Walk(bytes).choice(shapeOf(type))
}

class Walk {
  readonly #bytes: Uint8Array
  #at = 0
  #itemsLeft = MAX_ITEMS
  #objectsLeft: number

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
    this.#objectsLeft = maxObjects(bytes.length)
  }

  /** The first member of a oneof. */
  choice(shape: Shape): string {
    const { length } = this.#bytes
    while (this.#at < length) {
      this.#count(1)
      const tag = this.#varint(length)
      const field = shape.fields.get(Math.floor(tag / 8))
      if (field?.oneof !== undefined) return field.name
      this.#value(tag % 8, undefined, length)
    }
    throw this.#error('oneof')
  }

  message(shape: Shape, end: number): void {
    const chosen: string[] = []
    while (this.#at < end) {
      this.#count(1)
      const tag = this.#varint(end)
      const wireType = tag % 8
      const field = shape.fields.get(Math.floor(tag / 8))
      if (field !== undefined && wireType !== field.wireType && !(field.packable && wireType === DELIMITED)) {
        throw this.#error('protobuf')
      }
      if (field?.oneof !== undefined) {
        if (chosen.includes(field.oneof)) throw this.#error('oneof')
        chosen.push(field.oneof)
      }
      if (field?.listed === true && --this.#objectsLeft < 0) throw this.#error('too-many-items')
      this.#value(wireType, field, end)
    }
    if (chosen.length < shape.oneofs.length) throw this.#error('oneof')
  }

  #value(wireType: number, field: FieldShape | undefined, end: number): void {
    switch (wireType) {
      case VARINT:
        this.#varint(end)
        return
      case BYTES_8:
        this.#skip(8, end)
        return
      case BYTES_4:
        this.#skip(4, end)
        return
      case DELIMITED: {
        const length = this.#varint(end)
        if (length > end - this.#at) throw this.#error('truncated')
        if (field?.inner !== undefined) {
          this.message(field.inner, this.#at + length)
          return
        }
        // Each number of a packed list takes at least one byte.
        if (field?.packable === true) this.#count(length)
        this.#skip(length, end)
        return
      }
      default:
        throw this.#error('protobuf')
    }
  }

  /** The value of a varint, exact up to 2^53: lengths and tags beyond that are refused by their size anyway. */
  #varint(end: number): number {
    let value = 0
    let scale = 1
    for (let taken = 0; taken < 10; taken++) {
      if (this.#at >= end) throw this.#error('truncated')
      const byte = this.#bytes[this.#at++] ?? 0
      value += (byte & 0x7f) * scale
      if (byte < 0x80) return value
      scale *= 128
    }
    throw this.#error('protobuf')
  }

  #skip(length: number, end: number): void {
    if (length > end - this.#at) throw this.#error('truncated')
    this.#at += length
  }

  #count(items: number): void {
    this.#itemsLeft -= items
    if (this.#itemsLeft < 0) throw this.#error('too-many-items')
  }

  #error(fault: WireError['fault']): WireError {
    return new WireError(fault, this.#at)
  }
}

function shapeOf(type: DescMessage): Shape {
  const known = shapes.get(type)
  if (known !== undefined) return known
  // Throws for recursive types, so that the recursion below terminates.
  planOf(type)
  const shape: Shape = {
    fields: new Map(type.fields.map((field) => [field.number, fieldShape(field)])),
    oneofs: type.oneofs.map((oneof) => oneof.localName),
  }
  shapes.set(type, shape)
  return shape
}

function fieldShape(field: DescField): FieldShape {
  const oneof = field.oneof?.localName
  const value: FieldShape = {
    name: field.localName,
    wireType: wireTypeOf(field),
    listed: field.fieldKind === 'list' && wireTypeOf(field) === DELIMITED,
    packable: field.fieldKind === 'list' && wireTypeOf(field) !== DELIMITED,
    oneof,
    inner: field.message === undefined ? undefined : shapeOf(field.message),
  }
  if (field.fieldKind !== 'map') return value
  // A map is a list of messages with a key and a value.
  const entryField = { wireType: DELIMITED, listed: false, packable: false, oneof: undefined }
  const key: FieldShape = { ...entryField, name: 'key', inner: undefined }
  const entry: Shape = {
    fields: new Map([
      [1, key],
      [2, value],
    ]),
    oneofs: [],
  }
  return { ...entryField, name: field.localName, listed: true, inner: entry }
}

function wireTypeOf(field: DescField): number {
  if (field.message !== undefined) return DELIMITED
  return (field.scalar === undefined ? undefined : WIRE_TYPES[field.scalar]) ?? VARINT
}
