/** The form that the operator's one-time link opens: it sets the password of an account. */
import type { Account } from '@static/protocol'
import type { JSX } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { ApiError, call } from '../api.ts'
import { Field, Form, NEW_PASSWORD } from '../form.tsx'
import { enterView } from '../view.ts'

export interface SetPasswordProps {
  /** The link's token; empty if the page was reloaded, because the address no longer contains it. */
  readonly token: string
  readonly onSignedIn: (account: Account) => void
  /** The password is set, but the user has to sign in. */
  readonly onSet: (note: string) => void
}

export function SetPassword({ token, onSignedIn, onSet }: SetPasswordProps): JSX.Element {
  const section = useRef<HTMLElement>(null)
  useLayoutEffect(() => enterView('Set your password', section.current?.querySelector('input') ?? null), [])
  const set = async ({ next, again }: Readonly<Record<string, string>>): Promise<void> => {
    if (next !== again) throw new ApiError('invalid_request', 'The two passwords do not match.')
    const { email } = await call<Account>('POST', '/v1/passwords', { token, new_password: next })
    let account: Account
    try {
      account = await call<Account>('POST', '/v1/sessions', { email, password: next })
    } catch {
      onSet('Password set. Sign in with it.')
      return
    }
    onSignedIn(account)
  }

  return (
    <section class="card narrow" ref={section} aria-labelledby="title">
      <h1 id="title">Set your password</h1>
      {token === '' ? (
        <p>This page needs the whole link. Open the link again, or ask the operator of this server for a new one.</p>
      ) : (
        <>
          <p>The link works once. Setting the password ends all sessions of the account; its keys keep working.</p>
          <Form submit="Set password" onSubmit={set}>
            <Field label="New password" name="next" {...NEW_PASSWORD} />
            <Field label="New password again" name="again" {...NEW_PASSWORD} hint={undefined} />
          </Form>
        </>
      )}
      <p class="aside">
        <a href="#/sign-in">Sign in</a>
      </p>
    </section>
  )
}
