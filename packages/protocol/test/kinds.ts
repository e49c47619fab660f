/** Message types with every kind of field, made at run time: the relay's schema does not use them all. */
import { createFileRegistry, type DescMessage, fromJson, type JsonValue } from '@bufbuild/protobuf'
import { file_google_protobuf_any, FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt'

const field = (name: string, number: number, type: string, more: Record<string, JsonValue> = {}): JsonValue => ({
  name,
  number,
  type: `TYPE_${type}`,
  label: 'LABEL_OPTIONAL',
  ...more,
})
const many = { label: 'LABEL_REPEATED' }
const of = (typeName: string): Record<string, JsonValue> => ({ typeName: `.kinds.${typeName}` })
const entry = (name: string, key: string, value: JsonValue): JsonValue => ({
  name,
  field: [field('key', 1, key), value],
  options: { mapEntry: true },
})

const INTEGERS = [
  'UINT32',
  'FIXED32',
  'INT32',
  'SINT32',
  'SFIXED32',
  'UINT64',
  'FIXED64',
  'INT64',
  'SINT64',
  'SFIXED64',
]

/** A chain of messages, each inside the one before. */
const deep = (levels: number): JsonValue[] =>
  Array.from({ length: levels }, (_, at) => ({
    name: `Deep${levels}At${at + 1}`,
    field: at + 1 < levels ? [field('inner', 1, 'MESSAGE', of(`Deep${levels}At${at + 2}`))] : [field('end', 1, 'BOOL')],
  }))

const file = fromJson(FileDescriptorProtoSchema, {
  name: 'kinds.proto',
  package: 'kinds',
  syntax: 'proto3',
  enumType: [
    {
      name: 'Color',
      value: [
        { name: 'NONE', number: 0 },
        { name: 'RED', number: 1 },
        { name: 'BLUE', number: -5 },
      ],
    },
  ],
  messageType: [
    {
      name: 'All',
      nestedType: [
        entry('TextEntry', 'STRING', field('value', 2, 'STRING')),
        entry('LeafEntry', 'STRING', field('value', 2, 'MESSAGE', of('Leaf'))),
      ],
      // The numbers of the oneof's members lie between those of others on purpose.
      oneofDecl: [{ name: 'choice' }, { name: '_maybe' }, { name: '_maybe_bytes' }],
      field: [
        ...INTEGERS.map((type, at) => field(type.toLowerCase(), at + 1, type)),
        ...INTEGERS.map((type, at) => field(`${type.toLowerCase()}s`, at + 11, type, many)),
        field('flag', 30, 'BOOL'),
        field('choice_zero', 31, 'UINT32', { oneofIndex: 0 }),
        field('text', 32, 'STRING'),
        field('choice_text', 33, 'STRING', { oneofIndex: 0 }),
        field('bytes', 34, 'BYTES'),
        field('choice_leaf', 35, 'MESSAGE', { oneofIndex: 0, ...of('Leaf') }),
        field('flags', 36, 'BOOL', many),
        field('texts', 37, 'STRING', many),
        field('byte_strings', 38, 'BYTES', many),
        field('color', 39, 'ENUM', of('Color')),
        field('colors', 40, 'ENUM', { ...many, ...of('Color') }),
        field('leaf', 41, 'MESSAGE', of('Leaf')),
        field('leaves', 42, 'MESSAGE', { ...many, ...of('Leaf') }),
        field('maybe', 300, 'UINT32', { oneofIndex: 1, proto3Optional: true }),
        field('maybe_bytes', 70_000, 'BYTES', { oneofIndex: 2, proto3Optional: true }),
        field('text_map', 400, 'MESSAGE', { ...many, ...of('All.TextEntry') }),
        field('leaf_map', 401, 'MESSAGE', { ...many, ...of('All.LeafEntry') }),
      ],
    },
    { name: 'Leaf', field: [field('id', 1, 'BYTES'), field('numbers', 2, 'UINT32', many)] },
    { name: 'Float', field: [field('value', 1, 'FLOAT')] },
    { name: 'Double', field: [field('value', 1, 'DOUBLE')] },
    { name: 'HoldsFloat', field: [field('value', 1, 'MESSAGE', of('Float'))] },
    {
      name: 'NumberKeys',
      nestedType: [entry('NEntry', 'UINT32', field('value', 2, 'BOOL'))],
      field: [field('n', 1, 'MESSAGE', { ...many, ...of('NumberKeys.NEntry') })],
    },
    { name: 'Recursive', field: [field('inner', 1, 'MESSAGE', of('Recursive'))] },
    { name: 'RecursiveList', field: [field('inner', 1, 'MESSAGE', { ...many, ...of('RecursiveList') })] },
    { name: 'Known', field: [field('any', 1, 'MESSAGE', { typeName: '.google.protobuf.Any' })] },
    ...deep(8),
    ...deep(9),
  ],
  dependency: ['google/protobuf/any.proto'],
})

const registry = createFileRegistry(file, (name) =>
  name === file_google_protobuf_any.proto.name ? file_google_protobuf_any : undefined,
)

/** The message type with a name. */
export function kind(name: string): DescMessage {
  const type = registry.getMessage(`kinds.${name}`)
  if (type === undefined) throw new Error(`no kind ${name}`)
  return type
}
