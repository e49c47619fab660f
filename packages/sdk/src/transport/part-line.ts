/**
 * Connections to the relay's port of files (SPEC.md, 3.12): HTTP/1.1 over TLS 1.3, verified like those of a session. A
 * part is one request. Nothing that the server says can make the agent keep more than that part.
 */
import type { ClientRequest, IncomingMessage } from 'node:http'
import { Agent, request as requestHttps, type RequestOptions } from 'node:https'
import { isIP } from 'node:net'
import { ConnectionError } from '@static/node/connection-error'
import { CONNECT_TIMEOUT_MS, placeOf } from '@static/node/dial'
import { TLS_GROUPS } from '@static/node/tls-groups'
import { SESSION_METADATA, type StaticError } from '@static/protocol'
import type { PartLine, PartReply, PartRequest } from '../ports/index.ts'
import { tcpFailure } from './tcp-failure.ts'

/** The relay ends a body on which nothing has moved for 30 s. */
const STALL_MS = 40_000
/** The longest text about a refusal. */
const MOST_PROBLEM_BYTES = 16_384
const MOST_SOCKETS = 4
const IDLE_SOCKET_MS = 4000
const MS = 1000

export interface PartLineOptions {
  /** CA of the server's certificate, PEM; undefined: Node's default authorities. */
  readonly ca: string | undefined
  readonly connectTimeoutMs?: number
}

export function makePartLine({ ca, connectTimeoutMs = CONNECT_TIMEOUT_MS }: PartLineOptions): PartLine {
  const agent = new Agent({
    keepAlive: true,
    keepAliveMsecs: IDLE_SOCKET_MS,
    maxSockets: MOST_SOCKETS,
    timeout: STALL_MS,
    minVersion: 'TLSv1.3',
    ecdhCurve: TLS_GROUPS,
    ALPNProtocols: ['http/1.1'],
    // Regardless of NODE_TLS_REJECT_UNAUTHORIZED.
    rejectUnauthorized: true,
    ...(ca === undefined ? {} : { ca }),
  })
  const send = async (asked: PartRequest, body: Uint8Array | undefined, length: number): Promise<PartReply> => {
    try {
      return await exchange({ agent, connectTimeoutMs }, asked, body, length)
    } catch (error) {
      asked.signal.throwIfAborted()
      // The server closes connections that were idle, which is no failure.
      if (!(error instanceof ReusedError)) throw error
      return await exchange({ agent, connectTimeoutMs }, asked, body, length)
    }
  }
  return {
    put: (asked, bytes) => send(asked, bytes, 0),
    get: (asked, length) => send(asked, undefined, length),
    close: () => agent.destroy(),
  }
}

/** A connection that had been used before was lost before anything was answered. */
class ReusedError extends ConnectionError {}

interface Dialing {
  readonly agent: Agent
  readonly connectTimeoutMs: number
}

async function exchange(
  { agent, connectTimeoutMs }: Dialing,
  { place: { host, port, serverName }, path, token, signal }: PartRequest,
  body: Uint8Array | undefined,
  length: number,
): Promise<PartReply> {
  signal.throwIfAborted()
  const place = placeOf(host, port)
  if (isIP(serverName) !== 0)
    throw new ConnectionError('unusable', `The relay names ${place} for files, which is not a DNS name.`)
  const options: RequestOptions = {
    agent,
    host,
    port,
    servername: serverName,
    path,
    signal,
    method: body === undefined ? 'GET' : 'PUT',
    headers: {
      host: `${serverName}:${port}`,
      [SESSION_METADATA]: token,
      ...(body === undefined ? {} : { 'content-length': body.length }),
    },
  }
  const request = requestHttps(options)
  const { promise: answered, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const late = setTimeout(
    () => request.destroy(new ConnectionError('timed_out', `Connecting to ${place} timed out.`)),
    connectTimeoutMs,
  )
  request.on('error', reject)
  request.on('response', resolve)
  request.on('socket', (socket) => {
    if (request.reusedSocket) clearTimeout(late)
    else socket.once('secureConnect', () => clearTimeout(late))
  })
  request.setTimeout(STALL_MS, () =>
    request.destroy(
      new ConnectionError('timed_out', `Nothing moved on the connection to ${place} for ${STALL_MS / MS} s.`),
    ),
  )
  request.end(body)
  let isAnswered = false
  try {
    const response = await answered
    // From here on the response reports failures, and a request that is still being sent may fail unheard.
    isAnswered = true
    const reply = await read(response, length, place)
    // The caller may use the memory again. An honest server answers once it has the part.
    if (body !== undefined && !request.writableFinished) {
      if (reply.type === 'done') await finished(request)
      else request.destroy()
    }
    return reply
  } catch (cause) {
    request.destroy()
    const failure = tcpFailure({ place, serverName, cause })
    const isStale = request.reusedSocket && !isAnswered && failure instanceof ConnectionError
    throw isStale ? new ReusedError('closed', failure.message) : failure
  } finally {
    clearTimeout(late)
  }
}

/** Waits until a request has been handed to the system. */
async function finished(request: ClientRequest): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  request.once('finish', resolve)
  request.once('error', reject)
  request.once('close', () => reject(new ConnectionError('closed', 'The server ended the connection.')))
  await promise
}

async function read(response: IncomingMessage, length: number, place: string): Promise<PartReply> {
  const { statusCode: status = 0, headers } = response
  const token = headers[SESSION_METADATA]
  if (status !== 200 && status !== 204) return await refusalOf(response, status)
  const bytes = new Uint8Array(length)
  let at = 0
  for await (const chunk of response as AsyncIterable<Uint8Array>) {
    if (at + chunk.length > length) throw wrongLength(place, length)
    bytes.set(chunk, at)
    at += chunk.length
  }
  if (at !== length) throw wrongLength(place, length)
  return { type: 'done', token: typeof token === 'string' ? token : undefined, bytes }
}

async function refusalOf(response: IncomingMessage, status: number): Promise<PartReply> {
  let text = ''
  for await (const chunk of response as AsyncIterable<Uint8Array>) {
    if (text.length > MOST_PROBLEM_BYTES) break
    text += Buffer.from(chunk).toString()
  }
  const { code, detail } = problemOf(text)
  const seconds = Number(response.headers['retry-after'])
  const retryAfterMs = seconds > 0 ? seconds * MS : undefined
  return { type: 'refused', status, code, message: detail, retryAfterMs }
}

/** A problem document; a proxy in between may answer with something else. */
function problemOf(text: string): { readonly code: string; readonly detail: string } {
  try {
    const { code, detail } = JSON.parse(text) as Readonly<Record<string, unknown>>
    if (typeof code === 'string') return { code, detail: typeof detail === 'string' ? detail : '' }
  } catch {
    // It is none.
  }
  return { code: '', detail: '' }
}

function wrongLength(place: string, length: number): StaticError {
  return new ConnectionError('closed', `${place} sent a part of another length than ${length} bytes.`)
}
