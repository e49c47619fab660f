/** Error responses: `application/problem+json` (RFC 9457). The cause is logged, never sent. */
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import type { RepeatLog } from '@static/node/repeat-log'
import { docUrlOf, ERRORS, type Problem, StaticError } from '@static/protocol'
import { isDamage } from '../db/checksums.ts'
import { isUnavailable } from '../db/unavailable.ts'
import type { DamageLog } from '../rules/damage.ts'

/** The form of the API's field names; too short to contain a secret. */
const FIELD = /^[a-z][a-z_-]{0,23}$/

export const PROBLEM_TYPE = 'application/problem+json'

/** Turns anything thrown into a StaticError. */
export function toStaticError(error: unknown): StaticError {
  if (isDamage(error)) {
    const text = 'The data stored for this request is damaged and was not used. Contact the operator of this service.'
    return StaticError.of('store_corrupt', text, { cause: error })
  }
  if (error instanceof StaticError) return error
  const { code, validation, validationContext, statusCode } = error as Partial<FastifyError>
  // Fastify gives errors of the client's connection a status; database errors have none.
  if (statusCode === undefined && isUnavailable(error)) {
    return StaticError.of('unavailable', 'The database cannot be reached or written to.', {
      cause: error,
      retryAfter: 2,
    })
  }
  if (validation) {
    const errors = validation.map(({ instancePath, params, message }) => {
      const name = (params['missingProperty'] ?? params['additionalProperty'] ?? '') as string
      // An unknown field name may be anything, even a misplaced secret, so only a plausible field name is echoed.
      const path = [...instancePath.split('/').slice(1), ...(FIELD.test(name) ? [name] : [])]
      return { field: path.join('.') || (validationContext ?? 'body'), message: faultOf(params, message) }
    })
    const [first] = errors
    return StaticError.of('invalid_request', `The field ${first?.field} ${first?.message}.`, { errors })
  }
  switch (code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return StaticError.of('body_too_large', 'The request body is too large.')
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return StaticError.of('unsupported_media_type')
    default:
      // Refused by Fastify itself: a malformed URL, a wrong content length, …
      if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
        return StaticError.of('invalid_request', 'The request is malformed.', { cause: error })
      }
      return StaticError.from(error)
  }
}

function faultOf(params: Readonly<Record<string, unknown>>, message: string | undefined): string {
  if ('additionalProperty' in params) return 'is not a known field'
  if ('missingProperty' in params) return 'is required'
  return message ?? 'is not valid'
}

/** The body of an error response. */
export function problemOf(
  error: StaticError,
  requestId: string,
  apiUrl: string,
  status: number = error.httpStatus,
): Problem {
  const { errors, resourceId } = error.details
  return {
    type: docUrlOf(apiUrl, error.code),
    title: ERRORS[error.code].title,
    status,
    detail: error.message,
    code: error.code,
    request_id: requestId,
    ...(errors === undefined ? {} : { errors }),
    ...(resourceId === undefined ? {} : { resource_id: resourceId }),
  }
}

/** Responds to a request that failed. */
export type ErrorHandler = (error: unknown, request: FastifyRequest, reply: FastifyReply) => FastifyReply

/** Creates the handler that responds with a problem, and logs errors that are not the caller's fault. */
export function makeErrorHandler(apiUrl: () => string, repeats: RepeatLog, damage: DamageLog): ErrorHandler {
  return (error, request, reply) => {
    const known = toStaticError(error)
    const { httpStatus } = known
    const fields = { err: known.cause ?? known, request_id: request.id }
    if (isDamage(known)) damage.note(known.cause as Error, { request_id: request.id })
    else if (httpStatus >= 500) {
      // On a full disk or without a database, every request fails for the same reason.
      const kind = known.code === 'unavailable' ? known.message : String(error)
      repeats.note(kind, (failures) => request.log.error({ ...fields, failures }, known.message))
    }
    if (httpStatus === 429 || httpStatus === 503) reply.header('retry-after', known.details.retryAfter ?? 1)
    if (httpStatus === 401) {
      const sent = request.headers.authorization !== undefined ? ', error="invalid_token"' : ''
      reply.header('www-authenticate', `Bearer realm="static-api"${sent}`)
    }
    return reply
      .code(httpStatus)
      .type(PROBLEM_TYPE)
      .send(problemOf(known, request.id, apiUrl()))
  }
}
