/** Messages between the bench and its nodes. */

/** The store that a node opens. */
export type Place =
  | { readonly path: string }
  | {
      /** URL of PostgreSQL. */
      readonly url: string
      readonly keyFile: string
    }

/** Messages to append. */
export interface Appends {
  readonly channels: readonly string[]
  /** The sender; by default, the owner of each channel. */
  readonly sender?: string
  readonly count: number
  /** Appends in flight at once. */
  readonly window: number
}

/** The bench asks. */
export type NodeAsk =
  /** Channels with their owner as the only member. */
  | { readonly type: 'create'; readonly channels: readonly string[] }
  /** A channel with members. */
  | { readonly type: 'found'; readonly channel: string; readonly members: readonly string[] }
  | ({ readonly type: 'append' } & Appends)

/** A node reports. */
export type NodeTold =
  | { readonly type: 'ready' | 'done' }
  /** The total time, the median time of a message, and the node's CPU microseconds. */
  | { readonly type: 'appended'; readonly seconds: number; readonly medianMs: number; readonly cpu: number }
