/** The client's end: the JSON-RPC transport of `@a2a-js/sdk`, with requests in a channel in place of HTTP. */
import { JsonRpcTransportFactory, type TransportFactory } from '@a2a-js/sdk/client'
import { A2A_BINDING, StaticError } from '@static/protocol'
import type { AgentId, Answer, Ask, Channel } from '@static/sdk'
import { encodeEnvelope, hasError } from './envelope.ts'

/** Options of `a2aTransport`. */
export interface A2ATransportOptions {
  /** The member that serves A2A. */
  readonly to: AgentId
  /** How long a call waits for the member, in seconds, at most 604,800. Default: 86,400 (a day). */
  readonly timeout?: number
}

const TIMEOUT = 86_400
/** Headers that HTTP needs and a channel does not. */
const HTTP_ONLY: ReadonlySet<string> = new Set(['content-type', 'accept'])

/**
 * A transport factory for the `ClientFactory` of `@a2a-js/sdk`: its calls go to a member of a channel. Service
 * parameters travel with each call. A call waits while the member is off. Its errors are those of the JSON-RPC transport,
 * and a `StaticError` for what happens to the request (`ask_timeout`, `too_large`, `not_found`).
 *
 * @example
 * const factory = new ClientFactory({ transports: [a2aTransport(channel, { to })] })
 */
export function a2aTransport(channel: Channel, { to, timeout = TIMEOUT }: A2ATransportOptions): TransportFactory {
  const fetchImpl: typeof fetch = async (_url, init = {}) => {
    const headers = Object.entries((init.headers ?? {}) as Readonly<Record<string, string>>)
    const parameters = Object.fromEntries(headers.filter(([name]) => !HTTP_ONLY.has(name.toLowerCase())))
    const isStream = headers.some(([name, value]) => name.toLowerCase() === 'accept' && value === 'text/event-stream')
    const call = typeof init.body === 'string' ? init.body : '{}'
    const signal = init.signal ? { signal: init.signal } : {}
    const ask = channel.ask(encodeEnvelope(parameters, call), { to, timeout, ...signal })
    const { value: first } = await ask.next()
    if (!first) throw StaticError.of('ask_failed', `Agent ${to} answered nothing.`)
    const response = textOf(first)
    if (isStream && !hasError(response)) return eventStream(ask, response)
    ask.cancel()
    return new Response(response, { headers: { 'content-type': 'application/json' } })
  }
  const factory = new JsonRpcTransportFactory({ fetchImpl })
  return { protocolName: A2A_BINDING, create: (url, card) => factory.create(url, card) }
}

/** Answers as the events that the JSON-RPC transport reads. Ending it early cancels the request. */
function eventStream(ask: Ask, first: string): Response {
  const encoder = new TextEncoder()
  let next: string | undefined = first
  const body = new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        const response = next ?? (await ask.next().then(({ value }) => value && textOf(value)))
        next = undefined
        if (response === undefined) return controller.close()
        const name = hasError(response) ? 'event: error\n' : ''
        controller.enqueue(encoder.encode(`${name}data: ${response}\n\n`))
      },
      cancel: () => ask.cancel(),
    },
    // Nothing is read ahead: unread answers hold back the server.
    { highWaterMark: 0 },
  )
  return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
}

/** The text of an answer. Its limit of size is that of a channel, not of A2A, so it is told apart. */
function textOf(answer: Answer): string {
  const failure = answer.error?.details.answer
  if (failure?.code === 'too_large') throw StaticError.of('too_large', failure.message)
  return answer.text()
}
