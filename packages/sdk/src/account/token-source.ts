/**
 * Exchanges an API key for a token that the relay accepts (SPEC.md 1.5). The key is sent only to the API, over TLS 1.3;
 * it never follows a redirect and never appears in an error.
 */
import { type IssuedToken, StaticError } from '@static/protocol'
import { apiRefusal, callApi } from './api-call.ts'
import { parseApiUrl } from './endpoint.ts'
import type { AgentId, Time } from '../ports/index.ts'

export interface AgentToken {
  readonly jwt: string
  /** By the local clock. */
  readonly expiresAt: Time
}

/** Fetches a new token with every call. */
export type TokenSource = () => Promise<AgentToken>

/** Where tokens come from, and for which agent. */
export interface TokenOptions {
  /** As returned by `parseApiUrl`. */
  readonly apiUrl: string
  readonly apiKey: string
  /** CA of the API's certificate, PEM; undefined: Node's default authorities. */
  readonly ca: string | undefined
  /** The only agent that the token is valid for. */
  readonly agentId: AgentId
  /** For tests. */
  readonly now?: () => Time
  readonly timeoutMs?: number
}

/** The key goes into a header unescaped, so only printable ASCII is allowed. */
const KEY = /^[!-~]{1,512}$/

/**
 * Rejects text that cannot be an API key.
 *
 * @throws {StaticError} `auth_key_invalid`
 */
export function checkApiKey(key: string): void {
  if (KEY.test(key)) return
  throw StaticError.of(
    'auth_key_invalid',
    'The API key contains a space, a line break or another character that no key has. Copy it again.',
  )
}

/**
 * Creates a token source. A call rejects with the error code of the API, with `connection_error` if the API cannot be
 * reached, or with `unavailable` for any other answer.
 *
 * @throws {StaticError} `invalid_request` for an API URL that is not https, `auth_key_invalid`
 */
export function makeTokenSource(options: TokenOptions): TokenSource {
  const { apiKey, agentId, ca, now = Date.now, timeoutMs } = options
  checkApiKey(apiKey)
  const url = new URL(`${parseApiUrl(options.apiUrl)}/v1/tokens`)
  return async () => {
    const askedAt = now()
    const answer = await callApi({ url, method: 'POST', apiKey, body: { agent_id: agentId }, ca, timeoutMs })
    if (answer.status !== 200) throw apiRefusal(url, answer, apiKey)
    const { token, expires_in: seconds } = (answer.json ?? {}) as Partial<IssuedToken>
    // The token becomes a text field of a message, so it can be any string, but nothing else.
    if (typeof token !== 'string' || token === '' || typeof seconds !== 'number' || !(seconds > 0)) {
      throw StaticError.of(
        'unavailable',
        `The response from ${url.origin} contains no token. Check that this is the URL of the API.`,
      )
    }
    // Counted from before the request, so that the token expires too early rather than too late.
    return { jwt: token, expiresAt: askedAt + seconds * 1000 }
  }
}
