/** What the bench and its nodes say to each other. */

/** The store that a node opens. */
export type Place =
  | { readonly path: string }
  | {
      /** Of PostgreSQL. */
      readonly url: string
      readonly keyFile: string
    }

/** Messages to append. */
export interface Appends {
  readonly channels: readonly string[]
  /** Who sends; the owner of each channel by default. */
  readonly sender?: string
  readonly count: number
  /** How many are under way at once. */
  readonly window: number
}

/** The bench asks. */
export type NodeAsk =
  /** Channels that their owners are alone in. */
  | { readonly type: 'create'; readonly channels: readonly string[] }
  /** A channel with members. */
  | { readonly type: 'found'; readonly channel: string; readonly members: readonly string[] }
  | ({ readonly type: 'append' } & Appends)

/** A node tells. */
export type NodeTold =
  | { readonly type: 'ready' | 'done' }
  /** How long the whole took, the middle of the times of each message, and CPU microseconds of the node. */
  | { readonly type: 'appended'; readonly seconds: number; readonly medianMs: number; readonly cpu: number }
