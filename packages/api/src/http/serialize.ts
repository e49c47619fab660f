/**
 * How answers are written. The schema of an answer is an allow-list of what may leave: fast-json-stringify writes what it
 * names and nothing else, field by field. The engine's own JSON.stringify takes less than half of that time but writes
 * whatever it is given; so it gets the values that hold exactly what their schema names, where both write the same text.
 */
import { SerializerSelector } from '@fastify/fast-json-stringify-compiler'

type Factory = ReturnType<typeof SerializerSelector>

/** What is read of a schema. */
interface Form {
  readonly type?: string | readonly string[]
  readonly const?: unknown
  readonly properties?: Readonly<Record<string, Form>>
  readonly required?: readonly string[]
  readonly items?: Form
}

type Check = (value: unknown) => boolean

/** Says whether a value is exactly of one of these types. What is not here is left to the library. */
const TYPES: Readonly<Record<string, Check>> = {
  string: (value) => typeof value === 'string',
  integer: Number.isSafeInteger,
  boolean: (value) => typeof value === 'boolean',
  null: (value) => value === null,
}
/** Words that name, describe or narrow; none of them changes what is written. */
const HARMLESS = ['description', 'format', 'enum', 'minimum', 'maximum', 'minLength', 'maxLength']

/** Builds the serializers of all answers, as fastify asks for it. */
export function buildSerializer(...options: Parameters<Factory>): ReturnType<Factory> {
  const compile = SerializerSelector()(...options)
  return (route) => {
    const write = compile(route)
    const fits = exactly(route.schema as Form)
    return fits ? (value: unknown) => (fits(value) ? JSON.stringify(value) : write(value)) : write
  }
}

/** Whether a value holds what the schema names, all of it, in its order, and nothing else; undefined if it cannot be said. */
function exactly(form: Form): Check | undefined {
  const { type, const: only, properties, required = [], items, ...rest } = form
  if (!Object.keys(rest).every((word) => HARMLESS.includes(word))) return undefined
  if (only !== undefined) return (value) => value === only
  if (type === 'object') return properties && objectOf(properties, required)
  if (type === 'array') return items && arrayOf(items)
  const checks = [type ?? []].flat().map((name) => TYPES[name])
  const [first, second] = checks
  if (!first || !checks.every((check) => check !== undefined) || checks.length > 2) return undefined
  return second ? (value) => first(value) || second(value) : first
}

function objectOf(properties: Readonly<Record<string, Form>>, required: readonly string[]): Check | undefined {
  const names = Object.keys(properties)
  const checks: Check[] = []
  for (const form of Object.values(properties)) {
    const check = exactly(form)
    if (check) checks.push(check)
  }
  if (checks.length < names.length || !names.every((name) => required.includes(name))) return undefined
  return (value) => {
    // What a value inherits is not written by JSON.stringify, or decides how it writes.
    if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) return false
    let at = 0
    // Not Object.keys, which makes an array for every object.
    for (const name in value) {
      if (name !== names[at] || !checks[at]?.((value as Record<string, unknown>)[name])) return false
      at++
    }
    return at === names.length
  }
}

function arrayOf(items: Form): Check | undefined {
  const check = exactly(items)
  return check && ((value) => Array.isArray(value) && value.every(check))
}
