/**
 * What the agent asks of the world: a database, and a way to the relay.
 *
 * Everything that one wake-up changes is written in one transaction: ratchets, cursor, outbox and inbox together, so
 * that a crash leaves all of it or none. What is small is held in memory and read once, when the agent starts.
 */
import type { Pace, StaticError, WireForm } from '@static/protocol'
import type { AckPosition, ClientMessage, Error as Refusal, ServerMessage } from '@static/protocol/relay'

/** Milliseconds since 1970. */
export type Time = number
/** 32 hexadecimal digits. */
export type ChannelId = string
/** SHA-256 of an agent's public key, 64 hexadecimal digits. */
export type AgentId = string

/** Who this agent is. Made once, at the first start. */
export interface IdentityRecord {
  /** What the application calls it. */
  readonly identity: Uint8Array
  /** Ed25519. */
  readonly publicKey: Uint8Array
  readonly secretKey: Uint8Array
}

/** A KeyPackage that can still be used to join. */
export interface KeyPackageRecord {
  /** KeyPackageRef, hexadecimal. */
  readonly ref: string
  readonly keyPackage: Uint8Array
  readonly privatePart: Uint8Array
  readonly createdAt: Time
  /** Whether it was meant for the relay's pool; others were handed to the application. */
  readonly pooled: boolean
}

/** Where this agent stands in a channel's log: the last entry that it has processed. */
export interface PositionRecord {
  readonly index: number
  readonly hash: Uint8Array
  readonly slot: number
}

/** A channel as far as it is small and changes with every message. */
export interface ChannelRecord {
  readonly id: ChannelId
  readonly name: string
  /** Agent id of the owner. */
  readonly owner: AgentId
  /**
   * `founding`: the Welcome for the own new channel is made, the channel not yet registered. `offered`: a Welcome waits
   * to be accepted. `joining`: entered by an invite, not yet greeted by the owner. `joined`: in use. `leaving`: Leave is under way. `ended`: left, removed or deleted; kept until the
   * application has read what is in the inbox.
   */
  readonly state: 'founding' | 'offered' | 'joining' | 'joined' | 'leaving' | 'ended'
  readonly position: PositionRecord
  /** Of this agent's last message, and the hash of its plaintext frame: the own chain. */
  readonly counter: number
  readonly ownHash: Uint8Array
  /** The commit that must follow the first add to a lone group is still due. */
  readonly rekeyDue: boolean
  readonly rekeyedAt: Time
  readonly sentSinceRekey: number
  /** Set when members were shown different histories: who showed it. Sending has stopped. */
  readonly fork: AgentId | undefined
  /** Why the group cannot go on, if it cannot: the code that the application gets. */
  readonly broken: string | undefined
  /**
   * The encryption key of the own leaf, and while an own commit is unanswered that of the leaf after it: a Leave names
   * them. Kept here so that a channel whose group cannot be read can still be left. None before a Welcome was read.
   */
  readonly leafKeys: readonly Uint8Array[]
  /** Of an offer: who has made the Welcome, and when it came. */
  readonly offeredBy: AgentId | undefined
  readonly offeredAt: Time
}

/** A group of an epoch: written once per commit. Its ratchet rows change with every message. */
export interface EpochRecord {
  /** `encodeGroup`. */
  readonly group: Uint8Array
  /** Leaf → `encodeRow`; replaces all rows of the channel. */
  readonly rows: ReadonlyMap<number, Uint8Array>
}

/** A commit of this agent that the relay has not answered yet. */
export interface PendingCommitRecord {
  readonly messageId: Uint8Array
  readonly slot: number
  /** The encoded SendCommitRequest: the same bytes go out again after a crash. */
  readonly request: Uint8Array
  /** SHA-256 of the entry's body, by which the chain goes on: own entries come without it. */
  readonly bodyHash: Uint8Array
  readonly next: EpochRecord
  /** What it is for, in the words of the layer above (JSON). */
  readonly purpose: string
}

/** How far another sender has got in a channel. */
export interface SenderRecord {
  readonly agent: AgentId
  readonly counter: number
  /** The hash of its last message here: its own chain. */
  readonly ownHash: Uint8Array
  /** The application goes on although it has seen another log. */
  readonly accepted: boolean
}

/** An agent that has left a channel, with its signed notice. */
export interface LeaverRecord {
  readonly agent: AgentId
  readonly publicKey: Uint8Array
  /** The head when it left. */
  readonly slot: number
  readonly leafKeys: readonly Uint8Array[]
  readonly signature: Uint8Array
}

/** An invite of this agent, with its own count of uses. */
export interface InviteRecord {
  /** Invite id, hexadecimal. */
  readonly id: string
  readonly channel: ChannelId
  /** S: everything else follows from it. */
  readonly secret: Uint8Array
  readonly expiresAt: Time
  readonly maxUses: number
  readonly uses: number
  /** How many uses were given back: the relay counts those, too. */
  readonly returned: number
  readonly revoked: boolean
}

