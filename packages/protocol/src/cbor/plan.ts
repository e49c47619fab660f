/**
 * How the CBOR codec writes and reads a message type, computed once from its descriptor.
 *
 * | protobuf            | CBOR                                                     |
 * |---------------------|----------------------------------------------------------|
 * | message             | map, keys = field numbers, ascending                     |
 * | integers, enum      | integer; 64 bits as bigint                               |
 * | bool, bytes, string | false / true, byte string, text string                   |
 * | repeated            | array; an empty one is absent                            |
 * | map<string, V>      | map with text keys in deterministic order; empty: absent |
 * | oneof               | exactly one member's key                                 |
 * | optional            | present when set, zero included                          |
 * | other zero values   | absent                                                   |
 *
 * Floats, groups, google.protobuf types, maps with other keys and types deeper than 8 (including recursive ones) are
 * not supported: planning such a type throws, so a test over the schema keeps them out. Because unknown keys are
 * refused, no input can be deeper than its type, and the reader needs no depth counter.
 */
import { create, type DescField, type DescMessage, type Message, ScalarType } from '@bufbuild/protobuf'
import type { CborReader } from './reader.ts'
import { ENUM, planList, planMap, SCALARS, type ValuePlan } from './value.ts'
import type { CborWriter } from './writer.ts'
import { WireError } from '../wire/wire-error.ts'

/** The deepest nesting of maps and arrays, including the outermost map. */
export const MAX_CBOR_DEPTH = 8

/** How one message type is written and read. */
export interface CborPlan {
  readonly depth: number
  readonly write: (writer: CborWriter, message: Message) => void
  readonly read: (reader: CborReader) => Message
  /** Reads as far as the first member of a oneof, and returns its name. */
  readonly peek: (reader: CborReader) => string
}

interface FieldPlan extends ValuePlan {
  readonly number: number
  readonly name: string
  readonly oneof: string | undefined
  /** Whether the field is omitted for this value. */
  readonly isDefault: (value: unknown) => boolean
}

type Fields = Record<string, unknown>
type Choice = { readonly case: string | undefined; readonly value?: unknown }

const plans = new WeakMap<DescMessage, CborPlan>()

/**
 * The plan of a message type.
 *
 * @throws {TypeError} if the type is outside the profile
 */
export function planOf(type: DescMessage): CborPlan {
  const plan = plans.get(type) ?? planMessage(type, [])
  if (plan.depth > MAX_CBOR_DEPTH) throw outside(type.typeName, `deeper than ${MAX_CBOR_DEPTH}`)
  return plan
}

function planMessage(type: DescMessage, within: readonly DescMessage[]): CborPlan {
  const known = plans.get(type)
  if (known !== undefined) return known
  if (within.includes(type)) throw outside(type.typeName, 'recursive')
  if (type.typeName.startsWith('google.protobuf.')) throw outside(type.typeName, 'a google.protobuf type')
  const fields = type.fields.map((field) => planField(field, [...within, type])).sort(inOrder)
  const oneofs = type.oneofs.map((oneof) => oneof.localName)
  const plan: CborPlan = {
    depth: 1 + Math.max(0, ...fields.map((field) => field.depth)),
    write: messageWriter(fields, oneofs),
    read: messageReader(type, fields, oneofs),
    peek: messagePeeker(fields),
  }
  plans.set(type, plan)
  return plan
}

function messageWriter(fields: readonly FieldPlan[], oneofs: readonly string[]): CborPlan['write'] {
  const plain = fields.filter((field) => field.oneof === undefined)
  const choices = oneofs.map((oneof) => {
    const members = fields.filter((field) => field.oneof === oneof)
    return { oneof, members: new Map(members.map((field) => [field.name, field])) }
  })
  return (writer, message) => {
    const values = message as unknown as Fields
    const present: FieldPlan[] = []
    for (const field of plain) {
      const value = values[field.name]
      if (value !== undefined && !field.isDefault(value)) present.push(field)
    }
    for (const { oneof, members } of choices) {
      const field = members.get((values[oneof] as Choice).case ?? '')
      if (field === undefined) throw new WireError('oneof')
      present.push(field)
    }
    if (choices.length > 0) present.sort(inOrder)
    writer.head(5, present.length)
    for (const field of present) {
      writer.head(0, field.number)
      field.write(writer, field.oneof === undefined ? values[field.name] : (values[field.oneof] as Choice).value)
    }
  }
}

