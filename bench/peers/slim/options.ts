/** Start options of the peer's processes. */

/** Options of the node. */
export interface NodeOptions {
  readonly port: number
  readonly cert: string
  readonly key: string
}

/** Options of the members of one group, or of its sender. */
export interface MemberOptions {
  readonly port: number
  readonly ca: string
  /** Prefix of its members' names. */
  readonly group: string
  readonly members: number
}
