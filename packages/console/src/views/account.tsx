/** The account view: details, sessions, change the password, close the account. */
import type { Account as AccountAnswer, ListedSession } from '@static/protocol'
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { ApiError, call } from '../api.ts'
import { Dialog } from '../dialog.tsx'
import { Field, Form, NEW_PASSWORD, PASSWORD } from '../form.tsx'
import { longDay } from '../format.ts'
import { Cancel } from './keys.tsx'
import { useLoaded, useSession } from '../session.ts'
import { Sessions } from './sessions.tsx'

export function Account(): JSX.Element {
  const sessions = useLoaded<{ readonly sessions: readonly ListedSession[] }>('/v1/sessions')
  return (
    <>
      <About />
      <Sessions loaded={sessions} />
      <ChangePassword onChanged={sessions.reload} />
      <CloseAccount />
    </>
  )
}

function About(): JSX.Element {
  const { account } = useSession()
  return (
    <section class="card">
      <h2>About</h2>
      <dl>
        <div>
          <dt>E-mail address</dt>
          <dd>{account.email}</dd>
        </div>
        <div>
          <dt>Plan</dt>
          <dd>{account.plan}</dd>
        </div>
        <div>
          <dt>Created</dt>
          <dd>{longDay(account.created_at)}</dd>
        </div>
        <div>
          <dt>Account id</dt>
          <dd class="code">{account.id}</dd>
        </div>
      </dl>
    </section>
  )
}

function ChangePassword({ onChanged }: { onChanged: () => Promise<void> }): JSX.Element {
  const { account, say, end } = useSession()
  const changePassword = async (
    { current, next }: Readonly<Record<string, string>>,
    form: HTMLFormElement,
  ): Promise<void> => {
    await ofPassword(call('PUT', `${pathOf(account)}/password`, { current_password: current, new_password: next }))
    form.reset()
    try {
      // The change has ended every session, including this one.
      await call<AccountAnswer>('POST', '/v1/sessions', { email: account.email, password: next })
    } catch {
      end('Password changed. Sign in with the new one.')
      return
    }
    say('Password changed. All other sessions have ended.')
    await onChanged()
  }

  return (
    <section class="card">
      <h2>Change password</h2>
      <p>This ends all your other sessions. Your keys keep working.</p>
      <Form submit="Change password" onSubmit={changePassword}>
        {/* For password managers. */}
        <input type="email" autocomplete="username" value={account.email} readOnly hidden />
        <Field label="Current password" name="current" {...PASSWORD} />
        <Field label="New password" name="next" {...NEW_PASSWORD} />
      </Form>
    </section>
  )
}

function CloseAccount(): JSX.Element {
  const { account, end } = useSession()
  const [closing, setClosing] = useState(false)
  const close = async ({ password }: Readonly<Record<string, string>>): Promise<void> => {
    await ofPassword(call('DELETE', pathOf(account), { password }))
    end('Your account is closed and its keys are revoked.')
  }

  return (
    <>
      <section class="card">
        <h2>Close account</h2>
        <p>This revokes all keys immediately and erases your personal data. It cannot be undone.</p>
        <div class="actions">
          <button type="button" class="danger" onClick={() => setClosing(true)}>
            Close account…
          </button>
        </div>
      </section>
      {closing && (
        <Dialog title="Close your account?" onClose={() => setClosing(false)}>
          <p>Every program that uses one of its keys will stop working. This cannot be undone.</p>
          <Form submit="Close account" danger beside={<Cancel />} onSubmit={close}>
            <input type="email" autocomplete="username" value={account.email} readOnly hidden />
            <Field label="Password" name="password" {...PASSWORD} />
          </Form>
        </Dialog>
      )}
    </>
  )
}

function pathOf(account: AccountAnswer): string {
  return `/v1/accounts/${account.id}`
}

/** The form asks only for a password, so only the password can be wrong. */
async function ofPassword(work: Promise<void>): Promise<void> {
  try {
    await work
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'invalid_credentials') throw error
    throw new ApiError(error.code, 'The password is wrong.')
  }
}
