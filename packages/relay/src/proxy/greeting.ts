/** Checks that the relay accepts this proxy: it inspects the client certificate when the connection is established. */
import { StaticError } from '@static/protocol'
import { decodeEnvelope } from '@static/protocol/envelope'
import { ServerMessageSchema } from '@static/protocol/relay'
import { cellReader, helloCells } from './relay-cells.ts'
import type { Upstream } from './upstream.ts'

const UNKNOWN_PROXY =
  'The relay does not accept this proxy. Its --proxy-ca must be the CA that signed the client certificate.'
const GREETING_MS = 5000

/** Sends a hello without an agent. Rejects with `connection_error` if the relay does not accept this proxy. */
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
      // The operator reads this one and needs the cause.
      throw error instanceof StaticError && error.cause instanceof StaticError ? error.cause : error
    })
  const late = setTimeout(() => fail('The relay did not answer in time.'), GREETING_MS)
  stream.write(helloCells('127.0.0.1'))
  try {
    await promise
  } finally {
    clearTimeout(late)
    stream.end()
  }
}
