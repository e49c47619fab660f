/** The sign-in sessions of the account, with sign-out of one and of all others. */
import type { ListedSession } from '@static/protocol'
import type { JSX } from 'preact'
import { useRef } from 'preact/hooks'
import { messageOf } from '../api.ts'
import { Problem } from '../form.tsx'
import { Time } from './keys.tsx'
import { type Loaded, useCall, useSession } from '../session.ts'

export interface SessionsProps {
  readonly loaded: Loaded<{ readonly sessions: readonly ListedSession[] }>
}

export function Sessions({ loaded: { data, error, reload } }: SessionsProps): JSX.Element {
  const { say } = useSession()
  const ask = useCall()
  const heading = useRef<HTMLHeadingElement>(null)
  const end = async (path: string, done: (answer: { readonly ended: number }) => string): Promise<void> => {
    try {
      say(done(await ask<{ readonly ended: number }>('DELETE', path)))
      // The button that was pressed disappears.
      heading.current?.focus()
    } catch (failure) {
      say(messageOf(failure))
    }
    await reload()
  }
  const others = data?.sessions.filter(({ current }) => !current) ?? []

  return (
    <section class="card">
      <h2 ref={heading} tabIndex={-1}>
        Sessions
      </h2>
      <p>Browsers in which you are signed in. If you do not recognize one, sign it out and change your password.</p>
      {error !== undefined && <Problem error={error} retry={reload} />}
      {data === undefined ? (
        error === undefined && <p class="quiet">Loading…</p>
      ) : (
        <SessionTable sessions={data.sessions} onEnd={(one) => end(`/v1/sessions/${one.id}`, () => 'Session ended.')} />
      )}
      {others.length > 0 && (
        <div class="actions">
          <button
            type="button"
            onClick={() =>
              void end('/v1/sessions', ({ ended }) => `Ended ${ended} other ${ended === 1 ? 'session' : 'sessions'}.`)
            }
          >
            Sign out all others
          </button>
        </div>
      )}
    </section>
  )
}

interface TableProps {
  readonly sessions: readonly ListedSession[]
  readonly onEnd: (session: ListedSession) => Promise<void>
}

function SessionTable({ sessions, onEnd }: TableProps): JSX.Element {
  return (
    <table class="keys blocks">
      <thead>
        <tr>
          <th scope="col">Browser</th>
          <th scope="col">Signed in</th>
          <th scope="col">Last used</th>
          <th scope="col">
            <span class="hidden">Action</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {sessions.map((session) => (
          <tr key={session.id}>
            <th scope="row">
              {session.client ?? 'Unknown browser'} {session.current && <span class="badge">this one</span>}
              {session.address !== null && <div class="quiet code">{session.address}</div>}
            </th>
            <td data-label="Signed in">
              <Time iso={session.created_at} />
            </td>
            <td data-label="Last used">{session.current ? 'now' : <Time iso={session.last_used_at} />}</td>
            <td class="end">
              {!session.current && (
                <button type="button" onClick={() => void onEnd(session)}>
                  Sign out<span class="hidden"> {session.client ?? 'the unknown browser'}</span>
                </button>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
