/** Errors as they are sent: `application/problem+json` (RFC 9457). The cause is logged, never sent. */
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { docUrlOf, ERRORS, type Problem, StaticError } from '@static/protocol'
import { isUnavailable } from '../db/unavailable.ts'

/** What a field of ours can look like; short enough to hold no secret. */
const FIELD = /^[a-z][a-z_-]{0,23}$/

export const PROBLEM_TYPE = 'application/problem+json'

/** Turns whatever was thrown into an error of ours. */
export function toStaticError(error: unknown): StaticError {
  if (error instanceof StaticError) return error
  if (isUnavailable(error)) {
    return StaticError.of('unavailable', 'The database cannot be reached or written to.', {
      cause: error,
      retryAfter: 2,
    })
  }
  const { code, validation, validationContext, statusCode } = error as Partial<FastifyError>
  if (validation) {
    const errors = validation.map(({ instancePath, params, message }) => {
      const name = (params['missingProperty'] ?? params['additionalProperty'] ?? '') as string
      // A stranger's field name may be anything, a secret put in the wrong place included: repeat only what could be ours.
      const path = [...instancePath.split('/').slice(1), ...(FIELD.test(name) ? [name] : [])]
      const text = 'additionalProperty' in params ? 'is not a known field' : (message ?? 'is wrong')
      return { field: path.join('.') || (validationContext ?? 'body'), message: text }
    })
    const [first] = errors
    return StaticError.of('invalid_request', `The field ${first?.field} ${first?.message}.`, { errors })
  }
  switch (code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return StaticError.of('body_too_large', 'The body is too large.')
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return StaticError.of('unsupported_media_type', 'The body must be application/json.')
    default:
      // What the web server itself refuses: a bad URL, a content length that does not match, …
      if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
        return StaticError.of('invalid_request', 'The request is not well formed.', { cause: error })
      }
      return StaticError.from(error)
  }
}

/** The body of an error's answer. */
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

/** Answers a request that failed. */
export type ErrorHandler = (error: unknown, request: FastifyRequest, reply: FastifyReply) => FastifyReply

/** Makes the handler that answers with a problem, and logs what is not the caller's fault. */
export function makeErrorHandler(apiUrl: () => string): ErrorHandler {
  return (error, request, reply) => {
    const known = toStaticError(error)
    const { httpStatus } = known
    if (httpStatus >= 500) request.log.error({ err: known.cause ?? known, request_id: request.id }, known.message)
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
