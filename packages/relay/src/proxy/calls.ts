/** Unary calls and subscriptions. Each goes to the relay over its own stream, which carries the agent's address. */
import { create } from '@bufbuild/protobuf'
import { makeCell, StaticError } from '@static/protocol'
import { decodeEnvelope } from '@static/protocol/envelope'
import { type ClientMessage, type ServerMessage, ServerMessageSchema } from '@static/protocol/relay'
import { serverMessage, wireRefusal } from '../core/server-messages.ts'
import type { CallHandler, Peer, PushSink, Subscription } from '../ports.ts'
import { announce, type ProxyPorts } from './files.ts'
import { fullCall } from './full.ts'
import { cellReader, HELLO_ID, helloCells, requestCells } from './relay-cells.ts'
import type { Upstream, UpstreamStream } from './upstream.ts'

const CALL_MS = 70_000
const TOKEN = /^[\w-]{64,900}\.[\w-]{43}$/

/** Handles what the relay sends on a stream. */
interface ExchangeHandlers {
  /** Whether it is a unary call, not a subscription. */
  readonly call: boolean
  message(message: ServerMessage): void
  ping(pong: () => void): void
  closed(): void
}

/** Forwards calls. */
export class ProxyCalls implements CallHandler {
  readonly #upstream: Upstream
  readonly #ports: () => ProxyPorts
  readonly #onError: (error: unknown) => void

  /** `ports` are the proxy's own. */
  constructor(upstream: Upstream, ports: () => ProxyPorts, onError: (error: unknown) => void) {
    this.#upstream = upstream
    this.#ports = ports
    this.#onError = onError
  }

  /** Only the relay can verify a token; this only checks its form. */
  knows(token: string): boolean {
    return TOKEN.test(token)
  }

  /** Nothing waits here: the relay has turns. */
  async turn(): Promise<void> {}

  /** Opens a stream for each call. Streams are cheap. */
  async call(peer: Peer, message: ClientMessage, signal?: AbortSignal): Promise<ServerMessage> {
    if (peer.full) return fullCall(peer.full, message.requestId)
    const { promise, resolve, reject } = Promise.withResolvers<ServerMessage>()
    // The caller may disconnect before the stream opens. Then a rejection must not count as unhandled.
    promise.catch(() => {})
    const gone = (): void => reject(StaticError.of('unavailable', 'The relay is unreachable.', { retryAfter: 1 }))
    signal?.addEventListener('abort', () => reject(StaticError.of('closed', 'The caller has disconnected.')))
    const handlers = { call: true, message: resolve, ping: (pong: () => void) => pong(), closed: gone }
    const stream = await this.#exchange(peer, message, handlers)
    const late = setTimeout(gone, CALL_MS)
    try {
      const answer = answerOf(await promise, message.requestId)
      if (answer.body.case === 'openSession') announce(answer.body.value, this.#ports())
      return answer
    } finally {
      clearTimeout(late)
      stream.end()
    }
  }

  subscribe(peer: Peer, message: ClientMessage, sink: PushSink): Subscription {
    if (peer.full) {
      sink.write(fullCall(peer.full, message.requestId))
      sink.end()
      return { room: () => {}, close: () => {} }
    }
    let over = false
    let congested = false
    // Pongs are withheld while there is no room, so the relay sends at most a window ahead of what the agent reads.
    let held: (() => void)[] = []
    let stream: UpstreamStream | undefined
    const end = (): void => {
      if (over) return
      over = true
      sink.end()
    }
    const handlers: ExchangeHandlers = {
      call: false,
      message: (push) => {
        if (!over && !sink.write(push)) congested = true
      },
      ping: (pong) => {
        if (congested) held.push(pong)
        else pong()
      },
      closed: end,
    }
    this.#exchange(peer, message, handlers).then(
      (opened) => {
        stream = opened
        if (over) opened.end()
      },
      (error: unknown) => {
        this.#onError(error)
        const value = { code: 'unavailable', message: 'The relay is unreachable.', retryAfterMs: 1000 }
        sink.write(create(ServerMessageSchema, { requestId: message.requestId, body: { case: 'error', value } }))
        end()
      },
    )
    return {
      room: () => {
        congested = false
        const pongs = held
        held = []
        for (const pong of pongs) pong()
      },
      close: () => {
        over = true
        stream?.end()
      },
    }
  }

  /** Opens a stream with one request and passes on what the relay sends. */
  async #exchange(peer: Peer, message: ClientMessage, handlers: ExchangeHandlers): Promise<UpstreamStream> {
    const opened: { stream?: UpstreamStream } = {}
    const closed = (): void => handlers.closed()
    const stream = await this.#upstream.open({
      data: cellReader(
        ({ type, payload }) => {
          if (type === 'ping') handlers.ping(() => opened.stream?.write(makeCell('pong', payload)))
          if (type !== 'envelope') return
          const answer = decodeEnvelope('cbor', ServerMessageSchema, payload.slice(), payload.length)
          if (answer.requestId !== HELLO_ID) handlers.message(answer)
          else if (answer.body.case === 'error') closed()
        },
        (error) => {
          this.#onError(error)
          closed()
        },
      ),
      closed,
    })
    opened.stream = stream
    stream.write(helloCells(peer.address, handlers.call))
    stream.write(requestCells(message))
    return stream
  }
}

/** A relay without room ends the stream as if it were a session's. The caller has none, so it gets the reason. */
function answerOf(message: ServerMessage, requestId: bigint): ServerMessage {
  if (message.body.case !== 'sessionClosing') return message
  const value = message.body.value.error ?? wireRefusal({ refused: 'unavailable' })
  return serverMessage({ case: 'error', value }, requestId)
}
