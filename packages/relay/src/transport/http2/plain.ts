/** Plain HTTP of the relay's TCP port: health, metrics and CORS. */
import type { IncomingMessage } from 'node:http'
import type { Http2ServerRequest } from 'node:http2'
import type { Health } from '../../ports.ts'
import { commonHeaders, corsHeaders, preflightHeaders } from './headers.ts'
import { healthAnswer, liveAnswer, readyAnswer } from './health.ts'
import { metricsAnswer, type MetricsSource } from './metrics.ts'
import type { HttpResponse } from './responses.ts'

/** A request over either version of HTTP. */
export type HttpRequest = IncomingMessage | Http2ServerRequest

/** Options of plain HTTP. */
export interface PlainOptions {
  /** Origins whose pages may call from a browser. */
  readonly origins: readonly string[]
  readonly health: () => Health
  /** The content of `/metrics`, if any. */
  readonly metrics?: MetricsSource | undefined
  /** Called for an internal failure. */
  readonly failed: (error: unknown) => void
}

const HEALTH = new Map([
  ['/health', healthAnswer],
  ['/health/ready', readyAnswer],
  ['/health/live', liveAnswer],
])

/** Answers requests. For those that are not plain HTTP, only sets the headers of every response and returns false. */
export function makePlainHandler(
  options: PlainOptions,
): (path: string, request: HttpRequest, response: HttpResponse, isLocal: boolean) => boolean {
  const { health, metrics, failed } = options
  const origins = new Set(options.origins)
  return (path, { method, headers }, response, isLocal) => {
    const common = { ...commonHeaders(headers), ...corsHeaders(headers, origins) }
    const answer = HEALTH.get(path)
    const allowed = preflightHeaders(method, headers, origins)
    if (allowed !== undefined) {
      response.writeHead(204, { ...common, ...allowed }).end()
    } else if (answer !== undefined && isReading(method)) {
      const { status, body } = answer(health())
      response.writeHead(status, { ...common, 'content-type': 'application/json' }).end(JSON.stringify(body))
    } else if (path === '/metrics' && method === 'GET' && metrics !== undefined) {
      metricsAnswer(metrics, isLocal, headers.authorization).then(
        // Without CORS headers: a web page in a browser on this machine could otherwise read it without the token.
        ({ status, headers: own, body }) => response.writeHead(status, { ...commonHeaders(headers), ...own }).end(body),
        (error: unknown) => {
          failed(error)
          response.destroy()
        },
      )
    } else {
      for (const [name, value] of Object.entries(common)) response.setHeader(name, value as string)
      return false
    }
    return true
  }
}

/** Answers a health check with only a status, which a peer cannot leave unread. Returns false for other requests. */
export function answerProbe(path: string, request: HttpRequest, response: HttpResponse, health: Health): boolean {
  const answer = HEALTH.get(path)
  // A peer that has not ended its half could keep the stream open.
  const isWhole = !('stream' in request) || request.stream.endAfterHeaders
  if (answer === undefined || !isReading(request.method) || !isWhole) return false
  response.statusCode = answer(health).status
  response.end()
  return true
}

/** The answer to all other requests. */
export function answerNotFound(response: HttpResponse): void {
  response.writeHead(404, { 'content-type': 'application/json' }).end('{"code":"not_found"}')
}

function isReading(method: string | undefined): boolean {
  return method === 'GET' || method === 'HEAD'
}
