/** /.well-known/static-server.json: the relay that belongs to this server, for clients that know only the API. */
import Type from 'typebox'
import { ANNOUNCEMENT_PATH, type ServerAnnouncement, SIGNUP_MODES, type SignupMode } from '@static/protocol'
import type { App } from '../http/app.ts'
import { answers, oneOf } from '../http/schemas.ts'

const announcement = Type.Object({
  relay: Type.Array(Type.String()),
  relay_name: Type.Optional(Type.String()),
  signup: Type.Unsafe<SignupMode>(oneOf(SIGNUP_MODES)),
})

/** A client that asks before the relay is known waits for it. */
export function announcementRoutes(
  app: App,
  relay: Promise<Omit<ServerAnnouncement, 'signup'>>,
  signup: SignupMode,
): void {
  app.get(
    ANNOUNCEMENT_PATH,
    {
      schema: {
        operationId: 'readAnnouncement',
        summary: 'Read the endpoints of the relay, and who may sign up',
        tags: ['server'],
        response: answers({ 200: announcement }),
      },
    },
    async (_request, reply) => {
      reply.header('cache-control', 'public, max-age=300')
      return reply.send({ ...(await relay), signup })
    },
  )
}
