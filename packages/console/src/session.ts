/** The signed-in session, and the functions that the page provides to its views. */
import type { Account } from '@static/protocol'
import { type Context, createContext } from 'preact'
import { useCallback, useContext, useEffect, useState } from 'preact/hooks'
import { ApiError, call, onReachability } from './api.ts'

/** A secret that is shown once. */
export interface SecretKey {
  readonly name: string
  readonly key: string
}

/** The functions that the page provides to the views of a signed-in user. */
export interface Session {
  readonly account: Account
  /** Shows a new key in a dialog; closing the dialog discards the key. */
  readonly show: (key: SecretKey) => void
  /** Shows a result, and announces it to screen readers. */
  readonly say: (text: string) => void
  /** Returns to the sign-in view, with a note that gives the reason. */
  readonly end: (note: string) => void
}

export const SessionContext: Context<Session | undefined> = createContext<Session | undefined>(undefined)

export function useSession(): Session {
  const session = useContext(SessionContext)
  if (!session) throw new Error('This view requires a signed-in user.')
  return session
}

/** Calls the API; returns to the sign-in view if the session has ended. */
export function useCall(): typeof call {
  const { end } = useSession()
  return useCallback(
    async <Answer>(method: string, path: string, body?: unknown): Promise<Answer> => {
      try {
        return await call<Answer>(method, path, body)
      } catch (error) {
        if (error instanceof ApiError && error.code === 'auth_failed') end('Your session has ended. Sign in again.')
        throw error
      }
    },
    [end],
  )
}

/** Calls `again` when the API is reachable again, so that a stale error does not stay on the page. */
export function useRecovery(again: () => Promise<void>): void {
  useEffect(() => onReachability((reached) => void (reached && again())), [again])
}

/** Data of a view: loaded when the view is shown, and again with `reload`. */
export interface Loaded<Answer> {
  readonly data: Answer | undefined
  readonly error: unknown
  readonly reload: () => Promise<void>
}

/** Reads from the API. The previous data stays while it reloads. */
export function useLoaded<Answer>(path: string): Loaded<Answer> {
  const ask = useCall()
  const [state, setState] = useState<{ data?: Answer; error?: unknown }>({})
  const reload = useCallback(async () => {
    try {
      const data = await ask<Answer>('GET', path)
      setState({ data })
    } catch (error) {
      setState((before) => ({ ...before, error }))
    }
  }, [ask, path])
  useEffect(() => void reload(), [reload])
  useRecovery(reload)
  return { data: state.data, error: state.error, reload }
}
