/** Who is signed in, and what every view may ask of the page around it. */
import type { Account } from '@static/protocol'
import { type Context, createContext } from 'preact'
import { useCallback, useContext, useEffect, useState } from 'preact/hooks'
import { ApiError, call } from './api.ts'

/** A secret that is shown once. */
export interface SecretKey {
  readonly name: string
  readonly key: string
}

/** What the page offers to the views of somebody who is signed in. */
export interface Session {
  readonly account: Account
  /** Shows a new key; it is forgotten when its dialog is closed. */
  readonly show: (key: SecretKey) => void
  /** Tells a result, also to screen readers. */
  readonly say: (text: string) => void
  /** Goes back to the sign-in, with a word on why. */
  readonly end: (note: string) => void
}

export const SessionContext: Context<Session | undefined> = createContext<Session | undefined>(undefined)

/** The session of the view that asks. */
export function useSession(): Session {
  const session = useContext(SessionContext)
  if (!session) throw new Error('This view is for somebody who is signed in.')
  return session
}

/** Calls the API; a session that has ended leads back to the sign-in. */
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

/** What a view shows: loaded when it is entered, and again when it says so. */
export interface Loaded<Answer> {
  readonly data: Answer | undefined
  readonly error: unknown
  readonly reload: () => Promise<void>
}

/** Reads from the API. What was read stays while it is read again. */
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
  return { data: state.data, error: state.error, reload }
}
