/** The user of the page: unknown until the API has answered, then signed in or signed out. */
import type { Account } from '@static/protocol'
import { useCallback, useEffect, useState } from 'preact/hooks'
import { ApiError, call } from './api.ts'
import { useRecovery } from './session.ts'

export type Who =
  | { readonly is: 'unknown'; readonly error?: unknown }
  | { readonly is: 'out'; readonly note: string }
  | { readonly is: 'in'; readonly account: Account }

interface UsedWho {
  readonly who: Who
  readonly setWho: (who: Who) => void
  /** Asks the API. */
  readonly look: () => Promise<void>
}

/** Asks the API at the start and, until it has answered, whenever it becomes reachable again. */
export function useWho(): UsedWho {
  const [who, setWho] = useState<Who>({ is: 'unknown' })
  const look = useCallback(async () => {
    try {
      setWho({ is: 'in', account: await call<Account>('GET', '/v1/accounts/me') })
    } catch (error) {
      const isOut = error instanceof ApiError && error.code === 'auth_failed'
      setWho(isOut ? { is: 'out', note: '' } : { is: 'unknown', error })
    }
  }, [])
  useEffect(() => void look(), [look])
  const isUnknown = who.is === 'unknown'
  useRecovery(useCallback(async () => void (isUnknown && (await look())), [isUnknown, look]))
  return { who, setWho, look }
}
