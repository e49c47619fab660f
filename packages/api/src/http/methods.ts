/** Methods that a path does not support: 405 with `Allow`, instead of 404. */
import Type from 'typebox'
import { StaticError } from '@static/protocol'
import type { App } from './app.ts'

/** Collects every route added from now on; the returned function adds 405 responses for their other methods. */
export function watchMethods(app: App): () => void {
  const methods = new Map<string, Set<string>>()
  app.addHook('onRoute', (route) => {
    const { url, method, schema } = route
    // Unknown query parameters are refused like unknown fields.
    if (schema && !schema.hide) schema.querystring ??= Type.Object({}, { additionalProperties: false })
    const known = methods.get(url) ?? new Set()
    for (const name of [method].flat()) known.add(name)
    methods.set(url, known)
  })
  return () => {
    for (const [url, known] of methods) {
      const others = app.supportedMethods.filter((method) => !known.has(method))
      const allow = [...known].join(', ')
      app.route({
        method: others,
        url,
        schema: { hide: true },
        // Before the body is read, because its content does not matter.
        onRequest: (request, reply, done) => {
          reply.header('allow', allow)
          done(StaticError.of('method_not_allowed', `Method ${request.method} not allowed. Allowed: ${allow}.`))
        },
        handler: () => undefined,
      })
    }
  }
}
