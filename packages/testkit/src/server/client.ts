/** An HTTP client over TLS 1.3 with persistent connections. */
import { Agent, request as httpsRequest } from 'node:https'
import type { IncomingHttpHeaders } from 'node:http'
import { text } from 'node:stream/consumers'

/** A request. */
export interface Call {
  readonly method?: string
  readonly path: string
  /** An API key, or any other text to send as the bearer token. */
  readonly key?: string | undefined
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON. */
  readonly body?: unknown
  /** Sent unchanged, instead of `body`. */
  readonly raw?: string | Uint8Array
}

/** A response. */
export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

/** A client of one server. */
export interface Client extends Disposable {
  call(call: Call): Promise<Answer>
  /**
   * Calls again while the answer is 503, as clients do: on a busy machine a connection to PostgreSQL can take longer
   * than the API waits for it.
   */
  retry(call: Call): Promise<Answer>
  /** Calls, retries, checks the status and parses the JSON. */
  json<T>(status: number, call: Call): Promise<T>
  close(): void
}

const MOST_TRIES = 40

/** Creates a client that trusts only `ca`. */
export function makeClient(url: string, ca: string, { connections = 8 }: { connections?: number } = {}): Client {
  const agent = new Agent({ keepAlive: true, maxSockets: connections, ca, minVersion: 'TLSv1.3' })
  const call = async ({ method = 'GET', path, key, headers, body, raw }: Call): Promise<Answer> => {
    const payload = raw ?? (body === undefined ? undefined : JSON.stringify(body))
    const request = httpsRequest(`${url}${path}`, {
      agent,
      method,
      headers: {
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
        ...(payload === undefined ? {} : { 'content-type': 'application/json' }),
        ...(payload === undefined ? {} : { 'content-length': Buffer.byteLength(payload) }),
        ...headers,
      },
    })
    const { promise, resolve, reject } = Promise.withResolvers<Answer>()
    request.on('error', reject)
    request.on('response', (response) => {
      text(response).then(
        (content) => resolve({ status: response.statusCode ?? 0, headers: response.headers, text: content }),
        reject,
      )
    })
    request.end(payload)
    return promise
  }
  const retry = async (wanted: Call): Promise<Answer> => {
    let answer = await call(wanted)
    for (let tries = 1; answer.status === 503 && tries < MOST_TRIES; tries++) answer = await call(wanted)
    return answer
  }
  return {
    call,
    retry,
    async json<T>(status: number, wanted: Call): Promise<T> {
      const answer = await (status === 503 ? call(wanted) : retry(wanted))
      if (answer.status !== status) {
        throw new Error(`${wanted.method ?? 'GET'} ${wanted.path} answered ${answer.status}: ${answer.text}`)
      }
      return JSON.parse(answer.text) as T
    },
    close: () => agent.destroy(),
    [Symbol.dispose]: () => agent.destroy(),
  }
}