function messageReader(type: DescMessage, fields: readonly FieldPlan[], oneofs: readonly string[]): CborPlan['read'] {
  const byNumber = new Map(fields.map((field) => [field.number, field]))
  return (reader) => {
    const message = create(type)
    const values = message as unknown as Fields
    let previous = -1
    for (let left = reader.map(); left > 0; left--) {
      const start = reader.offset
      const key = reader.int(0, 0x1fff_ffff)
      if (key <= previous) throw new WireError(key === previous ? 'duplicate-key' : 'key-order', start)
      previous = key
      const field = byNumber.get(key)
      if (field === undefined) throw new WireError('unknown-key', start)
      const value = field.read(reader)
      if (field.oneof === undefined) {
        if (field.isDefault(value)) throw new WireError('explicit-default', start)
        values[field.name] = value
      } else {
        if ((values[field.oneof] as Choice).case !== undefined) throw new WireError('oneof', start)
        values[field.oneof] = { case: field.name, value }
      }
    }
    for (const oneof of oneofs) {
      if ((values[oneof] as Choice).case === undefined) throw new WireError('oneof', reader.offset)
    }
    return message
  }
}

function messagePeeker(fields: readonly FieldPlan[]): CborPlan['peek'] {
  const byNumber = new Map(fields.map((field) => [field.number, field]))
  return (reader) => {
    for (let left = reader.map(); left > 0; left--) {
      const start = reader.offset
      const field = byNumber.get(reader.int(0, 0x1fff_ffff))
      if (field === undefined) throw new WireError('unknown-key', start)
      if (field.oneof !== undefined) return field.name
      field.read(reader)
    }
    throw new WireError('oneof', reader.offset)
  }
}

function planField(field: DescField, within: readonly DescMessage[]): FieldPlan {
  const place = { number: field.number, name: field.localName, oneof: field.oneof?.localName }
  const value = planValue(field, within)
  if (field.fieldKind === 'list') return { ...place, ...planList(value), isDefault: isEmptyList }
  if (field.fieldKind === 'map') {
    if (field.mapKey !== ScalarType.STRING) throw outside(String(field), 'a map with keys that are not strings')
    return { ...place, ...planMap(value), isDefault: isEmptyMap }
  }
  // FeatureSet.FieldPresence.IMPLICIT; importing its name would load all of descriptor.proto.
  const implicit = (field.presence as number) === 2
  return { ...place, ...value, isDefault: implicit ? isZero : never }
}

/** The plan of a singular field's value, of a list's item or of a map's value. */
function planValue(field: DescField, within: readonly DescMessage[]): ValuePlan {
  if (field.message !== undefined) {
    if ('delimitedEncoding' in field && field.delimitedEncoding) throw outside(String(field), 'a group')
    const { depth, write, read } = planMessage(field.message, within)
    return { isObject: true, depth, write: (writer, value) => write(writer, value as Message), read }
  }
  if (field.enum !== undefined) return ENUM
  if ('longAsString' in field && field.longAsString) throw outside(String(field), 'a 64-bit number as a string')
  const plan = SCALARS[field.scalar]
  if (plan === undefined) throw outside(String(field), 'a float')
  return plan
}

const inOrder = (a: FieldPlan, b: FieldPlan): number => a.number - b.number
const never = (): boolean => false
const isEmptyList = (value: unknown): boolean => (value as unknown[]).length === 0
const isEmptyMap = (value: unknown): boolean => Object.keys(value as object).length === 0
const isZero = (value: unknown): boolean =>
  value === 0 || value === 0n || value === '' || value === false || (value instanceof Uint8Array && value.length === 0)

function outside(what: string, why: string): TypeError {
  return new TypeError(`${what} is outside the CBOR profile: ${why}.`)
}
