/** A dial, with the stream and session that result from it. */
import type { Time } from '../ports/index.ts'
import type { StreamNumber, Way } from './io.ts'
import type { SessionStream } from './stream.ts'
import type { HeldToken } from './tokens.ts'

/**
 * The session core's record of a dial until its stream has ended. It is in one of three states:
 *
 * - dialing: no `stream` yet, until `dialled` or `dialFailed`
 * - opening: a `stream` on which the agent answers the relay's challenge, until the relay opens the session or refuses
 *   it
 * - open: `openedAt` is set, until the stream fails or the relay closes the session
 *
 * The first two end at `deadline`.
 */
export interface Dial<Key> {
  readonly number: StreamNumber
  readonly way: Way
  /** The address of the endpoint. */
  readonly node: number
  /** How often the relay has redirected it to another port. */
  readonly hops: number
  /** The token that opens the session; undefined for a guest. */
  token: HeldToken | undefined
  /** Whether an earlier session was opened with the same token. */
  readonly isTokenOld: boolean
  /** First for the stream to connect, then for the session to open. */
  deadline: Time
  stream: SessionStream<Key> | undefined
  openedAt: Time | undefined
  /** Whether it replaces an open session: the listener has not seen a loss yet. */
  isSwitch: boolean
}

/** Transports time out earlier, with a more precise reason. */
const DIAL_MS = 20_000
/** Time in which a connected stream must become a session. */
export const OPENING_MS = 10_000
const MAX_HOPS = 5
const MAX_PORT = 65_535

/** A dial that starts now. */
export function newDial<Key>(
  { number, way, node, hops, token }: Pick<Dial<Key>, 'number' | 'way' | 'node' | 'hops' | 'token'>,
  now: Time,
): Dial<Key> {
  return {
    number,
    way,
    node,
    hops,
    token,
    isTokenOld: token?.used === true,
    deadline: now + DIAL_MS,
    stream: undefined,
    openedAt: undefined,
    isSwitch: false,
  }
}

/** Whether to follow a relay's redirect to another port: for UDP only, and only a limited number of times. */
export function mayHop<Key>({ way, openedAt, hops }: Dial<Key>, port: number): boolean {
  return way === 'quic' && openedAt === undefined && hops < MAX_HOPS && isPort(port)
}

/** Whether a number from the relay can be a port. */
export function isPort(port: number): boolean {
  return Number.isInteger(port) && port >= 1 && port <= MAX_PORT
}
