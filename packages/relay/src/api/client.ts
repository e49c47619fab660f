/** HTTPS client for an API in another process: fetches token keys and quota. */
import { randomUUID } from 'node:crypto'
import { Agent, request } from 'node:https'
import { type Lease, type Problem, StaticError } from '@static/protocol'
import type { OverviewSink, QuotaSource, Time } from '../ports.ts'

/** How to reach the API. */
export interface ApiAccess {
  /** Its public URL. */
  readonly url: string
  /** URL of the listener for relay nodes, and the credential for it. */
  readonly internalUrl: string
  readonly credential: string
  /** CA of its certificate, PEM. Default: the system's. */
  readonly ca?: string | undefined
}

/** The API as a relay uses it. */
export interface ApiClient extends QuotaSource, OverviewSink {
  keys(): Promise<{ readonly keys: readonly object[] }>
  /** Rejects with `invalid_request` if the API refuses the credential, with `unavailable` if there is no answer. */
  check(): Promise<void>
  /** How far the API's clock is ahead of ours, by its last answer. */
  clockOffsetMs(): number | undefined
  close(): void
}

/** Where the client reports its calls. */
export interface ApiLog {
  debug(detail: ApiCall, message: string): void
  /** A call had no answer, or the API failed. */
  failed(call: ApiCall, error: StaticError): void
}

/** A call, by the id that is also in the API's log. */
export interface ApiCall {
  readonly request_id: string
  readonly path: string
  readonly ms: number
}

const TIMEOUT_MS = 5000
const MAX_BODY_BYTES = 65_536

/** Creates the client. Connections are kept open between calls. */
export function makeApiClient(
  { url, internalUrl, credential, ca }: ApiAccess,
  now: () => Time,
  log: ApiLog = { debug: () => {}, failed: () => {} },
): ApiClient {
  const agent = new Agent({
    keepAlive: true,
    maxSockets: 8,
    minVersion: 'TLSv1.3',
    ...(ca === undefined ? {} : { ca }),
  })
  let clockOffsetMs: number | undefined
  const call = async (url: URL, headers: Record<string, string>, body?: string): Promise<unknown> => {
    const sentAt = now()
    const id = randomUUID()
    const done = (): ApiCall => ({ request_id: id, path: url.pathname, ms: now() - sentAt })
    try {
      const answer = await ask(agent, url, { ...headers, 'x-request-id': id }, body, (date) => {
        // The header has whole seconds, rounded down.
        clockOffsetMs = Math.round(date + 500 - (sentAt + now()) / 2)
      })
      log.debug(done(), 'API answered')
      return answer
    } catch (error) {
      const known = StaticError.from(error)
      if (known.code === 'unavailable') log.failed(done(), known)
      throw error
    }
  }
  const post = (path: string, body: object): Promise<unknown> => {
    // The API compares our clock with its own and reports a difference to its operator too.
    const headers = { authorization: `Bearer ${credential}`, date: new Date(now()).toUTCString() }
    return call(new URL(path, internalUrl), headers, JSON.stringify(body))
  }
  const blocked = async (accounts: readonly string[]): Promise<readonly string[]> => {
    const answer = await post('/internal/v1/accounts/blocked', { account_ids: accounts })
    return (answer as { readonly blocked: readonly string[] }).blocked
  }
  return {
    keys: () => call(new URL('/.well-known/jwks.json', url), {}) as ReturnType<ApiClient['keys']>,
    lease: ({ id, mode }, amount) =>
      post('/internal/v1/quota/leases', { account_id: id, mode, amount }) as Promise<Lease>,
    settle: (lease, spent, final, keys) => post(`/internal/v1/quota/leases/${lease}/settle`, { spent, final, keys }),
    blocked,
    async watched(relay) {
      const answer = await post('/internal/v1/overviews/watched', { relay_id: relay })
      return (answer as { readonly account_ids: readonly string[] }).account_ids
    },
    report: (account, overview) => post('/internal/v1/overviews', { account_id: account, ...overview }),
    async check() {
      const refusal = await blocked([]).then(
        () => undefined,
        (error: unknown) => StaticError.from(error),
      )
      if (refusal === undefined) return
      if (refusal.code === 'unavailable') throw refusal
      const stranger = refusal.code === 'auth_key_invalid'
      const why = stranger ? 'rejected the relay credential' : 'is not the listener for relay nodes'
      throw StaticError.of('invalid_request', `The API at ${internalUrl} ${why}.`)
    },
    clockOffsetMs: () => clockOffsetMs,
    close: () => agent.destroy(),
  }
}

/** One JSON request. Rejects with the code that the API answered, or with `unavailable`. */
function ask(
  agent: Agent,
  url: URL,
  headers: Record<string, string>,
  body: string | undefined,
  dated: (date: number) => void,
): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>()
  const fail = (cause: unknown): void =>
    reject(StaticError.of('unavailable', `The API at ${url.origin} is unreachable.`, { cause, retryAfter: 1 }))
  const sent = request(
    url,
    {
      agent,
      method: body === undefined ? 'GET' : 'POST',
      headers: body === undefined ? headers : { ...headers, 'content-type': 'application/json' },
      signal: AbortSignal.timeout(TIMEOUT_MS),
    },
    (response) => {
      const date = Date.parse(response.headers.date ?? '')
      if (Number.isFinite(date)) dated(date)
      const chunks: Buffer[] = []
      let length = 0
      response.on('data', (chunk: Buffer) => {
        length += chunk.length
        if (length > MAX_BODY_BYTES) sent.destroy(new Error(`The response is longer than ${MAX_BODY_BYTES} bytes.`))
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
