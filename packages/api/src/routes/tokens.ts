/** /v1/tokens: exchanges an API key for a JWT for the relay. A session cannot be exchanged. */
import Type from 'typebox'
import type { App } from '../http/app.ts'
import { requireKey } from '../http/authenticate.ts'
import { answers, AUTH_ERRORS, BODY_ERRORS, BY_KEY, time } from '../http/schemas.ts'
import type { Service } from '../service.ts'

const requestBody = Type.Object(
  {
    agent_id: Type.Optional(
      Type.String({ pattern: '^[0-9a-f]{64}$', description: 'The only agent that may use the token' }),
    ),
  },
  { additionalProperties: false },
)
const issued = Type.Object({
  token: Type.String(),
  token_type: Type.Literal('Bearer'),
  expires_in: Type.Integer(),
  expires_at: time,
})

export function tokenRoutes(app: App, service: Service): void {
  app.post(
    '/v1/tokens',
    {
      preValidation: requireKey(service),
      schema: {
        operationId: 'createToken',
        summary: 'Exchange the key for a JWT that the relay accepts for one hour',
        tags: ['tokens'],
        security: BY_KEY,
        body: requestBody,
        response: answers({ 200: issued }, [...AUTH_ERRORS, ...BODY_ERRORS]),
      },
    },
    (request) => service.tokens.exchange(request.key, request.body.agent_id, request.rateContext),
  )

  app.get(
    '/.well-known/jwks.json',
    {
      schema: {
        operationId: 'listSigningKeys',
        summary: 'List the public keys that verify tokens',
        tags: ['tokens'],
        response: answers({
          200: Type.Object({
            keys: Type.Array(
              Type.Object({
                kty: Type.Literal('OKP'),
                crv: Type.Literal('Ed25519'),
                x: Type.String(),
                kid: Type.String(),
                alg: Type.Literal('EdDSA'),
                use: Type.Literal('sig'),
              }),
            ),
          }),
        }),
      },
    },
    (_request, reply) => {
      reply.header('cache-control', 'public, max-age=300')
      return reply.send(service.ring.jwks())
    },
  )
}
