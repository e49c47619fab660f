/** The sign-in and sign-up forms. */
import type { Account, SignedUp, SignupMode } from '@static/protocol'
import type { JSX } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Field, Form, NEW_PASSWORD, PASSWORD } from '../form.tsx'
import type { SecretKey } from '../session.ts'
import { enterView } from '../view.ts'

export interface SignInProps {
  /** Sign up instead of sign in. */
  readonly isNew: boolean
  /** The sign-up invite of the operator's link; may be empty. */
  readonly invite: string
  /** Why the user has to sign in again; may be empty. */
  readonly note: string
  readonly show: (key: SecretKey) => void
  readonly onSignedIn: (account: Account) => void
}

export function SignIn({ isNew, invite, note, show, onSignedIn }: SignInProps): JSX.Element {
  const section = useRef<HTMLElement>(null)
  const mode = useSignupMode()
  const title = isNew ? 'Create an account' : 'Sign in'
  useLayoutEffect(() => enterView(title, section.current?.querySelector('input') ?? null), [title, note])
  return (
    <section class="card narrow" key={title} ref={section} aria-labelledby="title">
      <h1 id="title">{title}</h1>
      {note !== '' && (
        <p class="note" id="note">
          {note}
        </p>
      )}
      {isNew && mode === 'closed' ? (
        <p>Sign-up is closed on this server. Ask its operator to create an account for you.</p>
      ) : (
        <Form
          submit={title}
          onSubmit={async ({ email, password, code }) => {
            if (isNew) {
              const wanted = { email, password, ...(code === undefined ? {} : { invite: code.trim() }) }
              const { api_key: first } = await call<SignedUp>('POST', '/v1/accounts', wanted)
              // First, because the key is never shown again and a later step may fail.
              show(first)
            }
            onSignedIn(await call<Account>('POST', '/v1/sessions', { email, password }))
          }}
        >
          <Field
            label="E-mail address"
            name="email"
            type="email"
            autocomplete="username"
            maxLength={254}
            aria-describedby={note === '' ? undefined : 'note'}
          />
          <Field label="Password" name="password" {...(isNew ? NEW_PASSWORD : PASSWORD)} />
          {isNew && mode === 'invite' && (
            <Field
              label="Invite"
              name="code"
              autocomplete="off"
              maxLength={128}
              value={invite}
              hint="One-time code from the operator of this server."
            />
          )}
        </Form>
      )}
      {!isNew && (
        <p class="hint">Forgot your password? The operator of this server can give you a link that sets a new one.</p>
      )}
      {(isNew || mode !== 'closed') && (
        <p class="aside">
          {isNew ? 'Already have an account? ' : 'New here? '}
          <a href={isNew ? '#/sign-in' : '#/sign-up'}>{isNew ? 'Sign in' : 'Create an account'}</a>
        </p>
      )}
    </section>
  )
}

/** Who may sign up; undefined until the API has answered. */
function useSignupMode(): SignupMode | undefined {
  const [mode, setMode] = useState<SignupMode>()
  useEffect(() => {
    call<{ mode: SignupMode }>('GET', '/v1/signup').then(
      (answer) => setMode(answer.mode),
      // The form itself reports that the API cannot be reached.
      () => {},
    )
  }, [])
  return mode
}
