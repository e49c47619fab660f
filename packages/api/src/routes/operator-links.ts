/** /v1/signup and /v1/passwords: who may sign up, and the links that set a password. Neither needs an account. */
import Type from 'typebox'
import { SIGNUP_MODES } from '@static/protocol'
import type { App } from '../http/app.ts'
import { passwordContext, setDeviceCookie } from '../http/authenticate.ts'
import { accountFields, answers, BODY_ERRORS, oneOf, passwordText } from '../http/schemas.ts'
import type { Service } from '../service.ts'

const signup = Type.Object({ mode: oneOf(SIGNUP_MODES) })
const newPassword = Type.Object(
  {
    token: Type.String({ maxLength: 128, description: 'The token of the set-password link' }),
    new_password: Type.String(passwordText),
  },
  { additionalProperties: false },
)
const tags = ['accounts']

export function operatorLinkRoutes(app: App, service: Service, origin: () => string): void {
  app.get(
    '/v1/signup',
    {
      schema: { operationId: 'readSignup', summary: 'Read who may sign up', tags, response: answers({ 200: signup }) },
    },
    () => ({ mode: service.invites.mode }),
  )

  app.post(
    '/v1/passwords',
    {
      schema: {
        operationId: 'setPassword',
        summary: 'Set the password with a one-time link of the operator; ends all sign-in sessions',
        tags,
        body: newPassword,
        response: answers({ 200: Type.Object(accountFields) }, [
          ...BODY_ERRORS,
          'password_link_invalid',
          'account_suspended',
        ]),
      },
    },
    async (request, reply) => {
      const { token, new_password: next } = request.body
      const { account, device } = await service.passwordLinks.use(token, next, passwordContext(request, origin()))
      setDeviceCookie(reply, device)
      return account
    },
  )
}
