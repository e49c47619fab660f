/** What the bench tells each of the peer's processes at its start. */

/** The node's. */
export interface NodeOptions {
  readonly port: number
  readonly cert: string
  readonly key: string
}

/** Those of the members of one group, or of its sender. */
export interface MemberOptions {
  readonly port: number
  readonly ca: string
  /** What the names of its members begin with. */
  readonly group: string
  readonly members: number
}
