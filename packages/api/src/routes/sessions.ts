/** /v1/sessions: sign in with e-mail address and password, and sign out. */
import Type from 'typebox'
import { StaticError } from '@static/protocol'
import type { App } from '../http/app.ts'
import { checkOwnPage, sessionOf, setSessionCookie } from '../http/authenticate.ts'
import { accountFields, answers, AUTH_ERRORS, BODY_ERRORS, NO_CONTENT } from '../http/schemas.ts'
import type { Service } from '../service.ts'

const signIn = Type.Object(
  {
    email: Type.String({ minLength: 1, maxLength: 254, format: 'email' }),
    password: Type.String({ maxLength: 128, format: 'password' }),
  },
  { additionalProperties: false },
)
const tags = ['sessions']

export function sessionRoutes(app: App, service: Service, origin: () => string): void {
  app.post(
    '/v1/sessions',
    {
      schema: {
        summary: 'Sign in; sets the session cookie',
        tags,
        body: signIn,
        response: answers({ 201: Type.Object(accountFields) }, [
          ...BODY_ERRORS,
          'auth_failed',
          'invalid_credentials',
          'account_suspended',
        ]),
      },
    },
    async (request, reply) => {
      const from = request.headers.origin
      if (from !== undefined && from !== origin()) {
        throw StaticError.of('auth_failed', `Cannot sign in from another site. Sign in at ${origin()}.`)
      }
      const { email, password } = request.body
      const { id, account } = await service.sessions.signIn(email, password, request.rateContext)
      setSessionCookie(reply, id, service.settings.sessionSeconds)
      return reply.code(201).send(account)
    },
  )

  app.delete(
    '/v1/sessions/current',
    {
      schema: {
        summary: 'Sign out',
        tags,
        security: [{ session: [] }],
        response: answers({ 204: NO_CONTENT }, [...AUTH_ERRORS, ...BODY_ERRORS]),
      },
    },
    async (request, reply) => {
      const session = sessionOf(request)
      if (session === undefined)
        throw StaticError.of('auth_failed', 'The request has no session cookie, so there is no session to end.')
      checkOwnPage(request, origin())
      await service.sessions.end(session, request.rateContext)
      setSessionCookie(reply, '', 0)
      return reply.code(204).send()
    },
  )
}
