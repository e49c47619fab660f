/** The baseline: a bare fastify handler that returns the JSON it was given, over the same TLS. */
import type { AddressInfo } from 'node:net'
import Fastify from 'fastify'

/** The parent's first message. */
interface Setup {
  readonly cert: string
  readonly key: string
  /** Bodies by path. */
  readonly gets: Readonly<Record<string, unknown>>
  readonly posts: Readonly<Record<string, unknown>>
}

process.once('message', ({ cert, key, gets, posts }: Setup) => {
  const app = Fastify({
    logger: false,
    https: { cert, key, minVersion: 'TLSv1.3', ecdhCurve: 'X25519MLKEM768:X25519:P-256:P-384' },
  })
  for (const [path, body] of Object.entries(gets)) app.get(path, () => Promise.resolve(body))
  for (const [path, body] of Object.entries(posts)) app.post(path, () => Promise.resolve(body))
  app.listen({ host: '127.0.0.1', port: 0 }).then(
    () => process.send?.({ port: (app.server.address() as AddressInfo).port }),
    (error: unknown) => {
      console.error(error)
      process.exit(1)
    },
  )
})
