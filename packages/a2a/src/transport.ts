/** The client's end: the JSON-RPC transport of `@a2a-js/sdk`, with requests in a channel instead of HTTP. */
import { JsonRpcTransportFactory, type TransportFactory } from '@a2a-js/sdk/client'
import { A2A_BINDING, checkOptionNames, StaticError } from '@static/protocol'
import type { AgentId, Answer, Ask, Channel } from '@static/sdk'
import { type Called, decodeResponse, encodeEnvelope } from './envelope.ts'
import { dropFiles, restoreLargeParts, sendLargeParts } from './files.ts'

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
 * parameters travel with each call. A call waits while the member is offline. It throws the errors of the JSON-RPC
 * transport, and a `StaticError` if the request fails (`ask_timeout`, `too_large`, `not_found`).
 *
 * @example
 * const factory = new ClientFactory({ transports: [a2aTransport(channel, { to })] })
 */
export function a2aTransport(channel: Channel, options: A2ATransportOptions): TransportFactory {
  checkOptionNames('a2aTransport', options, ['to', 'timeout'])
  const { to, timeout = TIMEOUT } = options
  const fetchImpl: typeof fetch = async (_url, init = {}) => {
    const headers = Object.entries((init.headers ?? {}) as Readonly<Record<string, string>>)
    const parameters = Object.fromEntries(headers.filter(([name]) => !HTTP_ONLY.has(name.toLowerCase())))
    const isStream = headers.some(([name, value]) => name.toLowerCase() === 'accept' && value === 'text/event-stream')
    const call = typeof init.body === 'string' ? init.body : '{}'
    const signal = init.signal ? { signal: init.signal } : {}
    const small = await sendLargeParts(channel, call, init.signal ?? undefined)
    const ask = channel.ask(encodeEnvelope(parameters, small), { to, timeout, ...signal })
    const called = JSON.parse(call) as Called
    const next = (): Promise<Checked | undefined> => nextResponse(channel, to, ask, called)
    const first = await next()
    if (!first) throw StaticError.of('ask_failed', `Agent ${to} sent no answer.`)
    if (isStream && !first.isError) return eventStream(ask, next, first)
    ask.cancel()
    return new Response(first.text, { headers: { 'content-type': 'application/json' } })
  }
  const factory = new JsonRpcTransportFactory({ fetchImpl })
  return { protocolName: A2A_BINDING, create: (url, card) => factory.create(url, card) }
}

/** A response, checked. */
interface Checked {
  readonly text: string
  readonly isError: boolean
}

/** Answers as the events that the JSON-RPC transport reads. Ending the stream early cancels the request. */
function eventStream(ask: Ask, more: () => Promise<Checked | undefined>, first: Checked): Response {
  const encoder = new TextEncoder()
  let next: Checked | undefined = first
  const body = new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        const response = next ?? (await more())
        next = undefined
        if (response === undefined) return controller.close()
        const name = response.isError ? 'event: error\n' : ''
        controller.enqueue(encoder.encode(`${name}data: ${response.text}\n\n`))
      },
      cancel: () => ask.cancel(),
    },
    // Nothing is read ahead: unread answers hold back the server.
    { highWaterMark: 0 },
  )
  return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
}

/** The next response; undefined at the end. After an invalid response, nothing more is read. */
async function nextResponse(channel: Channel, to: AgentId, ask: Ask, called: Called): Promise<Checked | undefined> {
  const { value: answer } = await ask.next()
  if (!answer) return undefined
  try {
    const sent = textOf(answer)
    const { error } = decodeResponse(sent, called)
    const text = await restored(channel, to, sent)
    // An event is one line. In JSON, line breaks are white space.
    return { text: text.replaceAll(/[\r\n]/g, ' '), isError: error !== undefined }
  } catch (error) {
    ask.cancel()
    throw error
  }
}

/** A response with its large parts. */
async function restored(channel: Channel, to: AgentId, text: string): Promise<string> {
  if (!text.includes('static-file:')) return text
  const value: unknown = JSON.parse(text)
  const files = await restoreLargeParts(channel, to, value)
  if (files.length === 0) return text
  await dropFiles(files)
  return JSON.stringify(value)
}

/** The text of an answer. Its size limit comes from the channel, not from A2A, so it has its own error. */
function textOf(answer: Answer): string {
  const failure = answer.error?.details.answer
  if (failure?.code === 'too_large') throw StaticError.of('too_large', failure.message)
  return answer.text()
}
