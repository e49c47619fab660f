/** Random messages of any type, by its descriptor. */
import {
  create,
  type DescField,
  type DescMessage,
  type MessageInitShape,
  type MessageShape,
  ScalarType,
} from '@bufbuild/protobuf'
import * as fc from 'fast-check'

// Zero often: presence is where codecs differ.
const uint32 = fc.oneof(
  fc.constant(0),
  fc.nat({ max: 300 }),
  fc.nat({ max: 0x7fff_ffff }).map((n) => n * 2 + 1),
)
const int32 = fc.oneof(fc.constant(0), fc.integer({ min: -300, max: 300 }), fc.integer())
const uint64 = fc.oneof(
  fc.constant(0n),
  fc.bigInt({ min: 0n, max: 70_000n }),
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
)
const int64 = fc.oneof(fc.constant(0n), fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }))
// protobuf-es drops a byte order mark at the start of a text; our texts have none.
const text = fc.string({ unit: 'binary', maxLength: 40 }).filter((value) => !value.startsWith('\ufeff'))
const bytes = fc.oneof(fc.uint8Array({ maxLength: 40 }), fc.uint8Array({ minLength: 250, maxLength: 260 }))

const SCALARS: Readonly<Record<number, fc.Arbitrary<unknown>>> = {
  [ScalarType.UINT32]: uint32,
  [ScalarType.FIXED32]: uint32,
  [ScalarType.INT32]: int32,
  [ScalarType.SINT32]: int32,
  [ScalarType.SFIXED32]: int32,
  [ScalarType.UINT64]: uint64,
  [ScalarType.FIXED64]: uint64,
  [ScalarType.INT64]: int64,
  [ScalarType.SINT64]: int64,
  [ScalarType.SFIXED64]: int64,
  [ScalarType.BOOL]: fc.boolean(),
  [ScalarType.STRING]: text,
  [ScalarType.BYTES]: bytes,
}

/** Any message of a type. */
export function messages<Type extends DescMessage>(type: Type): fc.Arbitrary<MessageShape<Type>> {
  const plain = type.fields.filter((field) => field.oneof === undefined)
  const record: Record<string, fc.Arbitrary<unknown>> = {}
  for (const field of plain) record[field.localName] = fc.option(fieldValues(field), { nil: undefined })
  for (const oneof of type.oneofs) {
    const members = oneof.fields.map((field) => fieldValues(field).map((value) => ({ case: field.localName, value })))
    record[oneof.localName] = fc.oneof(...members)
  }
  return fc.record(record).map((init) => create(type, init as MessageInitShape<Type>))
}

function fieldValues(field: DescField): fc.Arbitrary<unknown> {
  const value = singleValues(field)
  if (field.fieldKind === 'list') return fc.array(value, { maxLength: 3 })
  if (field.fieldKind === 'map') return fc.dictionary(text, value, { maxKeys: 4, noNullPrototype: true })
  return value
}

function singleValues(field: DescField): fc.Arbitrary<unknown> {
  if (field.message !== undefined) return messages(field.message)
  if (field.enum !== undefined) return fc.constantFrom(...field.enum.values.map((value) => value.number))
  const scalar = field.scalar === undefined ? undefined : SCALARS[field.scalar]
  if (scalar === undefined) throw new Error(`no values for ${field.name}`)
  return scalar
}
