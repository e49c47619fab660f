/** The input of tools: JSON Schema for the host, and the same rules as a check with a readable error. */
import { StaticError } from '@static/protocol'

/** A text or number argument of a tool. */
export interface Field {
  readonly type: 'string' | 'integer'
  readonly description?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly enum?: readonly string[]
}

/** The input of a tool: named fields, some of them required. */
export interface InputSchema {
  readonly type: 'object'
  readonly properties: Readonly<Record<string, Field>>
  readonly required?: readonly string[]
  readonly additionalProperties: false
}

/** Arguments that fit their schema. */
export type Arguments = Readonly<Record<string, string | number | undefined>>

/** The schema of an object with these fields. */
export function inputOf(properties: Readonly<Record<string, Field>>, ...required: readonly string[]): InputSchema {
  return { type: 'object', properties, ...(required.length > 0 && { required }), additionalProperties: false }
}

/**
 * Checks the arguments of a call.
 *
 * @throws {StaticError} `invalid_request` that names the first wrong argument
 */
export function checkArguments({ properties, required = [] }: InputSchema, given: unknown): Arguments {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw invalid('The arguments must be an object.')
  }
  for (const name of required) if (!Object.hasOwn(given, name)) throw invalid(`\`${name}\` is required.`)
  for (const [name, value] of Object.entries(given)) {
    const field = Object.hasOwn(properties, name) ? properties[name] : undefined
    if (!field) throw invalid(`${shown(name)} is not an argument. Known: ${Object.keys(properties).join(', ')}.`)
    checkField(name, field, value)
  }
  return given as Arguments
}

function checkField(name: string, field: Field, value: unknown): void {
  const { type, minimum = -Infinity, maximum = Infinity, enum: words } = field
  if (type === 'string') {
    if (typeof value !== 'string') throw invalid(`\`${name}\` is ${shown(value)}. It must be a string.`)
    if (words && !words.includes(value)) {
      throw invalid(`\`${name}\` is ${shown(value)}. It must be ${words.join(' or ')}.`)
    }
    // It has no UTF-8 encoding, so different text would be sent.
    if (!value.isWellFormed()) throw invalid(`\`${name}\` contains a lone surrogate, so it is not valid Unicode.`)
    return
  }
  if (typeof value === 'number' && Number.isInteger(value) && value >= minimum && value <= maximum) return
  throw invalid(`\`${name}\` is ${shown(value)}. It must be an integer from ${minimum} to ${maximum}.`)
}

const LONGEST_SHOWN = 60

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value)
  return text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}…` : text
}

function invalid(message: string): StaticError {
  return StaticError.of('invalid_request', message)
}
