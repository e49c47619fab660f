/** `static mcp --http`: serves hosts over Streamable HTTP, on loopback. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server as HttpServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { listenError } from '@static/node/listen-error'
import { StaticError } from '@static/protocol'
import type { AgentFlags } from '../agent/open.ts'
import { gateRefusal, LOOPBACK, PATH } from './http-gate.ts'
import { HttpExchanges, refused } from './http-exchanges.ts'
import { type HttpToken, httpToken } from './http-token.ts'
import { makeServer, type ServerParts } from './server.ts'
import { Session } from './session.ts'

/** The hosts of an agent, over HTTP. */
export interface HttpHost extends HttpToken {
  readonly url: string
  close(): Promise<void>
}

/** The largest text of a tool, as JSON at its longest: six bytes for each. */
const MOST_BODY_BYTES = 2 * 1024 * 1024
/** Requests at the same time. Hosts ask one at a time, and each may listen. */
const MOST_EXCHANGES = 64
const MOST_CONNECTIONS = 128
/** How long a request may take to arrive. */
const REQUEST_MS = 30_000

/**
 * Opens the agent and serves until it is closed.
 *
 * @throws {StaticError} as `openAgent`, `connection_error` if it cannot listen, `store_permissions`
 */
export async function serveHttp(
  flags: AgentFlags,
  parts: Pick<ServerParts, 'dataDir' | 'manage' | 'sendFrom'>,
  port: number,
): Promise<HttpHost> {
  const session = new Session(flags, {}, parts.manage)
  const server = createServer({ requestTimeout: REQUEST_MS, headersTimeout: REQUEST_MS })
  server.maxConnections = MOST_CONNECTIONS
  try {
    await session.open()
    const token = httpToken(parts.dataDir)
    const at = await listen(server, port)
    const exchanges = new HttpExchanges((keyOf) => makeServer({ ...parts, push: false, session, keyOf }))
    const hosts = new Hosts(session, exchanges, { port: at, token: token.token })
    server.on('request', (request, response) => void hosts.serve(request, response))
    const close = async (): Promise<void> => {
      server.close()
      await exchanges.close()
      server.closeAllConnections()
      await session.close()
    }
    return { ...token, url: `http://${LOOPBACK}:${at}${PATH}`, close }
  } catch (error) {
    server.close()
    await session.close()
    throw error
  }
}

async function listen(server: HttpServer, port: number): Promise<number> {
  try {
    server.listen(port, LOOPBACK)
    await once(server, 'listening')
  } catch (error) {
    throw listenError(`${LOOPBACK} port ${port}`, (error as { readonly code?: string }).code ?? 'unknown error', error)
  }
  return (server.address() as AddressInfo).port
}

/** Hands requests that may pass to the session. */
class Hosts {
  readonly #session: Session
  readonly #exchanges: HttpExchanges
  readonly #gate: { readonly port: number; readonly token: string }
  #running = 0

  constructor(session: Session, exchanges: HttpExchanges, gate: { readonly port: number; readonly token: string }) {
    this.#session = session
    this.#exchanges = exchanges
    this.#gate = gate
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const refusal = gateRefusal(request, this.#gate.port, this.#gate.token)
    try {
      if (refusal) await write(response, closing(refused(refusal.status, refusal.sentence)))
      else if (this.#running >= MOST_EXCHANGES) {
        await write(response, closing(refused(503, `${MOST_EXCHANGES} requests are in progress, the limit.`)))
      } else {
        this.#running++
        response.once('close', () => this.#running--)
        await this.#exchange(request, response)
      }
    } catch {
      // The host is gone, or did not send what it had announced.
      response.destroy()
    }
  }

  async #exchange(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = request.method === 'POST' ? await bodyOf(request) : undefined
    if (body instanceof Response) return await write(response, closing(body))
    const exchange = await this.#exchanges.begin(webRequest(request, response), body)
    const { key, cancelled } = exchange
    if (key !== undefined) this.#session.arrived(key)
    try {
      const answered = await exchange.answer()
      if (cancelled !== undefined) this.#session.putBack(cancelled)
      await write(response, answered)
    } finally {
      if (key !== undefined && response.writableFinished) this.#session.answered(key)
      else if (key !== undefined) this.#session.putBack(key)
    }
  }
}

/** The JSON of a body, or why there is none. */
async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > MOST_BODY_BYTES) return refused(413, `The body has more than ${MOST_BODY_BYTES} bytes, the limit.`)
    chunks.push(chunk)
  }
  try {
    const body: unknown = JSON.parse(Buffer.concat(chunks).toString())
    return Array.isArray(body) ? refused(400, 'The body must be one message.') : body
  } catch {
    return refused(400, 'The body is not JSON.')
  }
}

/** The request without its body, which is read already. Its signal is aborted when the host is gone. */
function webRequest({ method = 'GET', headers, headersDistinct }: IncomingMessage, response: ServerResponse): Request {
  const gone = new AbortController()
  response.once('close', () => gone.abort(StaticError.of('cancelled')))
  const pairs = Object.entries(headersDistinct).flatMap(([name, values = []]) =>
    values.map((value): [string, string] => [name, value]),
  )
  return new Request(`http://${headers.host}${PATH}`, { method, headers: pairs, signal: gone.signal })
}

/** The body of a refused request is not read. */
function closing(response: Response): Response {
  response.headers.set('connection', 'close')
  if (response.status === 401) response.headers.set('www-authenticate', 'Bearer')
  return response
}

async function write(response: ServerResponse, { status, headers, body }: Response): Promise<void> {
  response.writeHead(status, { ...Object.fromEntries(headers), 'cache-control': 'no-store' })
  if (body) await pipeline(Readable.fromWeb(body), response)
  else {
    response.end()
    await once(response, 'close')
  }
}
