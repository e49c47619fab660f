/** The yardstick: a bare fastify handler that returns JSON it was given, over the same TLS. */
import type { AddressInfo } from 'node:net'
import Fastify from 'fastify'

/** What the parent sends first. */
interface Setup {
  readonly cert: string
  readonly key: string
  readonly keys: unknown
  readonly token: unknown
}

process.once('message', ({ cert, key, keys, token }: Setup) => {
  const app = Fastify({
    logger: false,
    https: { cert, key, minVersion: 'TLSv1.3', ecdhCurve: 'X25519:P-256:P-384' },
  })
  app.get('/v1/keys', () => Promise.resolve(keys))
  app.post('/v1/tokens', () => Promise.resolve(token))
  app.listen({ host: '127.0.0.1', port: 0 }).then(
    () => process.send?.({ port: (app.server.address() as AddressInfo).port }),
    (error: unknown) => {
      console.error(error)
      process.exit(1)
    },
  )
})
