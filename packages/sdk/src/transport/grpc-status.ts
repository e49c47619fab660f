/** gRPC status codes of failed calls (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md). */
import type { IncomingHttpHeaders } from 'node:http2'
import { ConnectionError } from '@static/node/connection-error'
import { peerSentence } from '@static/node/peer-text'
import { StaticError } from '@static/protocol'

const OK = '0'
/** The server does not accept calls now but may do so later. */
const UNAVAILABLE = '14'

/** Why response headers do not start a call; undefined if they do. */
export function refusalOf(headers: IncomingHttpHeaders, place: string): StaticError | undefined {
  const status = statusOf(headers, place)
  if (status instanceof StaticError) return status
  const isGrpc =
    Number(headers[':status']) === 200 && /^application\/grpc(\+proto)?(;|$)/i.test(headers['content-type'] ?? '')
  if (isGrpc && status === undefined) return undefined
  return new ConnectionError('wrong_protocol', `The server at ${place} is not a relay.`)
}

/** How a call ended, from its headers and trailers; undefined if they do not say. */
export function statusOf(metadata: IncomingHttpHeaders, place: string): 'ok' | StaticError | undefined {
  const { 'grpc-status': code, 'grpc-message': words } = metadata
  if (code === undefined) return undefined
  if (code === OK) return 'ok'
  const text = peerSentence(decoded(String(words ?? '')))
  const message = `The relay at ${place} ended the session: ${text === '' ? `gRPC status ${String(code)}.` : text}`
  return code === UNAVAILABLE ? StaticError.of('unavailable', message) : new ConnectionError('closed', message)
}

/** Decodes gRPC's percent-encoded text. Not every server encodes it correctly. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
