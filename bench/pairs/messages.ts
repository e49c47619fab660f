/** Messages between the bench, its sides and their readers. */
import type { Usage } from './usage.ts'

/** The ways to the relay. */
export type Way = 'grpc' | 'quic'

/**
 * A burst of work: round trips, messages to one member or to ten, or requests to the API (over neither way).
 */
export interface Burst {
  readonly kind: 'rounds' | 'messages' | 'fanOut' | 'requests'
  readonly way?: Way
  readonly count: number
}

/** The cost of a burst. */
export interface Cost {
  /** Milliseconds. */
  readonly wall: number
  /** Time of each round trip, in milliseconds. */
  readonly times: readonly number[]
  readonly sender: Usage
  readonly relay: Usage
  /** Total of all receivers. */
  readonly receivers: Usage
  /** Start and end, nanoseconds of the clock that stamps use. */
  readonly span: readonly [string, string]
}

/** A side when it starts: its checkout, and a directory for its files. */
export interface Place {
  readonly checkout: string
  readonly directory: string
}

/** What a side says first. */
export interface Ready {
  readonly ways: readonly Way[]
}

/** How clients of a side connect, by way. */
export type Connections = Partial<
  Record<
    Way,
    {
      readonly endpoint: string
      readonly apiUrl: string
      readonly apiKey: string
      readonly ca: string
    }
  >
>

/** How many members a message of the kind `fanOut` goes to. */
export const MEMBERS = 10

/** The first byte of a payload says what its reader shall do. */
export const MARKS = { none: 0, echo: 1, last: 2 } as const

/** A channel of a way: with one reader, or with all. */
export function channelName(way: Way, readers: 'one' | 'ten'): string {
  return `bench/pairs/${way}-${readers}`
}
