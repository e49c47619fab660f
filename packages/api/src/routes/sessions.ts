/** /v1/sessions: sign in with e-mail address and password, list the sessions, and sign out. */
import Type from 'typebox'
import { StaticError } from '@static/protocol'
import type { App } from '../http/app.ts'
import {
  checkOwnPage,
  passwordContext,
  requireSession,
  sessionOf,
  setDeviceCookie,
  setSessionCookie,
} from '../http/authenticate.ts'
import { accountFields, answers, AUTH_ERRORS, BODY_ERRORS, NO_CONTENT, orNull, time, uuid } from '../http/schemas.ts'
import type { Service } from '../service.ts'

const signIn = Type.Object(
  {
    email: Type.String({ minLength: 1, maxLength: 254, format: 'email' }),
    password: Type.String({ maxLength: 128, format: 'password' }),
  },
  { additionalProperties: false },
)
const listed = Type.Object({
  sessions: Type.Array(
    Type.Object({
      id: uuid,
      current: Type.Boolean({ description: 'Whether this request uses it' }),
      created_at: time,
      last_used_at: Type.String({ ...time, description: 'Accurate to about ten minutes' }),
      expires_at: time,
      client: orNull(Type.String({ description: 'Browser and system, if the browser reported them' })),
      address: orNull(Type.String({ description: 'Only if the operator records addresses' })),
    }),
  ),
})
const tags = ['sessions']

const security = [{ session: [] }]

export function sessionRoutes(app: App, service: Service, origin: () => string): void {
  signInRoute(app, service, origin)
  ownSessionRoutes(app, service, origin)
  signOutRoute(app, service, origin)
}

function signInRoute(app: App, service: Service, origin: () => string): void {
  app.post(
    '/v1/sessions',
    {
      schema: {
        operationId: 'signIn',
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
      const { id, account, device } = await service.sessions.signIn(
        email,
        password,
        request.headers['user-agent'],
        passwordContext(request, origin()),
      )
      setSessionCookie(reply, id, service.settings.sessionSeconds)
      setDeviceCookie(reply, device)
      return reply.code(201).send(account)
    },
  )
}

/** Lists and ends sessions of the caller's account. */
function ownSessionRoutes(app: App, service: Service, origin: () => string): void {
  const preValidation = requireSession(service, origin)

  app.get(
    '/v1/sessions',
    {
      preValidation,
      schema: {
        operationId: 'listSessions',
        summary: 'List the sign-in sessions of the account, newest first',
        tags,
        security,
        response: answers({ 200: listed }, ['auth_failed', 'account_suspended']),
      },
    },
    async (request) => ({ sessions: await service.sessions.list(request.sessionCaller) }),
  )

  app.delete(
    '/v1/sessions',
    {
      preValidation,
      schema: {
        operationId: 'endOtherSessions',
        summary: 'End all sign-in sessions of the account except the current one',
        tags,
        security,
        response: answers({ 200: Type.Object({ ended: Type.Integer({ minimum: 0 }) }) }, [
          ...BODY_ERRORS,
          'auth_failed',
          'account_suspended',
        ]),
      },
    },
    async (request) => ({ ended: await service.sessions.endAllOthers(request.sessionCaller, request.rateContext) }),
  )

  app.delete(
    '/v1/sessions/:id',
    {
      preValidation,
      schema: {
        operationId: 'endSession',
        summary: 'End a sign-in session of the account',
        tags,
        security,
        params: Type.Object({ id: Type.String() }),
        response: answers({ 204: NO_CONTENT }, [...BODY_ERRORS, 'auth_failed', 'account_suspended', 'not_found']),
      },
    },
    async (request, reply) => {
      await service.sessions.endOne(request.sessionCaller, request.params.id, request.rateContext)
      return reply.code(204).send()
    },
  )
}

/** Accepts every session cookie, so that users of suspended accounts can also sign out. */
function signOutRoute(app: App, service: Service, origin: () => string): void {
  app.delete(
    '/v1/sessions/current',
    {
      schema: {
        operationId: 'signOut',
        summary: 'Sign out',
        tags,
        security,
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
