/** Shared by the parts of the runner. */
import type { Turns } from '@static/node/turns'
import type { ClientMessage } from '@static/protocol/relay'
import type { Input } from '../core/io.ts'
import type { StreamId, Time } from '../ports.ts'
import type { Settings } from '../settings.ts'

/** A request that waits for its turn. */
export interface Waiting {
  readonly isGone: () => boolean
  readonly run: () => void
}

export interface RunnerContext {
  readonly settings: Settings
  /** The monotonic clock. */
  readonly now: () => Time
  /** Passes an input to the core and carries out its effects. */
  readonly handle: (input: Input) => void
  /** An id that no stream or call has had before. */
  readonly nextStream: () => StreamId
  /** Where costly requests from an address wait for their turn. */
  readonly turns: Turns<Waiting>
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

/**
 * Whether a request waits for its turn. Most cost a signature, several rows, or an entry that everyone reads; many at
 * once would delay everyone's messages. A message costs little and must not wait.
 */
export function isCostly(request: string | undefined): boolean {
  return request !== 'sendMessage'
}

/** Whether a request's bytes are kept until it is answered. Of other requests, only a few fields are. */
export function holdsBody({ body }: ClientMessage): boolean {
  return HOLDING.includes(body.case)
}