/** Who has come, or is about to come, by an invite of this agent. */
export interface JoinerRecord {
  readonly channel: ChannelId
  readonly agent: AgentId
  readonly invite: string
  /** Of its request: the same again is no second use. */
  readonly nonce: Uint8Array
  readonly keyPackageHash: Uint8Array
  /** `taken`: a use is taken. `added`: the commit is accepted. `here`: it said hello. `gone`: it is not a member. */
  readonly state: 'taken' | 'added' | 'here' | 'gone'
  /** Since when it is in this state; counts for `added`. */
  readonly since: Time
}

/** A join by a token that is under way. */
export interface AttemptRecord {
  readonly invite: string
  readonly channel: ChannelId
  readonly name: string
  readonly owner: AgentId
  readonly secret: Uint8Array
  readonly expiresAt: Time
  readonly nonce: Uint8Array
  readonly keyPackage: Uint8Array
}

/** A message of this agent, until its own entry has passed in the log. */
export interface OutboxRecord {
  readonly messageId: Uint8Array
  readonly counter: number
  readonly control: boolean
  readonly slot: number
  readonly ciphertext: Uint8Array
  /** Opens `ciphertext`, to encrypt it anew for another epoch. */
  readonly messageKey: Uint8Array
}

/** A message that the application has not settled yet. No plaintext: ciphertext and its own key. */
export interface InboxRecord {
  readonly index: number
  readonly messageId: Uint8Array
  readonly sender: AgentId
  /** What the sender's key called itself. */
  readonly identity: Uint8Array
  readonly epoch: number
  readonly receivedAt: Time
  readonly ciphertext: Uint8Array
  readonly messageKey: Uint8Array
}

/** One step of a transaction. */
export type Change =
  | { readonly type: 'putKeyPackage'; readonly record: KeyPackageRecord }
  | { readonly type: 'dropKeyPackage'; readonly ref: string }
  | { readonly type: 'putChannel'; readonly record: ChannelRecord }
  /** With everything that belongs to it. */
  | { readonly type: 'dropChannel'; readonly id: ChannelId }
  /** A Welcome that waits: of a founding, or an offer. Once it is used, its hash, by which it is known again. */
  | { readonly type: 'putWelcome'; readonly id: ChannelId; readonly welcome: Uint8Array | undefined }
  /** Adopts an epoch: the group before it, its rows and its pending commit are gone. Undefined: there is none any more. */
  | { readonly type: 'putEpoch'; readonly id: ChannelId; readonly epoch: EpochRecord | undefined }
  /** The current group with the key of a commit used up. */
  | { readonly type: 'putGroup'; readonly id: ChannelId; readonly group: Uint8Array }
  | { readonly type: 'putRow'; readonly id: ChannelId; readonly leaf: number; readonly row: Uint8Array }
  | { readonly type: 'putPending'; readonly id: ChannelId; readonly pending: PendingCommitRecord | undefined }
  | { readonly type: 'putSender'; readonly id: ChannelId; readonly sender: SenderRecord }
  | { readonly type: 'dropSender'; readonly id: ChannelId; readonly agent: AgentId }
  | { readonly type: 'putOutbox'; readonly id: ChannelId; readonly record: OutboxRecord }
  /** The relay has it: only the hash of the body is kept, until the own entry has passed. */
  | {
      readonly type: 'answerOutbox'
      readonly id: ChannelId
      readonly messageId: Uint8Array
      readonly bodyHash: Uint8Array
    }
  | { readonly type: 'dropOutbox'; readonly id: ChannelId; readonly messageId: Uint8Array }
  | { readonly type: 'putInbox'; readonly id: ChannelId; readonly record: InboxRecord }
  /** Settled. */
  | { readonly type: 'dropInbox'; readonly id: ChannelId; readonly index: number }
  /** Has left, and is still in the group: the signed notice lets any member remove it. */
  | { readonly type: 'putLeaver'; readonly id: ChannelId; readonly leaver: LeaverRecord }
  | { readonly type: 'dropLeaver'; readonly id: ChannelId; readonly agent: AgentId }
  | { readonly type: 'putInvite'; readonly record: InviteRecord }
  | { readonly type: 'dropInvite'; readonly id: string }
  /** Goes with its invite. */
  | { readonly type: 'putJoiner'; readonly record: JoinerRecord }
  | { readonly type: 'putAttempt'; readonly record: AttemptRecord }
  | { readonly type: 'dropAttempt'; readonly invite: string }
  /** The key of an identity in the channels of an owner. */
  | { readonly type: 'putPin'; readonly owner: AgentId; readonly identity: Uint8Array; readonly agent: AgentId }
  /** The relay behind an endpoint. */
  | { readonly type: 'putRelay'; readonly endpoint: string; readonly relayId: Uint8Array }

/** An own message whose answer has come. */
export interface AnsweredRecord {
  readonly messageId: Uint8Array
  readonly counter: number
  readonly bodyHash: Uint8Array
}

