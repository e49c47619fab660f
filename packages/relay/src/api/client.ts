/** What a relay of its own process asks the API for over HTTPS: the keys of tokens, and quota. */
import { Agent, request } from 'node:https'
import { type Lease, type Problem, StaticError } from '@static/protocol'
import type { QuotaSource } from '../ports.ts'

/** Where the API is. */
export interface ApiAccess {
  /** Its public address. */
  readonly url: string
  /** The listener for relay nodes, and what it knows them by. */
  readonly internalUrl: string
  readonly credential: string
  /** The authority of its certificate, PEM; that of the system by default. */
  readonly ca?: string | undefined
}

/** The API as a relay sees it. */
export interface ApiClient extends QuotaSource {
  keys(): Promise<{ readonly keys: readonly object[] }>
  /** Rejects with `invalid_request` when the API there does not take the credential, `unavailable` when none answers. */
  check(): Promise<void>
  close(): void
}

const TIMEOUT_MS = 5000
const MAX_BODY_BYTES = 65_536

/** Makes the client; connections are kept open between calls. */
export function makeApiClient({ url, internalUrl, credential, ca }: ApiAccess): ApiClient {
  const agent = new Agent({
    keepAlive: true,
    maxSockets: 8,
    minVersion: 'TLSv1.3',
    ...(ca === undefined ? {} : { ca }),
  })
  const post = (path: string, body: object): Promise<unknown> =>
    ask(agent, new URL(path, internalUrl), { authorization: `Bearer ${credential}` }, JSON.stringify(body))
  return {
    keys: () => ask(agent, new URL('/.well-known/jwks.json', url), {}) as ReturnType<ApiClient['keys']>,
    lease: ({ id, mode }, amount) =>
      post('/internal/v1/quota/leases', { account_id: id, mode, amount }) as Promise<Lease>,
    settle: (lease, spent, final) => post(`/internal/v1/quota/leases/${lease}/settle`, { spent, final }),
    async check() {
      // It lends nothing to nobody; whom it does not know it refuses for that.
      const refusal = await post('/internal/v1/quota/leases', {}).then(
        () => undefined,
        (error: unknown) => StaticError.from(error),
      )
      if (refusal?.code === 'invalid_request') return
      if (refusal?.code === 'unavailable') throw refusal
      const stranger = refusal?.code === 'auth_key_invalid'
      const why = stranger ? 'does not take the relay credential' : 'is not the listener for relay nodes'
      throw StaticError.of('invalid_request', `The API at ${internalUrl} ${why}.`)
    },
    close: () => agent.destroy(),
  }
}

/** One exchange of JSON. Rejects with the code that the API answered, or `unavailable`. */
function ask(agent: Agent, url: URL, headers: Record<string, string>, body?: string): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>()
  const fail = (cause: unknown): void =>
    reject(StaticError.of('unavailable', 'The API is out of reach.', { cause, retryAfter: 1 }))
  const sent = request(
    url,
    {
      agent,
      method: body === undefined ? 'GET' : 'POST',
      headers: body === undefined ? headers : { ...headers, 'content-type': 'application/json' },
      signal: AbortSignal.timeout(TIMEOUT_MS),
    },
    (response) => {
      const chunks: Buffer[] = []
      let length = 0
      response.on('data', (chunk: Buffer) => {
        length += chunk.length
        if (length > MAX_BODY_BYTES) sent.destroy(new Error('The answer is too long.'))
        else chunks.push(chunk)
      })
      response.on('error', fail)
      response.on('end', () => {
        try {
          const answer: unknown = JSON.parse(Buffer.concat(chunks).toString())
          if (response.statusCode !== undefined && response.statusCode < 300) return resolve(answer)
          const { code, detail } = answer as Problem
          if (response.statusCode !== undefined && response.statusCode >= 500) return fail(new Error(detail))
          reject(StaticError.of(code, detail))
        } catch (error) {
          fail(error)
        }
      })
    },
  )
  sent.on('error', fail)
  sent.end(body)
  return promise
}
