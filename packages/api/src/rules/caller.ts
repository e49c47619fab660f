/** Who makes a request, once it is known. */
import { type Mode, MODES, type Plan } from '@static/protocol'
import type { Credential } from '../ports.ts'

/** An authenticated caller. */
export interface Caller {
  readonly accountId: string
  readonly plan: Plan
  /** The mode of the key; people who sign in act live. */
  readonly mode: Mode
  readonly credential: Credential
}

/** The modes whose keys a caller may see, make and revoke: a live one manages both. */
export function modesOf(caller: Caller): readonly Mode[] {
  return caller.mode === 'live' ? MODES : ['test']
}
