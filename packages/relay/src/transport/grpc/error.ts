/** Refusals in gRPC: its own status, plus the complete Error in metadata, because the status has few codes. */
import { create } from '@bufbuild/protobuf'
import { Code, ConnectError, encodeBinaryHeader } from '@connectrpc/connect'
import { ERROR_METADATA, ERRORS, type ErrorCode, StaticError } from '@static/protocol'
import { type Error as Refusal, ErrorSchema } from '@static/protocol/relay'

/** A refusal as an error of the RPC library. */
export function refusalError(refusal: Refusal): ConnectError {
  const code = (Object.hasOwn(ERRORS, refusal.code) ? ERRORS[refusal.code as ErrorCode].grpc : Code.Internal) as Code
  return new ConnectError(refusal.message, code, { [ERROR_METADATA]: encodeBinaryHeader(refusal, ErrorSchema) })
}

/** The error that a call failed with. A StaticError exposes its code, like a refusal; other errors expose nothing. */
export function failureError(error: unknown): unknown {
  if (!(error instanceof StaticError)) return error
  const { code, message, details } = error
  const { retryAfter } = details
  const fields = { code, message, ...(retryAfter === undefined ? {} : { retryAfterMs: retryAfter * 1000 }) }
  return refusalError(create(ErrorSchema, fields))
}
