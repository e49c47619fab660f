/** What the bench of joins and its crowd tell each other. */

/** What the crowd is asked to do. */
export type Ask =
  /** So many agents connect, if they are not there yet. */
  | { readonly type: 'connect'; readonly count: number }
  /** So many of them join by one token, all at once. */
  | { readonly type: 'join'; readonly name: string; readonly token: string; readonly count: number }
  /** A KeyPackage of each. */
  | { readonly type: 'keyPackages'; readonly count: number }
  /** One of them replaces its keys. */
  | { readonly type: 'rotate'; readonly name: string }

/** What came of it: how long it took, and what it cost in the crowd's process. */
export interface Told {
  readonly milliseconds: number
  readonly cpuMilliseconds: number
  readonly keyPackages: readonly string[]
  /** Instead of all that. */
  readonly failure?: string
}
