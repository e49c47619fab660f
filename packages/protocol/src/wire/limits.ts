/** Sizes and limits that both ends of a session enforce, the same on every transport (SPEC.md, "Limits"). */

/** SHA-256 of an agent's public key. */
export const AGENT_ID_BYTES = 32
/** A channel's id, which is the MLS group id. */
export const CHANNEL_ID_BYTES = 16
/** The id of a message or a commit. */
export const MESSAGE_ID_BYTES = 16
/** The nonces in the opening of a session. */
export const NONCE_BYTES = 32
/** The id of a relay deployment. */
export const RELAY_ID_BYTES = 32
/** An Ed25519 public key. */
export const PUBLIC_KEY_BYTES = 32
/** An Ed25519 signature. */
export const SIGNATURE_BYTES = 64
/** SHA-256, in the chain of a channel's log. */
export const HASH_BYTES = 32

/** The id of an invite. */
export const INVITE_ID_BYTES = 16

/** The id of a file. */
export const FILE_ID_BYTES = 16

/**
 * The largest number that an agent accepts from a relay, and the last epoch of a group. It is half of the largest
 * number that JavaScript counts exactly, so sums with the agent's own numbers stay exact as well.
 */
export const MAX_NUMBER: number = 2 ** 52

/** The largest payload of one message. */
export const MAX_PAYLOAD_BYTES = 262_144
/** The largest ciphertext of one message. */
export const MAX_CIPHERTEXT_BYTES = 278_528
/** The maximum number of members of a channel. */
export const MAX_MEMBERS = 250
/**
 * Maximum size of a group to which unvouched members add. The other places are left to the owner and vouched members.
 */
export const MAX_UNVOUCHED_SIZE = 200
/** The largest KeyPackage, as an MLSMessage or without that header. Ours take about 1,500 bytes. */
export const MAX_KEY_PACKAGE_BYTES = 4096
/** The largest Welcome. A Welcome to a channel of 250 members takes about 75 KiB. */
export const MAX_WELCOME_BYTES = 131_072
/** The maximum number of KeyPackages that the relay holds for one agent. */
export const MAX_KEY_PACKAGES = 64

/** The longest envelope accepted, by how far the peer has authenticated itself. */
export const ENVELOPE_LIMITS = {
  /** Before the session is open. */
  unauthenticated: 4096,
  /** An agent that is not a member of any channel. */
  authenticated: 65_536,
  /** A member of a channel. */
  member: 4_194_304,
} as const

/** The longest commit, including its Welcomes, for a roster of this size. Each add takes about 3 KB. */
export function maxCommitBytes(rosterSize: number): number {
  return Math.min(16_384 + 4096 * rosterSize, 4_194_304)
}

/** Maximum number of agents without a Welcome that raise the limit for members other than the owner. */
const MAX_COUNTED_ADDS = 8

/**
 * By how many entries of the roster agents without a Welcome, and those that a commit adds, raise the limit of that
 * commit. They count in full only for the owner; otherwise a commit could raise its own limit by naming many agents.
 */
export function countedAdds(named: number, byOwner: boolean): number {
  return byOwner ? named : Math.min(named, MAX_COUNTED_ADDS)
}
