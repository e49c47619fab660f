/** Information for attackers: the addresses of the servers, and their certificate authority. */

/** The servers under attack. */
export interface Target {
  readonly apiPort: number
  readonly grpcPort: number
  readonly quicPort: number
  /** PEM. */
  readonly ca: string
  /** An API key of the attacker's account. */
  readonly apiKey: string
  /** A token for that key: an earlier attack may have used up the account's allowance. */
  readonly token: string
  /** The agent id of a member that accepts offers. */
  readonly victim: string
  /** The attacker's address: limits per address must not hit the probe instead. */
  readonly addresses: readonly string[]
  /** Connections, streams or requests at once. */
  readonly size: number
}

/** Start options of a child process. */
export interface Order {
  readonly attacks: readonly string[]
  readonly target: Target
}

/** Progress of an attack. */
export interface Counts {
  /** Connections made, requests answered or packets sent. */
  hits: number
  /** Connections that it tried to make, and those that are open now; only of attacks that keep them. */
  tried: number
  held: number
}

/** Report of a child process. */
export interface Report {
  readonly attack: string
  readonly counts: Readonly<Counts>
}
