/** What attackers are told: where the servers listen, and which certificate authority they have. */

/** The servers under attack. */
export interface Target {
  readonly apiPort: number
  readonly grpcPort: number
  readonly quicPort: number
  /** PEM. */
  readonly ca: string
  /** An API key of the attacker's account. */
  readonly apiKey: string
  /** A token for that key: an earlier attack may have used up what the account gets. */
  readonly token: string
  /** The agent id of a member that takes offers. */
  readonly victim: string
  /** Where the attacker comes from: limits per address must not hit the probe instead. */
  readonly addresses: readonly string[]
  /** How many connections, streams or requests at once. */
  readonly size: number
}

/** What a child process is started with. */
export interface Order {
  readonly attacks: readonly string[]
  readonly target: Target
}

/** How far an attack has come. */
export interface Counts {
  /** Connections made, requests answered or packets sent. */
  hits: number
  /** Connections that it tried to make, and those that are open now; only of attacks that keep them. */
  tried: number
  held: number
}

/** What a child process reports. */
export interface Report {
  readonly attack: string
  readonly counts: Readonly<Counts>
}
