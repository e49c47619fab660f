/** The activity view: the audit log of the account. */
import type { AuditedEvent, AuditPage } from '@static/protocol'
import type { JSX } from 'preact'
import { useCallback, useEffect, useState } from 'preact/hooks'
import { Problem } from '../form.tsx'
import { Time } from './keys.tsx'
import { useCall, useRecovery } from '../session.ts'

const EVENTS: Readonly<Record<AuditedEvent['event'], string>> = {
  account_created: 'Account created',
  account_closed: 'Account closed',
  account_suspended: 'Account suspended',
  account_resumed: 'Account resumed',
  plan_changed: 'Plan changed',
  sign_in: 'Signed in',
  sign_in_failed: 'Wrong password',
  session_ended: 'Session ended',
  password_changed: 'Password changed',
  password_link_created: 'Set-password link created',
  password_set: 'Password set with a link',
  key_created: 'Key created',
  key_revoked: 'Key revoked',
  signup_invite_created: 'Sign-up invite created',
  signup_invite_revoked: 'Sign-up invite revoked',
  channel_deletion_requested: 'Deletion of a channel requested',
  channel_deleted: 'Channel deleted',
}
const ACTORS: Readonly<Record<AuditedEvent['actor'], string>> = { user: 'you', admin: 'operator', system: 'system' }

export function Activity(): JSX.Element {
  const ask = useCall()
  const [pages, setPages] = useState<readonly AuditPage[]>([])
  const [error, setError] = useState<unknown>()
  const next = pages.at(-1)?.next
  const load = useCallback(
    async (before: string | null | undefined) => {
      try {
        const page = await ask<AuditPage>('GET', `/v1/audit${typeof before === 'string' ? `?before=${before}` : ''}`)
        setPages((shown) => (typeof before === 'string' ? [...shown, page] : [page]))
        setError(undefined)
      } catch (failure) {
        setError(failure)
      }
    },
    [ask],
  )
  const restart = useCallback(() => load(undefined), [load])
  useEffect(() => void restart(), [restart])
  useRecovery(restart)

  return (
    <section class="card">
      <h2>What happened to your account</h2>
      <p>If you do not recognize something here, change your password and revoke the keys.</p>
      {pages.length === 0 && error === undefined && <p class="quiet">Loading…</p>}
      {pages.length > 0 && <EventTable events={pages.flatMap(({ events }) => events)} />}
      {error !== undefined && <Problem error={error} retry={() => load(next)} />}
      {typeof next === 'string' && error === undefined && (
        <div class="actions">
          <button type="button" onClick={() => void load(next)}>
            Show older events
          </button>
        </div>
      )}
    </section>
  )
}

function EventTable({ events }: { events: readonly AuditedEvent[] }): JSX.Element {
  return (
    <table class="blocks">
      <thead>
        <tr>
          <th scope="col">Event</th>
          <th scope="col">By</th>
          <th scope="col">Details</th>
          <th scope="col">When</th>
        </tr>
      </thead>
      <tbody>
        {events.map((event) => (
          <tr key={event.id}>
            <th scope="row">
              {EVENTS[event.event]} {event.count > 1 && <span class="badge">{event.count} times</span>}
            </th>
            <td data-label="By">{event.event === 'sign_in_failed' ? 'someone' : ACTORS[event.actor]}</td>
            <td data-label="Details">{detailOf(event) || <span class="quiet">–</span>}</td>
            <td data-label="When">
              <Time iso={event.last_at} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

/** The end of a key's id, which tells keys apart; the full id is too long for a table. */
function detailOf({ key_id: key, plan, channel, address }: AuditedEvent): string {
  const from = address === null ? '' : `from ${address}`
  return [key === null ? '' : `key …${key.slice(-12)}`, plan ?? '', channel ?? '', from]
    .filter((part) => part !== '')
    .join(', ')
}
