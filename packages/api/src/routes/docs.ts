/** /openapi.json, /docs, /docs/errors: the API describes itself. */
import type { FastifyReply } from 'fastify'
import type { App } from '../http/app.ts'
import { docsPage, errorsPage, PAGE_POLICY } from '../http/pages.ts'

const hidden = { schema: { hide: true } }

export function docsRoutes(app: App): void {
  const show = (reply: FastifyReply, page: string): FastifyReply =>
    reply.type('text/html; charset=utf-8').header('content-security-policy', PAGE_POLICY).send(page)
  const errors = errorsPage()
  app.get('/openapi.json', hidden, (_request, reply) => reply.send(app.swagger()))
  app.get('/docs', hidden, (_request, reply) => show(reply, docsPage(app.swagger())))
  app.get('/docs/errors', hidden, (_request, reply) => show(reply, errors))
}
