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

export function announcementRoutes(app: App, announced: () => ServerAnnouncement): void {
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
    (_request, reply) => {
      reply.header('cache-control', 'public, max-age=300')
      return reply.send(announced())
    },
  )
}
