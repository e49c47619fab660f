/** Refusals as gRPC tells them: its own status, and the whole Error in metadata, because the status has few words. */
import { Code, ConnectError, encodeBinaryHeader } from '@connectrpc/connect'
import { ERROR_METADATA, ERRORS, type ErrorCode } from '@static/protocol'
import { type Error as Refusal, ErrorSchema } from '@static/protocol/relay'

/** A refusal as an error of the RPC library. */
export function refusalError(refusal: Refusal): ConnectError {
  const code = (Object.hasOwn(ERRORS, refusal.code) ? ERRORS[refusal.code as ErrorCode].grpc : Code.Internal) as Code
  return new ConnectError(refusal.message, code, { [ERROR_METADATA]: encodeBinaryHeader(refusal, ErrorSchema) })
}
