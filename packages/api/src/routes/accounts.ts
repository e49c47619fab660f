/** /v1/accounts: sign up, read, change the password, close, and create keys with the password. */
import Type from 'typebox'
import { type Mode, StaticError } from '@static/protocol'
import type { App } from '../http/app.ts'
import { fillBody, hasCredential, passwordContext, requireCaller, setDeviceCookie } from '../http/authenticate.ts'
import {
  accountFields,
  answers,
  AUTH_ERRORS,
  BODY_ERRORS,
  BY_KEY_OR_SESSION,
  keyFields,
  mode,
  nameText,
  NO_CONTENT,
  passwordText,
} from '../http/schemas.ts'
import type { Service } from '../service.ts'

const account = Type.Object(accountFields)
const signUp = Type.Object(
  {
    email: Type.String({ minLength: 3, maxLength: 254, format: 'email' }),
    password: Type.String(passwordText),
    name: Type.Optional(Type.String(nameText)),
    invite: Type.Optional(
      Type.String({ maxLength: 128, description: 'A sign-up invite of the operator, if GET /v1/signup says `invite`' }),
    ),
  },
  { additionalProperties: false },
)
const signedUp = Type.Object({
  ...accountFields,
  message: Type.String(),
  api_key: Type.Object({
    id: keyFields.id,
    key_prefix: keyFields.key_prefix,
    name: keyFields.name,
    key: Type.String({ description: 'The secret, shown only in this response' }),
  }),
})
const keyRequest = Type.Object(
  {
    name: Type.Optional(Type.String({ ...nameText, default: 'default' })),
    mode: Type.Optional(mode),
    password: Type.Optional(Type.String({ maxLength: 128, format: 'password' })),
  },
  { additionalProperties: false },
)
const secret = Type.String({ description: 'The secret, shown only in this response' })
const createdKey = Type.Object({ ...keyFields, api_key: secret, key: secret })
const newPassword = Type.Object(
  { current_password: Type.String({ maxLength: 128, format: 'password' }), new_password: Type.String(passwordText) },
  { additionalProperties: false },
)
const closing = Type.Object(
  { password: Type.String({ maxLength: 128, format: 'password' }) },
  { additionalProperties: false },
)
const params = Type.Object({ id: Type.String() })
const idempotent = Type.Object({ 'idempotency-key': Type.Optional(Type.String()) })
const tags = ['accounts']
const BY_PASSWORD = [{ password: [] }]
/** Errors of the routes that accept only the password. */
const PASSWORD_ERRORS = [...BODY_ERRORS, 'invalid_credentials', 'account_suspended', 'not_found'] as const

type Identify = ReturnType<typeof requireCaller>

export function accountRoutes(app: App, service: Service, origin: () => string): void {
  const identify = requireCaller(service, origin)
  signUpRoute(app, service)
  readRoutes(app, service, identify)
  keyRoute(app, service, identify)
  passwordRoutes(app, service, origin)
}

function signUpRoute(app: App, { accounts }: Service): void {
  app.post(
    '/v1/accounts',
    {
      schema: {
        operationId: 'createAccount',
        summary: 'Create an account and its first key; the secret of the key is shown only in this response',
        tags,
        headers: idempotent,
        body: signUp,
        response: answers({ 201: signedUp }, [
          ...BODY_ERRORS,
          'signup_closed',
          'signup_invite_invalid',
          'email_taken',
          'idempotency_conflict',
          'idempotency_mismatch',
          'account_suspended',
        ]),
      },
    },
    async (request, reply) => {
      const made = await accounts.signUp(request.body, request.headers['idempotency-key'], request.rateContext)
      return reply.code(201).header('location', `/v1/accounts/${made.id}`).send(made)
    },
  )
}

function readRoutes(app: App, { accounts }: Service, identify: Identify): void {
  for (const url of ['/v1/accounts/me', '/v1/accounts/:id'] as const) {
    app.get(
      url,
      {
        preValidation: identify,
        schema: {
          operationId: url === '/v1/accounts/me' ? 'readOwnAccount' : 'readAccount',
          summary: "Read the caller's account",
          tags,
          security: BY_KEY_OR_SESSION,
          ...(url === '/v1/accounts/:id' ? { params } : {}),
          response: answers({ 200: account }, [...AUTH_ERRORS, 'not_found']),
        },
      },
      (request) => accounts.own(request.caller, (request.params as { id?: string }).id),
    )
  }
}

function keyRoute(app: App, { accounts, keys }: Service, identify: Identify): void {
  app.post(
    '/v1/accounts/:id/keys',
    {
      // Without another credential, the password in the body is required.
      preValidation: async (request, reply) => {
        if (hasCredential(request)) await identify.call(app, request, reply)
        else fillBody(request)
      },
      schema: {
        operationId: 'createAccountKey',
        summary:
          'Create a key, authenticated by a key, a session or the password (the way back in if all keys are lost)',
        tags,
        security: [...BY_KEY_OR_SESSION, ...BY_PASSWORD],
        headers: idempotent,
        params,
        body: keyRequest,
        response: answers({ 201: createdKey }, [
          ...AUTH_ERRORS,
          ...BODY_ERRORS,
          'invalid_credentials',
          'mode_mismatch',
          'not_found',
          'key_limit_reached',
          'idempotency_conflict',
          'idempotency_mismatch',
        ]),
      },
    },
    async (request, reply) => {
      const { name, mode: wanted, password } = request.body
      const { id } = request.params
      let { caller } = request
      if (hasCredential(request)) {
        await accounts.own(caller, id)
      } else {
        if (password === undefined)
          throw StaticError.of('auth_failed', 'An API key, a session or the password is required.')
        const { plan, passwordHash } = await accounts.byPassword(id, password, request.rateContext)
        caller = { accountId: id, plan, mode: 'live', credential: { by: 'password', hash: passwordHash } }
      }
      const idempotencyKey = request.headers['idempotency-key']
      const wantedKey = { name, mode: wanted as Mode | undefined }
      const made = await keys.create(caller, wantedKey, idempotencyKey, request.rateContext)
      return reply.code(201).send({ ...made, api_key: made.key })
    },
  )
}

function passwordRoutes(app: App, { accounts }: Service, origin: () => string): void {
  app.put(
    '/v1/accounts/:id/password',
    {
      schema: {
        operationId: 'changePassword',
        summary: 'Change the password; ends all sign-in sessions',
        tags,
        security: BY_PASSWORD,
        params,
        body: newPassword,
        response: answers({ 204: NO_CONTENT }, PASSWORD_ERRORS),
      },
    },
    async (request, reply) => {
      const { current_password: current, new_password: next } = request.body
      const context = passwordContext(request, origin())
      setDeviceCookie(reply, await accounts.changePassword(request.params.id, current, next, context))
      return reply.code(204).send()
    },
  )

  app.delete(
    '/v1/accounts/:id',
    {
      schema: {
        operationId: 'closeAccount',
        summary: 'Close the account: revokes all keys and erases personal data',
        tags,
        security: BY_PASSWORD,
        params,
        body: closing,
        response: answers({ 204: NO_CONTENT }, PASSWORD_ERRORS),
      },
    },
    async (request, reply) => {
      await accounts.close(request.params.id, request.body.password, passwordContext(request, origin()))
      return reply.code(204).send()
    },
  )
}
