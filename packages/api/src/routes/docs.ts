/** /openapi.json, /docs and /docs/errors: the API reference. */
import type { App } from '../http/app.ts'
import { docsPage, errorsPage, PAGE_POLICY } from '../http/pages.ts'

const hidden = { schema: { hide: true } }
const HTML = 'text/html; charset=utf-8'

export function docsRoutes(app: App): void {
  // Rendered once, when all routes are known: the pages are large, and anyone may request them without a limit.
  const pages = new Map([['/docs/errors', Buffer.from(errorsPage())]])
  app.addHook('onReady', (done) => {
    pages.set('/openapi.json', Buffer.from(JSON.stringify(app.swagger())))
    pages.set('/docs', Buffer.from(docsPage(app.swagger())))
    done()
  })
  for (const path of ['/openapi.json', '/docs', '/docs/errors']) {
    app.get(path, hidden, (_request, reply) => {
      reply.type(path.endsWith('.json') ? 'application/json; charset=utf-8' : HTML)
      reply.header('x-content-type-options', 'nosniff').header('content-security-policy', PAGE_POLICY)
      return reply.send(pages.get(path))
    })
  }
}
