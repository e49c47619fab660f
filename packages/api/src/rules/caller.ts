/** The authenticated caller of a request. */
import { type Mode, MODES, type Plan } from '@static/protocol'
import type { Credential } from '../ports.ts'

export interface Caller {
  readonly accountId: string
  readonly plan: Plan
  /** The mode of the key; `live` for sign-in sessions. */
  readonly mode: Mode
  readonly credential: Credential
}

/** A caller with a sign-in session. */
export interface SessionCaller extends Caller {
  readonly credential: Extract<Credential, { readonly by: 'session' }>
}

/** The modes whose keys a caller may list, create and revoke: a live caller manages both. */
export function modesOf(caller: Caller): readonly Mode[] {
  return caller.mode === 'live' ? MODES : ['test']
}
