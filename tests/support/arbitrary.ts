/** Generates values from schemas: matching, almost matching, and arbitrary ones. */
import fc, { type Arbitrary } from 'fast-check'
import type { Schema } from './openapi.ts'

/** Texts that have broken servers before. */
const NASTY = [
  '',
  ' ',
  '\u0000',
  'a\u0000b',
  '\ud800',
  '\udfff\ud800',
  '\u202e',
  '\ufeff',
  '__proto__',
  'constructor',
  "' or 1=1 --",
  '%00',
  '../../etc/passwd',
  '𝒜'.repeat(70),
  'e\u0301'.repeat(64),
  'x'.repeat(300),
  '-1',
  '1e309',
  'null',
]

/** Suffixes that turn a valid text into one that a lower layer may reject. */
const ENDINGS = [
  '\u0000',
  '\u0000',
  '\u0000',
  '\ud800',
  '\ud800',
  '\u0085',
  '\n',
  ' ',
  '\u202e',
  '%',
  '\\',
  "'",
  'é',
] as const

/** Any text. */
export const anyText: Arbitrary<string> = fc.oneof(
  fc.constantFrom(...NASTY),
  fc.string({ unit: 'binary', maxLength: 200 }),
  fc.string({ maxLength: 20 }),
)

/** Any JSON value. */
export const anyJson: Arbitrary<unknown> = fc.oneof(
  { arbitrary: fc.jsonValue({ maxDepth: 2 }), weight: 3 },
  { arbitrary: anyText, weight: 1 },
  { arbitrary: fc.constantFrom(-1, 1.5, 2 ** 53, -0, 1e308), weight: 1 },
)

/** Values that match a schema. */
export function matching(schema: Schema): Arbitrary<unknown> {
  if (schema.enum) return fc.constantFrom(...schema.enum)
  if (schema.const !== undefined) return fc.constant(schema.const)
  if (schema.anyOf) return fc.oneof(...schema.anyOf.map(matching))
  switch (schema.type) {
    case 'string':
      return textFor(schema)
    case 'integer':
      return fc.integer({ min: schema.minimum ?? -1000, max: Math.min(schema.maximum ?? 1000, 2 ** 31 - 1) })
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    case 'array':
      return fc.array(matching(schema.items ?? {}), { maxLength: 3 })
    case 'object':
      return fc.record(mapValues(schema.properties ?? {}, matching), { requiredKeys: [...(schema.required ?? [])] })
    default:
      return anyJson
  }
}

/** Objects with exactly one fault: a field that is missing, unknown, of the wrong type or out of bounds. */
export function nearly(schema: Schema): Arbitrary<unknown> {
  const names = Object.keys(schema.properties ?? {})
  const base = matching(schema) as Arbitrary<Record<string, unknown>>
  const name = names.length > 0 ? fc.constantFrom(...names) : fc.constant('extra')
  return fc.oneof(
    fc.tuple(base, name).map(([value, field]) => without(value, field)),
    fc.tuple(base, name, anyJson).map(([value, field, other]) => ({ ...value, [field]: other })),
    fc.tuple(base, name, anyText).map(([value, field, other]) => ({ ...value, [field]: other })),
    fc.tuple(base, name, fc.constantFrom(...ENDINGS)).map(([value, field, end]) => ({
      ...value,
      [field]: `${typeof value[field] === 'string' ? value[field] : ''}${end}`,
    })),
    fc.tuple(base, anyText, anyJson).map(([value, field, other]) => ({ ...value, [field]: other })),
    base.map((value) => [value]),
  )
}

function textFor({ format, pattern, minLength = 0, maxLength = 40 }: Schema): Arbitrary<string> {
  if (pattern !== undefined) return fc.stringMatching(new RegExp(pattern))
  if (format === 'email') return fc.emailAddress({ size: 'small' })
  if (format === 'uuid') return fc.uuid()
  const longest = Math.min(maxLength, minLength + 40)
  return fc.oneof(
    fc.string({ minLength, maxLength: longest }),
    fc.string({ unit: 'grapheme-composite', minLength, maxLength: longest }),
  )
}

function mapValues<A, B>(object: Readonly<Record<string, A>>, change: (value: A) => B): Record<string, B> {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value)]))
}

function without(object: Record<string, unknown>, name: string): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).filter(([field]) => field !== name))
}
