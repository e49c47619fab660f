/** /v1/usage: the messages and token exchanges used, and the plan's limits. */
import Type from 'typebox'
import type { App } from '../http/app.ts'
import { requireCaller } from '../http/authenticate.ts'
import { answers, AUTH_ERRORS, BY_KEY_OR_SESSION, mode, orNull, plan, time, uuid } from '../http/schemas.ts'
import type { Service } from '../service.ts'

const count = Type.Integer({ minimum: 0 })
const countOrUnlimited = orNull(Type.Integer({ minimum: 0, description: 'null: unlimited' }))
const query = Type.Object(
  { days: Type.Optional(Type.Integer({ minimum: 1, maximum: 366, default: 30 })) },
  { additionalProperties: false },
)
const usage = Type.Object({
  account_id: uuid,
  plan,
  mode,
  period_start: time,
  period_end: time,
  resets_at: time,
  messages: Type.Object({ used: count, reserved: count, limit: countOrUnlimited, remaining: countOrUnlimited }),
  token_exchanges: count,
  daily: Type.Array(Type.Object({ date: Type.String({ format: 'date' }), messages: count })),
})

export function usageRoutes(app: App, service: Service, origin: () => string): void {
  app.get(
    '/v1/usage',
    {
      preValidation: requireCaller(service, origin),
      schema: {
        operationId: 'readUsage',
        summary: 'Read the usage of this month and of each of the last days, in the mode of the caller',
        tags: ['usage'],
        security: BY_KEY_OR_SESSION,
        querystring: query,
        response: answers({ 200: usage }, AUTH_ERRORS),
      },
    },
    (request) => service.usages.read(request.caller, request.query.days ?? 30),
  )
}
