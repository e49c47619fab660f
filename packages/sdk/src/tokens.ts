/**
 * The exchange of an API key for a token that the relay takes (SPEC.md 1.5). The key goes to the API over TLS 1.3, never
 * after a redirect, and into no error.
 */
import { type IssuedToken, StaticError } from '@static/protocol'
import { apiRefusal, callApi } from './api-call.ts'
import { parseApiUrl } from './endpoint.ts'
import type { AgentId, Time } from './ports.ts'

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
  const { apiKey, agentId, ca, now = Date.now, timeoutMs } = options
  checkApiKey(apiKey)
  const url = new URL(`${parseApiUrl(options.apiUrl)}/v1/tokens`)
  return async () => {
    const askedAt = now()
    const answer = await callApi({ url, method: 'POST', apiKey, body: { agent_id: agentId }, ca, timeoutMs })
    if (answer.status !== 200) throw apiRefusal(url, answer, apiKey)
    const { token, expires_in: seconds } = (answer.json ?? {}) as Partial<IssuedToken>
    // The token becomes a field of a message: any text will do there, but nothing else.
    if (typeof token !== 'string' || token === '' || typeof seconds !== 'number' || !(seconds > 0)) {
      throw StaticError.of('unavailable', `${url.origin} answers without a token: it may not be the API.`)
    }
    // From before the request: a token is used rather too short than too long.
    return { jwt: token, expiresAt: askedAt + seconds * 1000 }
  }
}
