/** /internal/v1/quota/leases: relay nodes lease shares of an account's quota. Served on a separate listener. */
import Type from 'typebox'
import { constantTimeEqual } from '@static/node/compare'
import { type Mode, StaticError } from '@static/protocol'
import type { App } from '../http/app.ts'
import { answers, BODY_ERRORS, mode, orNull, time, uuid } from '../http/schemas.ts'
import type { Service } from '../service.ts'

const count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const requestBody = Type.Object(
  { account_id: Type.String(), mode, amount: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })) },
  { additionalProperties: false },
)
const lease = Type.Object({
  id: orNull(uuid),
  granted: count,
  outstanding: count,
  expires_at: time,
  expires_in_ms: count,
  period_end: time,
})
const settlement = Type.Object(
  {
    spent: count,
    final: Type.Boolean(),
    keys: Type.Optional(
      Type.Unsafe<Record<string, number>>({
        type: 'object',
        additionalProperties: { type: 'integer', minimum: 1 },
        maxProperties: 200,
        description: 'How much of it each key has spent, by key id',
      }),
    ),
  },
  { additionalProperties: false },
)
const settled = Type.Object({ id: uuid, spent: count, remaining: count, expires_at: time, expires_in_ms: count })
const accounts = Type.Object(
  { account_ids: Type.Array(Type.String({ maxLength: 36 }), { maxItems: 256 }) },
  { additionalProperties: false },
)
const blocked = Type.Object({ suspended: Type.Array(uuid), unknown: Type.Array(uuid) })
const params = Type.Object({ id: Type.String() })
const security = [{ key: [] }]
const tags = ['internal']

/** A clock difference worth logging, and how often. */
const SKEW_MS = 5000
const SKEW_EVERY_MS = 60_000

export function leaseRoutes(app: App, service: Service, credentials: readonly string[]): void {
  let toldAt = -Infinity
  app.addHook('onRequest', (request, _reply, done) => {
    const { authorization } = request.headers
    if (authorization === undefined) return done(StaticError.of('auth_failed', 'The relay credential is required.'))
    if (!credentials.some((credential) => constantTimeEqual(authorization, `Bearer ${credential}`))) {
      return done(StaticError.of('auth_key_invalid', 'The relay credential is wrong.'))
    }
    // Relay nodes send their time, in whole seconds.
    const skew = Date.parse(request.headers.date ?? '') + 500 - service.now()
    if (Math.abs(skew) > SKEW_MS && service.now() - toldAt > SKEW_EVERY_MS) {
      toldAt = service.now()
      const how = `${Math.round(Math.abs(skew) / 1000)} s ${skew > 0 ? 'ahead of' : 'behind'}`
      request.log.warn({ skew_ms: skew }, `the clock of a relay node is ${how} this machine's: correct one of them`)
    }
    done()
  })

  app.post(
    '/internal/v1/quota/leases',
    {
      schema: {
        operationId: 'leaseQuota',
        summary: 'Lease a share of an account’s quota; granted 0 means that nothing is left right now',
        tags,
        security,
        body: requestBody,
        response: answers({ 200: lease }, [...BODY_ERRORS, 'auth_failed', 'not_found', 'account_suspended']),
      },
    },
    (request) => {
      const { account_id: account, mode: wanted, amount } = request.body
      return service.leases.grant(account, wanted as Mode, amount ?? service.settings.lease.chunk)
    },
  )

  app.post(
    '/internal/v1/quota/leases/:id/settle',
    {
      schema: {
        operationId: 'reportLease',
        summary: 'Report the total spent from a lease so far; final returns the rest',
        tags,
        security,
        params,
        body: settlement,
        response: answers({ 200: settled }, [...BODY_ERRORS, 'auth_failed', 'not_found']),
      },
    },
    (request) => {
      const { spent, final, keys } = request.body
      return service.leases.settle(request.params.id, spent, final, keys)
    },
  )

  app.post(
    '/internal/v1/accounts/blocked',
    {
      schema: {
        operationId: 'listBlockedAccounts',
        summary: 'List which of the accounts are suspended, and which are closed or do not exist',
        tags,
        security,
        body: accounts,
        response: answers({ 200: blocked }, [...BODY_ERRORS, 'auth_failed']),
      },
    },
    (request) => service.leases.blocked(request.body.account_ids),
  )
}
