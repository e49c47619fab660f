/** Methods that a path does not have: 405 with `Allow`, instead of 404. */
import Type from 'typebox'
import { StaticError } from '@static/protocol'
import type { App } from './app.ts'

/** Completes every route that is added from now on; the returned function answers 405 to their other methods. */
export function watchMethods(app: App): () => void {
  const methods = new Map<string, Set<string>>()
  app.addHook('onRoute', (route) => {
    const { url, method, schema } = route
    // Unknown parameters are refused like unknown fields.
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
        // Before the body is read: what it holds does not matter.
        onRequest: (_request, reply, done) => {
          reply.header('allow', allow)
          done(StaticError.of('method_not_allowed', `This path knows ${allow}.`))
        },
        handler: () => undefined,
      })
    }
  }
}
