/** /openapi.json, /docs and /docs/errors: the API reference. */
import type { App } from '../http/app.ts'
import { docsPage, errorsPage, PAGE_POLICY } from '../http/pages.ts'

const hidden = { schema: { hide: true } }
const HTML = 'text/html; charset=utf-8'

export function docsRoutes(app: App): void {
  const renderers: Readonly<Record<string, () => string>> = {
    '/openapi.json': () => JSON.stringify(app.swagger()),
    '/docs': () => docsPage(app.swagger()),
    '/docs/errors': errorsPage,
  }
  // Rendered once, by the first request: the pages are large, and anyone may request them without a limit.
  const pages = new Map<string, Buffer>()
  for (const [path, render] of Object.entries(renderers)) {
    app.get(path, hidden, (_request, reply) => {
      reply.type(path.endsWith('.json') ? 'application/json; charset=utf-8' : HTML)
      reply.header('x-content-type-options', 'nosniff').header('content-security-policy', PAGE_POLICY)
      const page = pages.get(path) ?? Buffer.from(render())
      pages.set(path, page)
      return reply.send(page)
    })
  }
}
