/** Messages between the bench of joins and its crowd. */

/** An order for the crowd. */
export type Ask =
  /** Connect this many agents, unless they are connected. */
  | { readonly type: 'connect'; readonly count: number }
  /** Let this many of them join by one token, all at once. */
  | { readonly type: 'join'; readonly name: string; readonly token: string; readonly count: number }
  /** Return a KeyPackage of each. */
  | { readonly type: 'keyPackages'; readonly count: number }
  /** Let one of them replace its keys. */
  | { readonly type: 'rotate'; readonly name: string }

/** The result: how long it took, and its CPU time in the crowd's process. */
export interface Told {
  readonly milliseconds: number
  readonly cpuMilliseconds: number
  readonly keyPackages: readonly string[]
  /** Set if the order failed; then the rest means nothing. */
  readonly failure?: string
}
