/** Forms: a label on every field, an error message on failure, and no double submission. */
import type { ComponentChildren, JSX } from 'preact'
import { useId, useState } from 'preact/hooks'
import { messageOf } from './api.ts'

export interface FormProps {
  readonly submit: string
  readonly danger?: boolean
  /** A button before the submit button: in a dialog it gets the focus first. */
  readonly beside?: ComponentChildren
  readonly children?: ComponentChildren
  /** If it throws, the form shows the error. */
  readonly onSubmit: (fields: Readonly<Record<string, string>>, form: HTMLFormElement) => Promise<void>
}

export function Form({ submit, danger = false, beside, children, onSubmit }: FormProps): JSX.Element {
  const [error, setError] = useState('')
  const [busy, setBusy] = useState(false)
  const handle = async (form: HTMLFormElement): Promise<void> => {
    if (busy) return
    setBusy(true)
    setError('')
    try {
      await onSubmit(Object.fromEntries(new FormData(form)) as Record<string, string>, form)
    } catch (failure) {
      setError(messageOf(failure))
    }
    setBusy(false)
  }
  return (
    <form
      aria-busy={busy}
      onSubmit={(event) => {
        event.preventDefault()
        void handle(event.currentTarget)
      }}
    >
      {children}
      {error !== '' && (
        <p class="problem" role="alert">
          {error}
        </p>
      )}
      <div class="actions">
        {beside}
        {/* Not `disabled`: the button would lose the focus. */}
        <button type="submit" class={danger ? 'danger' : 'primary'} aria-disabled={busy}>
          {submit}
        </button>
      </div>
    </form>
  )
}

export interface FieldProps {
  readonly label: string
  readonly hint?: string | undefined
  readonly name: string
  readonly maxLength: number
  readonly minLength?: number | undefined
  readonly type?: 'email' | 'password' | 'text'
  readonly autocomplete?: string
  readonly placeholder?: string
  /** The initial value. */
  readonly value?: string
  readonly 'aria-describedby'?: string | undefined
}

type Password = Omit<FieldProps, 'label' | 'name'>

/** An existing password. */
export const PASSWORD: Password = { type: 'password', autocomplete: 'current-password', maxLength: 128 }

/** A new password, with the API's requirements. */
export const NEW_PASSWORD: Password = {
  ...PASSWORD,
  autocomplete: 'new-password',
  minLength: 8,
  hint: 'At least 8 characters, and not easy to guess.',
}

/** A required field. */
export function Field({ label, hint, type = 'text', value, ...input }: FieldProps): JSX.Element {
  const id = useId()
  // Preact has a separate type for each kind of input; `text` stands for all of them here.
  const one = type as 'text'
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        type={one}
        required
        defaultValue={value}
        aria-describedby={hint === undefined ? undefined : `${id}-hint`}
        {...input}
      />
      {hint !== undefined && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  )
}

/** An error message with a button to retry. */
export function Problem({ error, retry }: { error: unknown; retry: () => Promise<void> }): JSX.Element {
  return (
    <div class="problem" role="alert">
      <p>{messageOf(error)}</p>
      <button type="button" onClick={() => void retry()}>
        Try again
      </button>
    </div>
  )
}
