/** What the parts of the runner share. */
import type { ClientMessage } from '@static/protocol/relay'
import type { Input } from '../core/io.ts'
import type { StreamId, Time } from '../ports.ts'
import type { Settings } from '../settings.ts'

export interface RunnerContext {
  readonly settings: Settings
  readonly now: () => Time
  /** Tells the core what happened, and carries out what it says. */
  readonly handle: (input: Input) => void
  /** An id that no stream and no call has had. */
  readonly nextStream: () => StreamId
}

/** What a request without a long field holds in memory while it waits. */
export const REQUEST_BYTES = 512

const HOLDING: readonly ClientMessage['body']['case'][] = [
  'sendMessage',
  'sendCommit',
  'sendWelcome',
  'createChannel',
  'requestJoin',
]

/** Requests whose bytes are kept until they are answered; of the others only a few fields are. */
export function holdsBody({ body }: ClientMessage): boolean {
  return HOLDING.includes(body.case)
}
