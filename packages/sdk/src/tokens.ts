/**
 * The exchange of an API key for a token that the relay takes (SPEC.md 1.5). The key goes to the API over TLS 1.3, never
 * after a redirect, and into no error.
 */
import type { IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { ERRORS, type ErrorCode, type IssuedToken, type Problem, StaticError } from '@static/protocol'
import { parseApiUrl } from './endpoint.ts'
import type { AgentId, Time } from './ports.ts'
import { peerSentence } from './transport/peer-text.ts'
import { tcpFailure } from './transport/tcp-failure.ts'

/** A token for this agent. */
export interface AgentToken {
  readonly jwt: string
  /** By the clock of this machine. */
  readonly expiresAt: Time
}

/** Gets a new token with every call. */
export type TokenSource = () => Promise<AgentToken>

/** Where tokens come from, and for whom. */
export interface TokenOptions {
  /** As `parseApiUrl` gives it. */
  readonly apiUrl: string
  readonly apiKey: string
  /** The authority of the API's certificate, PEM; undefined: those that Node knows. */
  readonly ca: string | undefined
  /** Only this agent can use the token. */
  readonly agentId: AgentId
  /** For tests. */
  readonly now?: () => Time
  readonly timeoutMs?: number
}

const TIMEOUT_MS = 10_000
const MAX_ANSWER_BYTES = 65_536
/** A header carries it as it is. */
const KEY = /^[!-~]{1,512}$/

/**
 * Refuses what cannot be an API key.
 *
 * @throws {StaticError} `auth_key_invalid`
 */
export function checkApiKey(key: string): void {
  if (KEY.test(key)) return
  throw StaticError.of('auth_key_invalid', 'The API key holds a space, a line break or another sign that no key has.')
}

/**
 * Makes the source. A call rejects with the code that the API answers, `connection_error` when the API cannot be
 * reached, `unavailable` when it answers anything else.
 *
 * @throws {StaticError} `invalid_request` for an API URL that is not https, `auth_key_invalid`
 */
export function makeTokenSource(options: TokenOptions): TokenSource {
  const { apiKey, agentId, ca, now = Date.now, timeoutMs = TIMEOUT_MS } = options
  checkApiKey(apiKey)
  const url = new URL(`${parseApiUrl(options.apiUrl)}/v1/tokens`)
  const body = JSON.stringify({ agent_id: agentId })
  return async () => {
    const askedAt = now()
    const answer = await post(url, { apiKey, body, ca, timeoutMs })
    if (answer.status !== 200) throw refusal(url, answer, apiKey)
    const { token, expires_in: seconds } = (answer.json ?? {}) as Partial<IssuedToken>
    // The token becomes a field of a message: any text will do there, but nothing else.
    if (typeof token !== 'string' || token === '' || typeof seconds !== 'number' || !(seconds > 0)) {
      throw StaticError.of('unavailable', `${url.origin} answers without a token: it may not be the API.`)
    }
    // From before the request: a token is used rather too short than too long.
    return { jwt: token, expiresAt: askedAt + seconds * 1000 }
  }
}

interface Answer {
  readonly status: number
  /** Undefined when the body is not JSON. */
  readonly json: unknown
  readonly retryAfter: number | undefined
}

interface Question {
  readonly apiKey: string
  readonly body: string
  readonly ca: string | undefined
  readonly timeoutMs: number
}

/** One exchange on a connection of its own. */
async function post(url: URL, { apiKey, body, ca, timeoutMs }: Question): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  const sent = request(url, {
    method: 'POST',
    agent: false,
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json', accept: 'application/json' },
    minVersion: 'TLSv1.3',
    // Not as NODE_TLS_REJECT_UNAUTHORIZED may want it.
    rejectUnauthorized: true,
    ...(ca === undefined ? {} : { ca }),
  })
  const timer = setTimeout(
    () => sent.destroy(Object.assign(new Error('no answer in time'), { code: 'ETIMEDOUT' })),
    timeoutMs,
  )
  sent.on('response', (response) => {
    gather(response, MAX_ANSWER_BYTES).then(
      (bytes) => resolve({ status: response.statusCode ?? 0, json: parsed(bytes), retryAfter: secondsOf(response) }),
      (error: unknown) => {
        reject(error)
        sent.destroy()
      },
    )
  })
  sent.on('error', reject)
  sent.end(body)
  try {
    return await promise
  } catch (cause) {
    const place = `${url.hostname}:${url.port === '' ? 443 : url.port}`
    const failure = tcpFailure({ place, serverName: url.hostname, cause })
    throw failure.code === 'connection_error'
      ? StaticError.of('connection_error', `The API at ${url.origin} cannot be reached. ${failure.message}`, { cause })
      : failure
  } finally {
    clearTimeout(timer)
  }
}

async function gather(response: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    length += chunk.length
    if (length > maxBytes) throw StaticError.of('unavailable', 'The API answers with more than any token has.')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString())
  } catch {
    return undefined
  }
}

function secondsOf(response: IncomingMessage): number | undefined {
  const text = response.headers['retry-after'] ?? ''
  return /^\d{1,6}$/.test(text) ? Number(text) : undefined
}

/** What the API says against the exchange. */
function refusal({ origin }: URL, { status, json, retryAfter }: Answer, apiKey: string): StaticError {
  const { code, detail } = (json ?? {}) as Partial<Problem>
  const details = retryAfter === undefined ? {} : { retryAfter }
  if (typeof code === 'string' && Object.hasOwn(ERRORS, code)) {
    const known: ErrorCode = code
    const words = typeof detail === 'string' ? peerSentence(detail.replaceAll(apiKey, '…')) : ''
    return StaticError.of(known, words === '' ? undefined : words, details)
  }
  if (status === 401) return StaticError.of('auth_failed', `The API at ${origin} does not take the API key.`, details)
  return StaticError.of('unavailable', `The API at ${origin} answers with HTTP status ${status}.`, details)
}
