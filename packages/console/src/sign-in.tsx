/** The sign-in and sign-up forms. */
import type { Account, SignedUp } from '@static/protocol'
import type { JSX } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { call } from './api.ts'
import { Field, Form } from './form.tsx'
import type { SecretKey } from './session.ts'
import { enterView } from './view.ts'

export interface SignInProps {
  /** Sign up instead of sign in. */
  readonly isNew: boolean
  /** Why the user has to sign in again; may be empty. */
  readonly note: string
  readonly show: (key: SecretKey) => void
  readonly onSignedIn: (account: Account) => void
}

export function SignIn({ isNew, note, show, onSignedIn }: SignInProps): JSX.Element {
  const section = useRef<HTMLElement>(null)
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
      <Form
        submit={title}
        onSubmit={async ({ email, password }) => {
          if (isNew) {
            const { api_key: first } = await call<SignedUp>('POST', '/v1/accounts', { email, password })
            // Before anything else can fail, because the key is never shown again.
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
        <Field
          label="Password"
          name="password"
          type="password"
          autocomplete={isNew ? 'new-password' : 'current-password'}
          maxLength={128}
          minLength={isNew ? 8 : undefined}
          hint={isNew ? 'At least 8 characters, and not easy to guess.' : undefined}
        />
      </Form>
      <p class="aside">
        {isNew ? 'Already have an account? ' : 'New here? '}
        <a href={isNew ? '#/sign-in' : '#/sign-up'}>{isNew ? 'Sign in' : 'Create an account'}</a>
      </p>
    </section>
  )
}
