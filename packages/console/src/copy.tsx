/** Text with a button that copies it. */
import type { ComponentChildren, JSX } from 'preact'
import { useRef, useState } from 'preact/hooks'

export interface CopyProps {
  readonly text: string
  /** The name of the text, for the button and the result: "key". */
  readonly what: string
  readonly primary?: boolean
  /** Further buttons next to the copy button. */
  readonly children?: ComponentChildren
}

export function Copy({ text, what, primary = false, children }: CopyProps): JSX.Element {
  const shown = useRef<HTMLElement>(null)
  const [result, setResult] = useState('')
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text)
      setResult('Copied.')
    } catch {
      // Some browsers do not let a page write to the clipboard: select the text so that the user can copy it.
      if (shown.current) getSelection()?.selectAllChildren(shown.current)
      setResult('Selected. Copy it with your keyboard.')
    }
  }
  return (
    <>
      <pre class="secret">
        <code ref={shown}>{text}</code>
      </pre>
      <form method="dialog" class="actions">
        <button type="button" class={primary ? 'primary' : undefined} onClick={() => void copy()}>
          Copy {what}
        </button>
        {children}
        <span class="hint" role="status">
          {result}
        </span>
      </form>
    </>
  )
}
