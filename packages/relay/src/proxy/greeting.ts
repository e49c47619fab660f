/** Whether the relay takes a proxy for one of its own: it looks at a client certificate when the connection is up. */
import { decodeEnvelope, StaticError } from '@static/protocol'
import { ServerMessageSchema } from '@static/protocol/relay'
import { cellReader, helloCells } from './relay-cells.ts'
import type { Upstream } from './upstream.ts'

const UNKNOWN_PROXY =
  'The relay does not know this proxy: its --proxy-ca must be the authority that signed the client certificate.'
const GREETING_MS = 5000

/** Says hello for nobody. Rejects with `connection_error` when the relay does not take this for a proxy of its own. */
export async function greet(upstream: Upstream, onError: (error: unknown) => void): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const fail = (text: string, cause?: unknown): void => reject(StaticError.of('connection_error', text, { cause }))
  const stream = await upstream
    .open({
      data: cellReader(
        ({ type, payload }) => {
          if (type !== 'envelope') return
          const { body } = decodeEnvelope('cbor', ServerMessageSchema, payload, payload.length)
          if (body.case === 'proxyHello') resolve()
          else fail(UNKNOWN_PROXY, body)
        },
        (error) => {
          onError(error)
          fail(UNKNOWN_PROXY)
        },
      ),
      closed: (reason) => fail(reason?.message ?? UNKNOWN_PROXY, reason),
    })
    .catch((error: unknown) => {
      // Here the operator reads it, who needs the reason.
      throw error instanceof StaticError && error.cause instanceof StaticError ? error.cause : error
    })
  const late = setTimeout(() => fail('The relay does not answer.'), GREETING_MS)
  stream.write(helloCells('127.0.0.1'))
  try {
    await promise
  } finally {
    clearTimeout(late)
    stream.end()
  }
}
