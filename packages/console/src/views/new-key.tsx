/** A new key, shown once, and how to use it. */
import type { JSX } from 'preact'
import { Connect } from './connect.tsx'
import { Copy } from '../copy.tsx'
import { Dialog } from '../dialog.tsx'
import type { SecretKey } from '../session.ts'

export interface NewKeyProps {
  readonly secret: SecretKey
  readonly onClose: () => void
}

export function NewKey({ secret, onClose }: NewKeyProps): JSX.Element {
  return (
    <Dialog title={`Your key “${secret.name}”`} firm onClose={onClose}>
      <p>Copy it now and store it safely. It is shown only once, because only a hash of it is stored.</p>
      <Copy text={secret.key} what="key" primary>
        <button type="submit">I have saved it</button>
      </Copy>
      <Connect heading="h3" />
    </Dialog>
  )
}
