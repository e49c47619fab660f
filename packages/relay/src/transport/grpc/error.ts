/** Refusals as gRPC tells them: its own status, and the whole Error in metadata, because the status has few words. */
import { create } from '@bufbuild/protobuf'
import { Code, ConnectError, encodeBinaryHeader } from '@connectrpc/connect'
import { ERROR_METADATA, ERRORS, type ErrorCode, StaticError } from '@static/protocol'
import { type Error as Refusal, ErrorSchema } from '@static/protocol/relay'

/** A refusal as an error of the RPC library. */
export function refusalError(refusal: Refusal): ConnectError {
  const code = (Object.hasOwn(ERRORS, refusal.code) ? ERRORS[refusal.code as ErrorCode].grpc : Code.Internal) as Code
  return new ConnectError(refusal.message, code, { [ERROR_METADATA]: encodeBinaryHeader(refusal, ErrorSchema) })
}

/** What a call failed with: an error of ours tells its code, as a refusal does; of any other nothing is told. */
export function failureError(error: unknown): unknown {
  if (!(error instanceof StaticError)) return error
  const { code, message, details } = error
  const { retryAfter } = details
  const fields = { code, message, ...(retryAfter === undefined ? {} : { retryAfterMs: retryAfter * 1000 }) }
  return refusalError(create(ErrorSchema, fields))
}
