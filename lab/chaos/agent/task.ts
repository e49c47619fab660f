/** What the machine and its agents tell each other, in lines of JSON. `agent.py` knows the same words. */
import type { ClientOptions } from '@static/sdk'

/** What an agent is started with, as its argument. */
export interface Task {
  readonly name: string
  readonly options: ClientOptions
  readonly channel: string
  /** Its history. */
  readonly file: string
  readonly seed: number
  /** Between two of its messages. */
  readonly pauseMs: number
}

/** What an agent is told to do, on stdin. */
export type Order =
  | { readonly order: 'create' }
  | { readonly order: 'invite'; readonly invite: string; readonly uses: number; readonly admit: 'owner' | 'members' }
  | { readonly order: 'join'; readonly invite: string; readonly token: string; readonly timeout: number }
  | { readonly order: 'leave' | 'rotate' }
  | { readonly order: 'remove'; readonly agent: string }
  /** Sends and asks from now on, or stops to. */
  | { readonly order: 'talk' | 'hush' }
  /** The pause after each message that it reads. */
  | { readonly order: 'pace'; readonly ms: number }
  /** Notes its words and members. */
  | { readonly order: 'verify' }

/** What an agent says on stdout: when it is a member and when not, `ready` after its start, the result of each order. */
export type Reply =
  | { readonly isMember: boolean }
  | { readonly ready: string }
  | { readonly done: number; readonly result: string | null }
  | { readonly failed: number; readonly code: string; readonly message: string }
