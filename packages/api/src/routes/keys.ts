/** /v1/keys: the caller's API keys. */
import Type from 'typebox'
import type { Mode } from '@static/protocol'
import type { App } from '../http/app.ts'
import { requireCaller } from '../http/authenticate.ts'
import {
  answers,
  AUTH_ERRORS,
  BODY_ERRORS,
  BY_KEY_OR_SESSION,
  keyFields,
  mode,
  nameText,
  NO_CONTENT,
  orNull,
  time,
} from '../http/schemas.ts'
import type { Service } from '../service.ts'

const requestBody = Type.Object(
  { name: Type.Optional(Type.String({ ...nameText, default: 'default' })), mode: Type.Optional(mode) },
  { additionalProperties: false },
)
const created = Type.Object({
  ...keyFields,
  key: Type.String({ description: 'The secret, shown only in this response' }),
})
const listed = Type.Object({
  keys: Type.Array(
    Type.Object({
      ...keyFields,
      last_used_at: orNull(time),
      messages: Type.Integer({ minimum: 0, description: 'Messages this month, from agents with tokens of this key' }),
      token_exchanges: Type.Integer({ minimum: 0, description: 'Token exchanges this month' }),
    }),
  ),
})
const headers = Type.Object({ 'idempotency-key': Type.Optional(Type.String()) })
const params = Type.Object({ id: Type.String() })

export function keyRoutes(app: App, service: Service, origin: () => string): void {
  const preValidation = requireCaller(service, origin)

  app.post(
    '/v1/keys',
    {
      preValidation,
      schema: {
        operationId: 'createKey',
        summary: 'Create a key; the secret is shown only in this response',
        tags: ['keys'],
        security: BY_KEY_OR_SESSION,
        headers,
        body: requestBody,
        response: answers({ 200: created }, [
          ...AUTH_ERRORS,
          ...BODY_ERRORS,
          'mode_mismatch',
          'key_limit_reached',
          'idempotency_conflict',
          'idempotency_mismatch',
        ]),
      },
    },
    async (request) => {
      const { name, mode: wanted } = request.body
      const key = request.headers['idempotency-key']
      return service.keys.create(request.caller, { name, mode: wanted as Mode | undefined }, key, request.rateContext)
    },
  )

  app.get(
    '/v1/keys',
    {
      preValidation,
      schema: {
        operationId: 'listKeys',
        summary: 'List the active keys, newest first',
        tags: ['keys'],
        security: BY_KEY_OR_SESSION,
        response: answers({ 200: listed }, AUTH_ERRORS),
      },
    },
    async (request) => ({ keys: await service.keys.list(request.caller) }),
  )

  app.delete(
    '/v1/keys/:id',
    {
      preValidation,
      schema: {
        operationId: 'revokeKey',
        summary: 'Revoke a key, immediately and permanently',
        tags: ['keys'],
        security: BY_KEY_OR_SESSION,
        params,
        response: answers({ 204: NO_CONTENT }, [...AUTH_ERRORS, ...BODY_ERRORS, 'not_found']),
      },
    },
    async (request, reply) => {
      await service.keys.revoke(request.caller, request.params.id, request.rateContext)
      return reply.code(204).send()
    },
  )
}
