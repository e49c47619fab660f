/** Invites in the agent's database: those it issued, those that members may use, and those that it joins with. */
import type { AgentId, ChannelId, Time } from './ids.ts'

/** The agents that admit the joiners of an invite: only the owner, or any member with an account. */
export type Admit = 'owner' | 'members'

/** An invite issued by this agent, with the agent's own count of uses. */
export interface InviteRecord {
  /** Invite id, hexadecimal. */
  readonly id: string
  readonly channel: ChannelId
  /** S, from which all other keys of the invite are derived. */
  readonly secret: Uint8Array
  readonly expiresAt: Time
  readonly maxUses: number
  readonly uses: number
  /** Uses that were returned. The relay counts them as used. */
  readonly returned: number
  readonly revoked: boolean
  readonly admit: Admit
  /** If joiners must show a proof: the secret of the key to which they encrypt their requests. */
  readonly boxSecret?: Uint8Array | undefined
  /** The rules that joiners must satisfy, as text, one a line; and whether one takes the place of the same subject. */
  readonly require?: string | undefined
  readonly replaces?: boolean | undefined
}

/** An agent that has joined, or is joining, with an invite of this agent. */
export interface JoinerRecord {
  readonly channel: ChannelId
  readonly agent: AgentId
  readonly invite: string
  /** Nonce of its request: a repeated request is not a second use. */
  readonly nonce: Uint8Array
  readonly keyPackageHash: Uint8Array
  /** The hashes of the KeyPackages it asked with earlier, concatenated. The relay may still have them. */
  readonly spent: Uint8Array
  /**
   * `taken`: a use is reserved. `added`: the commit is accepted. `here`: it said hello. `gone`: it never said hello.
   */
  readonly state: 'taken' | 'added' | 'here' | 'gone'
  /** When it entered this state; relevant for `added`. */
  readonly since: Time
  /** The verdict on the proof that it has shown, as JSON that the layer above defines. */
  readonly verdict?: string | undefined
}

/** A join by invite token that is in progress. */
export interface AttemptRecord {
  readonly invite: string
  readonly channel: ChannelId
  readonly name: string
  readonly owner: AgentId
  readonly secret: Uint8Array
  readonly expiresAt: Time
  readonly nonce: Uint8Array
  readonly keyPackage: Uint8Array
  readonly admit: Admit
  /** Whether this agent has joined by an offer instead, so that it no longer asks. */
  readonly takenBack: boolean
  /** If the owner asks for a proof: SHA-256 of the key to which the request is encrypted. */
  readonly boxKeyHash?: Uint8Array | undefined
  /** The issuer whose proof this agent shows in the channel; empty for its only one, undefined for none. */
  readonly show?: string | undefined
}

/** The owner's list of the invites that members may use. */
export interface InviteListRecord {
  /** As the owner signed it, including the signature. */
  readonly list: Uint8Array
  /** For each invite of the list, the slot and how many had joined with it by then, if known. */
  readonly counts: Uint8Array
  /** Whether this agent has to send it to the group. */
  readonly due: boolean
}

/** An agent that was added by an invite that members may use. */
export interface UseRecord {
  readonly agent: AgentId
  /** The position in the log after the commit that added it. */
  readonly slot: number
  /** Invite id, hexadecimal. */
  readonly invite: string
  /** The encryption key of the leaf it was added with, which identifies the request. */
  readonly leafKey: Uint8Array
  /** The member that added it. */
  readonly by: AgentId
  readonly since: Time
  /**
   * `heard`: it said hello, and this agent has yet to answer. `here`: it said hello, and was answered if necessary.
   * `removing`: as the owner, this agent removes it for its silence. `returned`: it was removed, and its use returned.
   */
  readonly state: 'added' | 'heard' | 'here' | 'removing' | 'returned'
  /** Whether the invite had no uses left, or was not in the list: the owner removes the agent. */
  readonly beyond: boolean
}

/** The agents that a member is about to add in this epoch, and their invites. */
export interface ClaimRecord {
  /** The member; for a claim by this agent that is not in the log yet, its message id instead. */
  readonly by: AgentId
  /** Encoded as in its message. */
  readonly claims: Uint8Array
}
