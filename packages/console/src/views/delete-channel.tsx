/** Deletes a channel: the button on its page, and the dialog that asks for its name. */
import type { OverviewChannel, RequestedDeletion } from '@static/protocol'
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { ApiError } from '../api.ts'
import { Dialog } from '../dialog.tsx'
import { Field, Form } from '../form.tsx'
import { useCall, useSession } from '../session.ts'
import { Cancel } from './keys.tsx'

export function DeleteChannel({ channel }: { channel: OverviewChannel }): JSX.Element {
  const { say } = useSession()
  const ask = useCall()
  const [state, setState] = useState<'kept' | 'asking' | 'queued'>('kept')
  const { id, name, mode } = channel
  const queue = async ({ typed = '' }: Readonly<Record<string, string>>, form: HTMLFormElement): Promise<void> => {
    if (typed.trim() !== name) throw new ApiError('invalid_request', `That is not the name of the channel, ${name}.`)
    await ask<RequestedDeletion>('POST', '/v1/channels/deletions', { name, mode, channel_id: id })
    form.closest('dialog')?.close()
    setState('queued')
    say(`The relay deletes ${name} within seconds.`)
  }
  // The page says that it is gone with the relay's next report.
  if (state === 'queued') return <span class="quiet">It is being deleted.</span>
  return (
    <>
      <button type="button" class="danger" onClick={() => setState('asking')}>
        Delete…
      </button>
      {state === 'asking' && (
        <Dialog title={`Delete ${name}?`} onClose={() => setState((now) => (now === 'asking' ? 'kept' : now))}>
          <p>It ends for all its members, permanently. Messages that members have not fetched are lost.</p>
          <Form submit="Delete channel" danger beside={<Cancel />} onSubmit={queue}>
            <Field label="Type its name to confirm" name="typed" maxLength={191} autocomplete="off" />
          </Form>
        </Dialog>
      )}
    </>
  )
}
