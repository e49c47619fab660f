/** The account's API keys. */
import type { CreatedKey, ListedKey } from '@static/protocol'
import type { JSX } from 'preact'
import { useRef, useState } from 'preact/hooks'
import { Dialog } from '../dialog.tsx'
import { Field, Form, Problem } from '../form.tsx'
import { ago, at } from '../format.ts'
import { useCall, useLoaded, useSession } from '../session.ts'

export function Keys(): JSX.Element {
  const { show, say } = useSession()
  const ask = useCall()
  const { data, error, reload } = useLoaded<{ keys: readonly ListedKey[] }>('/v1/keys')
  const [revoking, setRevoking] = useState<ListedKey>()
  const heading = useRef<HTMLHeadingElement>(null)

  const create = async ({ name, mode }: Readonly<Record<string, string>>, form: HTMLFormElement): Promise<void> => {
    const made = await ask<CreatedKey>('POST', '/v1/keys', { name, mode })
    form.reset()
    show(made)
    await reload()
  }
  const revoke = async ({ id, name }: ListedKey, form: HTMLFormElement): Promise<void> => {
    await ask('DELETE', `/v1/keys/${id}`)
    form.closest('dialog')?.close()
    // The button that opened the dialog disappears with its row.
    heading.current?.focus()
    say(`Key “${name}” revoked.`)
    await reload()
  }

  return (
    <>
      <section class="card">
        <h2>Create a key</h2>
        <p>Create one for each program and place, so that you can revoke each one separately.</p>
        <Form submit="Create key" onSubmit={create}>
          <div class="row">
            <Field label="Name" name="name" maxLength={64} placeholder="billing, production" />
            <div class="field">
              <label for="mode">Mode</label>
              <select id="mode" name="mode">
                <option value="live">Live</option>
                <option value="test">Test</option>
              </select>
            </div>
          </div>
        </Form>
      </section>
      <section class="card">
        <h2 ref={heading} tabIndex={-1}>
          Active keys
        </h2>
        {error !== undefined && <Problem error={error} retry={reload} />}
        {data === undefined ? (
          error === undefined && <p class="quiet">Loading…</p>
        ) : data.keys.length === 0 ? (
          <p class="quiet">No active keys. Create one to connect an agent.</p>
        ) : (
          <KeyTable keys={data.keys} onRevoke={setRevoking} />
        )}
      </section>
      {revoking && (
        <Dialog title={`Revoke “${revoking.name}”?`} onClose={() => setRevoking(undefined)}>
          <p>
            The key <span class="code">{revoking.key_prefix}…</span> stops working immediately and permanently. Tokens
            already issued for it stay valid for up to an hour.
          </p>
          <Form submit="Revoke key" danger beside={<Cancel />} onSubmit={(_fields, form) => revoke(revoking, form)} />
        </Dialog>
      )}
    </>
  )
}

interface KeyTableProps {
  readonly keys: readonly ListedKey[]
  readonly onRevoke: (key: ListedKey) => void
}

function KeyTable({ keys, onRevoke }: KeyTableProps): JSX.Element {
  return (
    <table class="keys blocks">
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col">Key</th>
          <th scope="col">Last used</th>
          <th scope="col">Created</th>
          <th scope="col">
            <span class="hidden">Action</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {keys.map((key) => (
          <tr key={key.id}>
            <th scope="row">
              {key.name} {key.mode === 'test' && <span class="badge">test</span>}
            </th>
            <td class="code" data-label="Key">
              {key.key_prefix}…
            </td>
            <td data-label="Last used">
              {key.last_used_at === null ? <span class="quiet">never</span> : <Time iso={key.last_used_at} />}
            </td>
            <td data-label="Created">
              <Time iso={key.created_at} />
            </td>
            <td class="end">
              <button type="button" aria-label={`Revoke ${key.name}, ${key.key_prefix}`} onClick={() => onRevoke(key)}>
                Revoke
              </button>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

/** A time relative to now, with the exact time as its title. */
export function Time({ iso }: { iso: string }): JSX.Element {
  return (
    <time dateTime={iso} title={at(iso)}>
      {ago(iso)}
    </time>
  )
}

/** Closes the dialog that contains it. */
export function Cancel(): JSX.Element {
  return (
    <button type="button" onClick={(event) => event.currentTarget.closest('dialog')?.close()}>
      Cancel
    </button>
  )
}
