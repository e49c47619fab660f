/** A stream of a session from the dial on. */
import type { Time } from '../ports.ts'
import type { StreamNumber, Way } from './io.ts'
import type { SessionStream } from './stream.ts'
import type { HeldToken } from './tokens.ts'

/** What the core knows about it. */
export interface Attempt<Key> {
  readonly number: StreamNumber
  readonly way: Way
  /** How often the relay has named another port. */
  readonly hops: number
  /** What the session lives by, or will; a guest's has none. */
  token: HeldToken | undefined
  /** A session had been opened with the token before. */
  readonly isTokenOld: boolean
  /** By when it must be dialled, then open. */
  deadline: Time
  stream: SessionStream<Key> | undefined
  openedAt: Time | undefined
  /** It takes the place of a session that was open: the listener knows of no loss yet. */
  isSwitch: boolean
}

/** Transports give up sooner, and know why. */
const DIAL_MS = 10_000
/** How long a stream may take to become a session. */
export const OPENING_MS = 10_000
const MAX_HOPS = 5
const MAX_PORT = 65_535

/** A dial that begins now. */
export function newAttempt<Key>(
  { number, way, hops, token }: Pick<Attempt<Key>, 'number' | 'way' | 'hops' | 'token'>,
  now: Time,
): Attempt<Key> {
  return {
    number,
    way,
    hops,
    token,
    isTokenOld: token?.used === true,
    deadline: now + DIAL_MS,
    stream: undefined,
    openedAt: undefined,
    isSwitch: false,
  }
}

/** Whether a relay's word to dial another port is followed: UDP ports only, and not for ever. */
export function mayHop<Key>({ way, openedAt, hops }: Attempt<Key>, port: number): boolean {
  return way === 'quic' && openedAt === undefined && hops < MAX_HOPS && port >= 1 && port <= MAX_PORT
}
