/** A new key, shown once. */
import type { JSX } from 'preact'
import { useRef, useState } from 'preact/hooks'
import { Dialog } from './dialog.tsx'
import type { SecretKey } from './session.ts'

export interface NewKeyProps {
  readonly secret: SecretKey
  readonly onClose: () => void
}

export function NewKey({ secret, onClose }: NewKeyProps): JSX.Element {
  const text = useRef<HTMLElement>(null)
  const [result, setResult] = useState('')
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(secret.key)
      setResult('Key copied.')
    } catch {
      // Some browsers do not let a page write to the clipboard: select the key so that the user can copy it.
      if (text.current) getSelection()?.selectAllChildren(text.current)
      setResult('Key selected. Copy it with your keyboard.')
    }
  }
  return (
    <Dialog title={`Your key “${secret.name}”`} firm onClose={onClose}>
      <p>Copy it now and store it safely. It is shown only once, because only a hash of it is stored.</p>
      <code class="secret" ref={text}>
        {secret.key}
      </code>
      <form method="dialog" class="actions">
        <button type="button" class="primary" onClick={() => void copy()}>
          Copy
        </button>
        <button type="submit">I have saved it</button>
      </form>
      <p class="hint" role="status">
        {result}
      </p>
    </Dialog>
  )
}
