/** A native dialog: the browser keeps the focus inside and restores it on close. */
import type { ComponentChildren, JSX } from 'preact'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'

export interface DialogProps {
  readonly title: string
  /** Stays open on Escape, because its content is shown only once. */
  readonly firm?: boolean
  readonly children: ComponentChildren
  readonly onClose: () => void
}

export function Dialog({ title, firm = false, children, onClose }: DialogProps): JSX.Element {
  const id = useId()
  const dialog = useRef<HTMLDialogElement>(null)
  useLayoutEffect(() => dialog.current?.showModal(), [])
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      onClose={onClose}
      onCancel={(event) => {
        if (firm) event.preventDefault()
      }}
    >
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  )
}
