/**
 * Forwards the parts of files: from agents to a relay's port of files, over HTTPS, with the proxy's client certificate
 * and the agent's address. The relay decides about each part, and its limits in time reach through: if one side stops,
 * so does the other. Here are places, so that no address takes all connections.
 */
import type { ClientRequest, IncomingMessage } from 'node:http'
import { Agent, type RequestOptions, request as requestHttps } from 'node:https'
import { pipeline } from 'node:stream/promises'
import { TLS_GROUPS } from '@static/node/tls-groups'
import { SESSION_METADATA } from '@static/protocol'
import { AGENT_ADDRESS, askOf, BUSY_MS, leaveBody, limitBody, refuse } from '../files/part-request.ts'
import { TOTAL_MS } from '../files/part-server.ts'
import { Places } from '../files/places.ts'
import type { Certificate, Time } from '../ports.ts'
import type { HttpRequest } from '../transport/http2/plain.ts'
import type { HttpResponse } from '../transport/http2/responses.ts'

/** The relay answers, or passes bytes, within 30 s. */
const STALL_MS = 35_000
/** Headers of the relay's answers that agents need. */
const PASSED = ['content-type', 'content-length', 'retry-after', 'allow', 'cache-control', SESSION_METADATA]

/** How to reach the relay's port of files. */
export interface FilesUpstream {
  /** The addresses of its nodes, any of which serves any part. */
  readonly addresses: readonly { readonly host: string; readonly port: number }[]
  readonly serverName: string
  readonly ca: string
  readonly clientCertificate: Certificate
}

export class Forwarder {
  readonly #upstream: FilesUpstream
  readonly #failed: (error: unknown) => void
  readonly #monotonic: () => Time
  readonly #stallMs: number
  readonly #places = new Places()
  readonly #agent: Agent
  /** The node in use, an index of the addresses. */
  #node = 0

  constructor(
    upstream: FilesUpstream,
    failed: (error: unknown) => void,
    monotonic: () => Time,
    stallMs: number = STALL_MS,
  ) {
    const { ca, clientCertificate, serverName } = upstream
    this.#upstream = upstream
    this.#failed = failed
    this.#monotonic = monotonic
    this.#stallMs = stallMs
    this.#agent = new Agent({
      keepAlive: true,
      minVersion: 'TLSv1.3',
      ecdhCurve: TLS_GROUPS,
      ca,
      servername: serverName,
      cert: clientCertificate.cert,
      key: clientCertificate.key,
      // The relay believes only a certificate that it has seen in the handshake.
      maxCachedSessions: 0,
    })
  }

  async handle(request: HttpRequest, response: HttpResponse, address: string): Promise<void> {
    limitBody(request, response)
    const ask = askOf(request)
    if ('refused' in ask) return refuse(response, ask)
    const ending = new AbortController()
    const end = (): void => ending.abort()
    response.once('close', end)
    const place = this.#places.take(address, this.#monotonic(), end)
    if (!place) {
      const message = 'Too many parts are under way. Retry after 1 s.'
      return refuse(response, { refused: 'rate_limited', message, retryAfterMs: BUSY_MS })
    }
    const late = setTimeout(end, TOTAL_MS)
    try {
      await this.#forward(request, response, address, ending.signal, (bytes) => {
        place.bytes += bytes
      })
    } finally {
      clearTimeout(late)
      this.#places.leave(place)
    }
  }

  close(): void {
    this.#agent.destroy()
  }

  async #forward(
    request: HttpRequest,
    response: HttpResponse,
    address: string,
    signal: AbortSignal,
    passed: (bytes: number) => void,
  ): Promise<void> {
    const node = this.#node
    const outgoing = requestHttps(this.#options(request, address, node))
    const answered = answerTo(outgoing)
    let isConnected = false
    outgoing.on('socket', (socket) => {
      isConnected = outgoing.reusedSocket
      if (!isConnected) socket.once('secureConnect', () => (isConnected = true))
    })
    outgoing.setTimeout(this.#stallMs, () => outgoing.destroy(new Error('The relay passes no byte.')))
    signal.addEventListener('abort', () => outgoing.destroy(), { once: true })
    if (signal.aborted) outgoing.destroy()
    if (request.method === 'PUT') pour(request as IncomingMessage, outgoing, passed)
    else outgoing.end()
    try {
      const answer = await answered
      const headers = PASSED.flatMap((name) => {
        const value = answer.headers[name]
        return value === undefined ? [] : [[name, value] as const]
      })
      answer.on('data', ({ length }: Buffer) => passed(length))
      // A refusal may come before all of the body was sent.
      if (!outgoing.writableFinished) leaveBody(response)
      response.writeHead(answer.statusCode ?? 502, Object.fromEntries(headers))
      await pipeline(answer, response)
    } catch (error) {
      if (signal.aborted || response.headersSent) {
        response.destroy()
        return
      }
      if (!isConnected) {
        this.#failed(error)
        // Another node may be there.
        if (this.#node === node) this.#node = (node + 1) % this.#upstream.addresses.length
      }
      // The rest of the body, if any, is not waited for.
      response.shouldKeepAlive = false
      refuse(response, { refused: 'unavailable', message: 'The relay behind this proxy cannot be reached. Retry.' })
    } finally {
      // A connection is used again only if both sides have ended on it; then it is no longer of this request.
      outgoing.destroy()
    }
  }

  #options({ method, url, headers }: HttpRequest, address: string, node: number): RequestOptions {
    const { host, port } = this.#upstream.addresses[node] ?? {}
    const own = Object.fromEntries(
      (method === 'PUT' ? ['content-length', SESSION_METADATA] : [SESSION_METADATA]).flatMap((name) => {
        const value = headers[name]
        return value === undefined ? [] : [[name, value]]
      }),
    )
    return { agent: this.#agent, host, port, method, path: url, headers: { ...own, [AGENT_ADDRESS]: address } }
  }
}

/**
 * Passes the body of a part on as it arrives. Ends the outgoing request if the body is not as long as the relay was told:
 * the relay would take bytes that are too many for the next request, and the next request for bytes that are missing.
 */
function pour(request: IncomingMessage, outgoing: ClientRequest, passed: (bytes: number) => void): void {
  let left = Number(request.headers['content-length'])
  const end = (): void => {
    if (left === 0) outgoing.end()
    else outgoing.destroy(new Error('The body has another length than the agent has announced.'))
  }
  request.on('data', (chunk: Buffer) => {
    // After an early answer, the rest is read and dropped.
    if (outgoing.destroyed) return
    left -= chunk.length
    passed(chunk.length)
    if (left < 0) end()
    else if (!outgoing.write(chunk)) request.pause()
  })
  request.once('end', end)
  request.once('close', () => left > 0 && end())
  outgoing.on('drain', () => request.resume())
  outgoing.once('close', () => request.resume())
}

function answerTo(outgoing: ClientRequest): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  outgoing.on('response', resolve)
  outgoing.on('error', reject)
  outgoing.once('close', () => reject(new Error('The relay has closed the connection.')))
  return promise
}
