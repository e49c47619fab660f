/** /v1/audit: the events of the caller's account. */
import Type from 'typebox'
import { AUDIT_ACTORS, AUDIT_EVENTS, PLANS } from '@static/protocol'
import type { App } from '../http/app.ts'
import { requireCaller } from '../http/authenticate.ts'
import { answers, AUTH_ERRORS, BY_KEY_OR_SESSION, oneOf, orNull, time, uuid } from '../http/schemas.ts'
import { AUDIT_PAGE } from '../rules/audit.ts'
import type { Service } from '../service.ts'

const query = Type.Object(
  {
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 200, default: AUDIT_PAGE })),
    before: Type.Optional(
      Type.String({ format: 'uuid', description: 'Only events before this one: the `next` of the previous page' }),
    ),
  },
  { additionalProperties: false },
)
const page = Type.Object({
  events: Type.Array(
    Type.Object({
      id: uuid,
      at: time,
      count: Type.Integer({ minimum: 1, description: 'Frequent events of an hour share one entry' }),
      last_at: time,
      actor: oneOf(AUDIT_ACTORS),
      account_id: Type.Unsafe<string | null>(uuid),
      event: oneOf(AUDIT_EVENTS),
      key_id: orNull(Type.String({ format: 'uuid' })),
      invite_id: orNull(Type.String({ description: 'The sign-up invite with which the account was created' })),
      plan: Type.Unsafe<string | null>({ type: ['string', 'null'], enum: [...PLANS, null] }),
      channel: orNull(Type.String({ description: 'The channel that is deleted' })),
      address: orNull(Type.String({ description: 'Only if the operator records addresses' })),
    }),
  ),
  next: orNull(Type.String({ format: 'uuid', description: 'null on the last page' })),
})

export function auditRoutes(app: App, service: Service, origin: () => string): void {
  app.get(
    '/v1/audit',
    {
      preValidation: requireCaller(service, origin),
      schema: {
        operationId: 'listAuditEvents',
        summary: 'List the events of the account, newest first',
        tags: ['accounts'],
        security: BY_KEY_OR_SESSION,
        querystring: query,
        response: answers({ 200: page }, [...AUTH_ERRORS, 'mode_mismatch']),
      },
    },
    (request) => service.audit.own(request.caller, request.query.before, request.query.limit ?? AUDIT_PAGE),
  )
}
