/** Messages between the machine and its agents, as lines of JSON. `agent.py` uses the same words. */
import type { ClientOptions } from '@static/sdk'

/** The argument that an agent is started with. */
export interface Task {
  readonly name: string
  readonly options: ClientOptions
  readonly channel: string
  /** Path of its history. */
  readonly file: string
  readonly seed: number
  /** Pause between two of its messages. */
  readonly pauseMs: number
}

/** An order to an agent, on stdin. */
export type Order =
  | { readonly order: 'create' }
  | { readonly order: 'invite'; readonly invite: string; readonly uses: number; readonly admit: 'owner' | 'members' }
  | { readonly order: 'join'; readonly invite: string; readonly token: string; readonly timeout: number }
  | { readonly order: 'leave' | 'rotate' }
  | { readonly order: 'remove' | 'transfer'; readonly agent: string }
  | { readonly order: 'take over' }
  /** Starts to send and ask, or stops. */
  | { readonly order: 'talk' | 'hush' }
  /** The pause after each message that it reads. */
  | { readonly order: 'pace'; readonly ms: number }
  /** Records its words and members. */
  | { readonly order: 'verify' }

/** Output of an agent on stdout: whether it is a member, `ready` after its start, and the result of each order. */
export type Reply =
  | { readonly isMember: boolean }
  | { readonly ready: string }
  | { readonly done: number; readonly result: string | null }
  | { readonly failed: number; readonly code: string; readonly message: string }
