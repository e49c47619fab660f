/** Ends responses that their peers do not read. */
import type { ServerResponse } from 'node:http'
import { constants, type Http2ServerResponse, type ServerHttp2Stream } from 'node:http2'

/** A response over either version of HTTP. */
export type HttpResponse = (ServerResponse | Http2ServerResponse) & ServerResponse

/** Whether a response is over, however it ended. */
export function isClosed(response: HttpResponse): boolean {
  const end = streamOf(response) ?? response
  return end.closed || end.destroyed
}

const cutStreams = new WeakSet<ServerHttp2Stream>()

/** Ends a response at once and drops unsent data, because its address, or all together, hold too much. */
export function cutOff(response: HttpResponse): void {
  const stream = streamOf(response)
  if (stream && !isClosed(response)) {
    cutStreams.add(stream)
    stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM)
  }
  response.destroy()
}

/** Whether the relay cut a stream off before its peer ended it. */
export function wasCutOff(stream: ServerHttp2Stream): boolean {
  return cutStreams.has(stream)
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
