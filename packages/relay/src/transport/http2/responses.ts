/** The ends of responses that their peers do not read. */
import type { ServerResponse } from 'node:http'
import { constants, type Http2ServerResponse, type ServerHttp2Stream } from 'node:http2'

/** A response over either version of HTTP. */
export type HttpResponse = (ServerResponse | Http2ServerResponse) & ServerResponse

/** Whether a response is over, however it ended. */
export function isClosed(response: HttpResponse): boolean {
  const end = streamOf(response) ?? response
  return end.closed || end.destroyed
}

/** Ends a response at once and drops what is unsent: its peer holds too much. */
export function cutOff(response: HttpResponse): void {
  streamOf(response)?.close(constants.NGHTTP2_ENHANCE_YOUR_CALM)
  response.destroy()
}

/** Drops a response that is not closed in time: the peer does not read it, or does not end its own half. */
export function expire(response: HttpResponse, ms: number): void {
  if (isClosed(response)) return
  const late = setTimeout(() => response.destroy(), ms)
  response.once('close', () => clearTimeout(late))
}

function streamOf(response: HttpResponse): ServerHttp2Stream | undefined {
  return 'stream' in response ? response.stream : undefined
}
