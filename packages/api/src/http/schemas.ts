/** Schemas that several routes share. The others are next to their handlers. */
import Type, { type TSchema } from 'typebox'
import { ACCOUNT_STATUSES, ERRORS, type ErrorCode, MODES, PLANS } from '@static/protocol'
import { PROBLEM_TYPE } from './problem.ts'

/** One of a fixed set of strings. */
export function oneOf(values: readonly string[]): TSchema {
  return Type.Unsafe<string>({ type: 'string', enum: values })
}

/** A schema that also accepts null. Not a union, because the serializer would have to validate to find the branch. */
export function orNull(schema: TSchema & { type?: string }): TSchema {
  return Type.Unsafe<string | number | null>({ ...schema, type: [schema.type, 'null'] })
}

export const uuid: TSchema = Type.String({ format: 'uuid' })
export const time: TSchema = Type.String({ format: 'date-time', description: 'ISO 8601, UTC, milliseconds' })
export const mode: TSchema = oneOf(MODES)
export const plan: TSchema = oneOf(PLANS)
/** A name chosen by a user. */
export const nameText: { minLength: number; maxLength: number; description: string } = {
  minLength: 1,
  maxLength: 256,
  description: '1 to 64 code points after trimming; no control or format characters',
}
export const passwordText: { minLength: number; maxLength: number; format: string } = {
  minLength: 8,
  maxLength: 128,
  format: 'password',
}

export const accountFields: Record<'id' | 'email' | 'name' | 'plan' | 'status' | 'created_at', TSchema> = {
  id: uuid,
  email: Type.String(),
  name: orNull(Type.String()),
  plan,
  status: oneOf(ACCOUNT_STATUSES),
  created_at: time,
}

export const keyFields: Record<'id' | 'key_prefix' | 'name' | 'mode' | 'created_at', TSchema> = {
  id: uuid,
  key_prefix: Type.String({ description: 'The first 16 characters of the key' }),
  name: Type.String(),
  mode,
  created_at: time,
}

/** The body of every error (RFC 9457). */
export const problemSchema: TSchema = Type.Object(
  {
    type: Type.String({ format: 'uri' }),
    title: Type.String(),
    status: Type.Integer(),
    detail: Type.String(),
    code: Type.String({ description: 'Stable; see /docs/errors' }),
    request_id: uuid,
    errors: Type.Optional(Type.Array(Type.Object({ field: Type.String(), message: Type.String() }))),
    resource_id: Type.Optional(uuid),
  },
  { $id: 'Problem' },
)

/** Errors that any route can return. */
const ANYWHERE: readonly ErrorCode[] = [
  'invalid_request',
  'rate_limited',
  'internal_error',
  'store_corrupt',
  'unavailable',
]
/** Errors of every route with a request body. */
export const BODY_ERRORS: readonly ErrorCode[] = ['invalid_json', 'body_too_large', 'unsupported_media_type']
/** Errors of every route that requires a credential. */
export const AUTH_ERRORS: readonly ErrorCode[] = ['auth_failed', 'auth_key_invalid', 'account_suspended']

/** A response without a body. */
export const NO_CONTENT: TSchema = Type.Null({ description: 'No content' })

/** The responses of a route: its success, and its possible errors by status. */
export function answers(success: Record<number, TSchema>, codes: readonly ErrorCode[] = []): Record<number, unknown> {
  const byStatus = new Map<number, ErrorCode[]>()
  for (const code of new Set([...codes, ...ANYWHERE])) {
    const { status } = ERRORS[code]
    byStatus.set(status, [...(byStatus.get(status) ?? []), code])
  }
  const problems = [...byStatus].map(([status, list]) => [
    status,
    { description: list.join(', '), content: { [PROBLEM_TYPE]: { schema: { $ref: 'Problem#' } } } },
  ])
  return { ...success, ...Object.fromEntries(problems) }
}

/** How a route is authenticated, in the form of OpenAPI. */
export const BY_KEY: readonly { readonly [name: string]: readonly string[] }[] = [{ key: [] }]
export const BY_KEY_OR_SESSION: readonly { readonly [name: string]: readonly string[] }[] = [
  { key: [] },
  { session: [] },
]
