/**
 * Schemas of payloads: the interface that zod, valibot, arktype and others share (https://standardschema.dev), so that
 * the SDK depends on none of them. Checks of JSON values against them.
 */
import { StaticError } from '@static/protocol'

/** A schema of any library that implements Standard Schema 1. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
  }
}

/** The checked value, or why it does not fit. */
export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] }

/** Why a value does not fit, and the path to the part that does not. */
export interface SchemaIssue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

/** The option `schema` of a call. */
export interface SchemaOption<Schema extends StandardSchema | undefined = undefined> {
  /** A Standard Schema (zod, valibot, arktype …) of the value. */
  readonly schema?: Schema
}

/** The values that a schema accepts; without a schema, any. */
export type SchemaInput<Schema> = Schema extends StandardSchema
  ? NonNullable<Schema['~standard']['types']>['input']
  : unknown

/** The values that a schema gives; without a schema, another type. */
export type SchemaOutput<Schema, Without> = Schema extends StandardSchema
  ? NonNullable<Schema['~standard']['types']>['output']
  : Without

/** Issues in an error. */
const MOST_ISSUES = 3
/** Characters of an issue: its text and path may repeat a payload. */
const MOST_CHARACTERS = 200

/** @internal Whether something is a schema. Those of arktype are functions. */
export function isSchema(value: unknown): boolean {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return false
  const standard: unknown = Reflect.get(value, '~standard')
  return (
    typeof standard === 'object' &&
    standard !== null &&
    'validate' in standard &&
    typeof standard.validate === 'function'
  )
}

/**
 * @internal The value as the schema gives it. `what` names the value in the error.
 *
 * @throws {StaticError} `schema_mismatch`
 */
export async function fitted<Output>(
  schema: StandardSchema<unknown, Output>,
  value: unknown,
  what: string,
): Promise<Output> {
  const result = await schema['~standard'].validate(value)
  if (!result.issues) return result.value
  const shown = result.issues.slice(0, MOST_ISSUES).map(issueText)
  const more = result.issues.length > MOST_ISSUES ? `; and ${result.issues.length - MOST_ISSUES} more` : ''
  throw StaticError.of('schema_mismatch', `${what} does not fit the schema: ${shown.join('; ')}${more}.`)
}

function issueText({ message, path = [] }: SchemaIssue): string {
  const keys = path.map((step) => String(typeof step === 'object' ? step.key : step))
  const text = keys.length === 0 ? message : `${keys.join('.')}: ${message}`
  return text.slice(0, MOST_CHARACTERS).replace(/\.$/, '')
}
