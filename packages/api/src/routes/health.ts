/** /health and /health/ready: whether the process lives, and whether it can work. */
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
  app.get('/health', { schema: { summary: 'The process is up', tags, response: answers({ 200: ok }) } }, () => ({
    status: 'ok' as const,
  }))

  app.get(
    '/health/ready',
    {
      schema: {
        summary: 'The service can work; 503 with the reason otherwise',
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
      // A relay that is down takes nothing from the API: that stays ready.
      return { status: 'ok', ...(relayIsReady ? { relay: relayIsReady() ? 'ok' : 'unavailable' } : {}) }
    },
  )
}
