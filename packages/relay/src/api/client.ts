/** HTTPS client for an API in other processes: fetches token keys and quota. */
import { randomBytes, randomUUID } from 'node:crypto'
import { Agent, request } from 'node:https'
import { TLS_GROUPS } from '@static/node/tls-groups'
import { type ChannelDeletion, type Lease, type Problem, StaticError } from '@static/protocol'
import type { BlockedAnswer, DeletionSource, OverviewSink, QuotaSource, Time } from '../ports.ts'
import { ApiNodes, CALL_MS } from './nodes.ts'

/** How to reach the API. */
export interface ApiAccess {
  /** Its public URLs; several if it has nodes without a common name. */
  readonly urls: readonly string[]
  /** URLs of its nodes' listeners for relay nodes, and the credential for them. */
  readonly internalUrls: readonly string[]
  readonly credential: string
  /** CA of its certificate, PEM. Default: the system's. */
  readonly ca?: string | undefined
}

/** The API as a relay uses it. */
export interface ApiClient extends QuotaSource, OverviewSink, DeletionSource {
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

const MAX_BODY_BYTES = 65_536

/** Creates the client. Connections are kept open between calls. */
export function makeApiClient(
  { urls, internalUrls, credential, ca }: ApiAccess,
  now: () => Time,
  log: ApiLog = { debug: () => {}, failed: () => {} },
): ApiClient {
  const agent = new Agent({
    keepAlive: true,
    maxSockets: 8,
    minVersion: 'TLSv1.3',
    ecdhCurve: TLS_GROUPS,
    ...(ca === undefined ? {} : { ca }),
  })
  const nodes = new ApiNodes(urls)
  const internal = new ApiNodes(internalUrls)
  /** Distinguishes this node from others of the same relay. */
  const self = randomBytes(8).toString('hex')
  let clockOffsetMs: number | undefined
  /** The API nodes on which someone is viewing an account. */
  let askers = new Map<string, string[]>()
  const call = async (asked: Omit<Asked, 'agent'>): Promise<unknown> => {
    const sentAt = now()
    const id = randomUUID()
    const done = (): ApiCall => ({ request_id: id, path: asked.url.pathname, ms: now() - sentAt })
    try {
      const answer = await ask({ ...asked, agent, headers: { ...asked.headers, 'x-request-id': id } }, (date) => {
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
  const postTo =
    (path: string, body: object) =>
    (node: string, timeoutMs: number): Promise<unknown> => {
      // The API compares our clock with its own and also reports a difference to its operator.
      const headers = { authorization: `Bearer ${credential}`, date: new Date(now()).toUTCString() }
      return call({ url: new URL(path, node), headers, body: JSON.stringify(body), timeoutMs })
    }
  const post = (path: string, body: object): Promise<unknown> => internal.call(postTo(path, body))
  return {
    keys: () =>
      nodes.call((node, timeoutMs) =>
        call({ url: new URL('/.well-known/jwks.json', node), headers: {}, timeoutMs }),
      ) as ReturnType<ApiClient['keys']>,
    lease: ({ id, mode }, amount) =>
      post('/internal/v1/quota/leases', { account_id: id, mode, amount }) as Promise<Lease>,
    settle: (lease, spent, final, keys) => post(`/internal/v1/quota/leases/${lease}/settle`, { spent, final, keys }),
    async blocked(accounts) {
      return (await post('/internal/v1/accounts/blocked', { account_ids: accounts })) as BlockedAnswer
    },
    async watched(relay) {
      const answers = await internal.callAll(postTo('/internal/v1/overviews/watched', { relay_id: relay, node: self }))
      askers = askersOf(answers as Map<string, { readonly account_ids: readonly string[] }>)
      return [...askers.keys()]
    },
    async report(account, overview) {
      const send = postTo('/internal/v1/overviews', { account_id: account, node: self, ...overview })
      await Promise.all((askers.get(account) ?? []).map((node) => send(node, CALL_MS)))
    },
    ...deletionsFrom(post),
    async check() {
      try {
        await internal.callAll(postTo('/internal/v1/accounts/blocked', { account_ids: [] }))
      } catch (error) {
        const { code } = StaticError.from(error)
        if (code === 'unavailable') throw error
        const why =
          code === 'auth_key_invalid' ? 'rejected the relay credential' : 'is not the listener for relay nodes'
        throw StaticError.of('invalid_request', `The API at ${internalUrls.join(', ')} ${why}.`)
      }
    },
    clockOffsetMs: () => clockOffsetMs,
    close: () => agent.destroy(),
  }
}

function deletionsFrom(post: (path: string, body: object) => Promise<unknown>): DeletionSource {
  const path = '/internal/v1/channels/deletions'
  return {
    async deletions(relay) {
      const answer = await post(path, { relay_id: relay })
      return (answer as { readonly deletions: readonly ChannelDeletion[] }).deletions
    },
    reportDeletion: (id, relay, deleted) => post(`${path}/${id}`, { relay_id: relay, deleted }),
  }
}

/** The nodes that asked for each account. Takes accounts from the nodes in turn, so that no node crowds out another. */
function askersOf(answers: ReadonlyMap<string, { readonly account_ids: readonly string[] }>): Map<string, string[]> {
  const askers = new Map<string, string[]>()
  const longest = Math.max(...[...answers.values()].map(({ account_ids: ids }) => ids.length))
  for (let at = 0; at < longest; at++) {
    for (const [node, { account_ids: ids }] of answers) {
      const account = ids[at]
      if (account !== undefined) askers.set(account, [...(askers.get(account) ?? []), node])
    }
  }
  return askers
}

interface Asked {
  readonly agent: Agent
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  /** Makes the request a POST. */
  readonly body?: string
  readonly timeoutMs: number
}

/** Makes one JSON request. Rejects with the API's error code, or with `unavailable`. */
function ask({ agent, url, headers, body, timeoutMs }: Asked, dated: (date: number) => void): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>()
  const fail = (cause: unknown): void =>
    reject(StaticError.of('unavailable', `The API at ${url.origin} is unreachable.`, { cause, retryAfter: 1 }))
  const sent = request(
    url,
    {
      agent,
      method: body === undefined ? 'GET' : 'POST',
      headers: body === undefined ? headers : { ...headers, 'content-type': 'application/json' },
      signal: AbortSignal.timeout(timeoutMs),
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
