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
  const [told, setTold] = useState('')
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(secret.key)
      setTold('The key is copied.')
    } catch {
      // Not every browser lets a page write there; people always can.
      if (text.current) getSelection()?.selectAllChildren(text.current)
      setTold('The key is selected. Copy it with your keyboard.')
    }
  }
  return (
    <Dialog title={`Your key “${secret.name}”`} firm onClose={onClose}>
      <p>Copy it now and keep it safe. It is shown only once: only a hash of it is stored.</p>
      <code class="secret" ref={text}>
        {secret.key}
      </code>
      <form method="dialog" class="actions">
        <button type="button" class="primary" onClick={() => void copy()}>
          Copy
        </button>
        <button type="submit">I have kept it</button>
      </form>
      <p class="hint" role="status">
        {told}
      </p>
    </Dialog>
  )
}
