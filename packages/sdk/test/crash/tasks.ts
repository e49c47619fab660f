/** What the agent in a process of its own is told, and at which of its calls to the world it is to die. */
import type { CrashPoint } from '@static/testkit/crash/agent-ports'
import type { StartOptions } from './start.ts'

/** What the agent does; bytes are in hexadecimal. */
export type Task =
  | { readonly type: 'create' }
  | { readonly type: 'add'; readonly keyPackage: string }
  | { readonly type: 'join'; readonly welcome: string }
  | { readonly type: 'send'; readonly texts: readonly string[] }
  | { readonly type: 'receive'; readonly count: number }
  | { readonly type: 'rotate' }
  | { readonly type: 'remove'; readonly member: string }
  | { readonly type: 'leave' }
  | { readonly type: 'transfer'; readonly member: string }
  | { readonly type: 'takeOver' }

/** Everything that the process needs to know. */
export interface ChildOptions extends StartOptions {
  /** Where Node keeps compiled modules, which makes the next process start sooner. */
  readonly compiled: string
  readonly channel: string
  readonly task: Task
  /** Hears nothing of the relay from `ready` until it has written something itself: what it does comes too late. */
  readonly deaf: boolean
  readonly crashAt: CrashPoint | undefined
}
