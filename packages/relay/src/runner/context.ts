/** Shared by the parts of the runner. */
import type { ClientMessage } from '@static/protocol/relay'
import type { Input } from '../core/io.ts'
import type { StreamId, Time } from '../ports.ts'
import type { Settings } from '../settings.ts'

export interface RunnerContext {
  readonly settings: Settings
  /** The monotonic clock. */
  readonly now: () => Time
  /** Passes an input to the core and carries out its effects. */
  readonly handle: (input: Input) => void
  /** An id that no stream or call has had before. */
  readonly nextStream: () => StreamId
}

/** Memory that a request without a long field takes while it is pending. */
export const REQUEST_BYTES = 512

const HOLDING: readonly ClientMessage['body']['case'][] = [
  'sendMessage',
  'sendCommit',
  'sendWelcome',
  'createChannel',
  'requestJoin',
]

/** Whether a request's bytes are kept until it is answered. Of the others only a few fields are. */
export function holdsBody({ body }: ClientMessage): boolean {
  return HOLDING.includes(body.case)
}
