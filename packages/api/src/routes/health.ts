/** /health, /health/live and /health/ready: whether the process is up, and whether the service is ready. */
import Type from 'typebox'
import { type Readiness, StaticError } from '@static/protocol'
import type { App } from '../http/app.ts'
import { answers, oneOf } from '../http/schemas.ts'
import type { Service } from '../service.ts'

const ok = Type.Object({ status: Type.Literal('ok') })
const ready = Type.Object({
  ...ok.properties,
  relay: Type.Optional(Type.Unsafe<NonNullable<Readiness['relay']>>(oneOf(['ok', 'unavailable']))),
})
const tags = ['health']

export function healthRoutes(app: App, service: Service, relayIsReady: (() => boolean) | undefined): void {
  // The same for both: only a relay's /health, unlike its /health/live, depends on its database.
  for (const [path, operationId] of [
    ['/health', 'checkHealth'],
    ['/health/live', 'checkLive'],
  ] as const) {
    const schema = { operationId, summary: 'Check that the process is up', tags, response: answers({ 200: ok }) }
    app.get(path, { schema }, () => ({ status: 'ok' as const }))
  }

  app.get(
    '/health/ready',
    {
      schema: {
        operationId: 'checkReady',
        summary: 'Check that the service is ready; 503 with the reason if not',
        tags,
        response: answers({ 200: ready }),
      },
    },
    async (): Promise<Readiness> => {
      try {
        await service.ready()
      } catch (cause) {
        throw StaticError.of('unavailable', 'The database cannot be reached or written to.', { cause, retryAfter: 2 })
      }
      // The API works without the relay, so it stays ready.
      return { status: 'ok', ...(relayIsReady ? { relay: relayIsReady() ? 'ok' : 'unavailable' } : {}) }
    },
  )
}