/** A channel with all that is needed to go on. */
export interface StoredChannel {
  readonly record: ChannelRecord
  readonly welcome: Uint8Array | undefined
  readonly epoch: EpochRecord | undefined
  readonly pending: PendingCommitRecord | undefined
  readonly senders: readonly SenderRecord[]
  readonly leavers: readonly LeaverRecord[]
  /** By counter. */
  readonly outbox: readonly OutboxRecord[]
  /** By counter. */
  readonly answered: readonly AnsweredRecord[]
  /** How many bytes of ciphertext wait to be settled. */
  readonly inboxBytes: number
}

/** What an agent starts with. */
export interface Snapshot {
  readonly identity: IdentityRecord
  readonly keyPackages: readonly KeyPackageRecord[]
  readonly channels: readonly StoredChannel[]
  readonly pins: readonly { readonly owner: AgentId; readonly identity: Uint8Array; readonly agent: AgentId }[]
  readonly relays: ReadonlyMap<string, Uint8Array>
  readonly invites: readonly InviteRecord[]
  readonly joiners: readonly JoinerRecord[]
  readonly attempts: readonly AttemptRecord[]
}

/** The agent's database. Synchronous: a transaction of this size is quicker than a change of threads. */
export interface AgentStore {
  /** Everything but the inbox. */
  load(): Snapshot
  /** The next messages of a channel that are not settled, in order, after an index. */
  inbox(id: ChannelId, after: number, limit: number): readonly InboxRecord[]
  /** All or nothing, and on disk when it returns. */
  write(changes: readonly Change[]): void
  /** Moves the write-ahead log into the file and empties it, so that nothing deleted stays readable there. */
  checkpoint(): void
  close(): void
}

// ---- The way to the relay ----

/** Where a relay listens, and whom to trust there. */
export interface Target {
  readonly host: string
  readonly port: number
  /** The name that the relay's certificate must have: what its challenge must name, too. */
  readonly serverName: string
  /** The authority of that certificate, PEM; undefined: those that Node knows. */
  readonly ca: string | undefined
}

/** Takes what comes by a stream of cells. */
export interface StreamHandlers {
  /** The chunk is the handler's to keep. Called only after `dial` has returned the stream. */
  data(chunk: Uint8Array): void
  /** The last word, once; the reason is missing when the relay ended the stream in order. */
  closed(reason: StaticError | undefined): void
}

/** A stream of cells to a relay, on a connection of its own. */
export interface CellStream {
  /**
   * Whole cells, which must not change any more. Does nothing once the stream is over. On a clock, urgent ones leave
   * before the others.
   */
  write(cells: Uint8Array, urgent?: boolean): void
  /** From now on one cell leaves at each tick. Only a transport with a clock has it. */
  pace?(pace: Pace): void
  /** Ends the stream after what was written, and the connection with it. */
  end(): void
}

/** A transport. */
export interface Transport {
  readonly form: WireForm
  /**
   * Dials.
   *
   * @throws {StaticError} `connection_error` with a reason for people
   */
  dial(target: Target, handlers: StreamHandlers): Promise<CellStream>
}

/** What an agent asks of the relay. */
export type RequestBody = Exclude<ClientMessage['body'], { readonly case: undefined }>
/** What the relay answers or tells. */
export type ServerBody = Exclude<ServerMessage['body'], { readonly case: undefined }>

/** What became of a request. */
export type Outcome =
  | { readonly type: 'answered'; readonly body: ServerBody }
  | { readonly type: 'refused'; readonly error: Refusal }
  /** The session ended before the answer came, or there was none: nobody knows whether it was done. */
  | { readonly type: 'lost'; readonly error: StaticError }

/** How a session has opened. */
export interface SessionInfo {
  readonly way: 'quic' | 'grpc'
  /** How many KeyPackages of this agent the relay holds. */
  readonly keyPackages: number
  /** The relay's nonce of this session, which proofs of join requests are bound to. */
  readonly nonce: Uint8Array
  /** Whether the agent acts for an account. */
  readonly guest: boolean
}

/** Is told what happens to the session, in the order in which it came. */
export interface SessionListener {
  /** A session is open. Everything asked before is answered or lost by now. */
  opened(info: SessionInfo): void
  /** The relay tells something unasked. */
  push(body: ServerBody): void
  /** The session is over; another one will be dialled. */
  lost(reason: StaticError): void
  /** The relay behind an endpoint is known now; later sessions must find the same one. */
  pin(endpoint: string, relayId: Uint8Array): void
}

/** A session with the relay that is dialled again whenever it is lost, until it is closed. */
export interface RelaySession {
  /** Asks. `done` is called once, never before `request` has returned, and in order with pushes. */
  request(body: RequestBody, done: (outcome: Outcome) => void): void
  /** Acknowledges; nothing happens when no session is open. */
  ack(positions: readonly Pick<AckPosition, 'channelId' | 'index'>[]): void
  /** Until `release` the relay is not told that what comes was read: it sends at most 256 KiB more. */
  hold(): void
  release(): void
  /** Ends the session in order; whatever was asked is lost. */
  close(): Promise<void>
}
