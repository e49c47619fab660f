/** Messages, requests and answers in the agent's database. */
import type { AgentId, Time } from './ids.ts'

/** A message of this agent, kept until its entry has come back in the log. */
export interface OutboxRecord {
  readonly messageId: Uint8Array
  readonly counter: number
  readonly control: boolean
  readonly slot: number
  /** The file that it sends. */
  readonly fileId: Uint8Array | undefined
  readonly ciphertext: Uint8Array
  /** Decrypts `ciphertext`, so that it can be encrypted again for another epoch. */
  readonly messageKey: Uint8Array
}

/** A message of this agent that the relay has answered. */
export interface AnsweredRecord {
  readonly messageId: Uint8Array
  readonly counter: number
  readonly bodyHash: Uint8Array
}

/** The place of a received message. */
export interface InboxPlace {
  /** Index in the log. The payloads of a pack share it. */
  readonly index: number
  /** The number of a payload in its pack; 0 without one. */
  readonly part: number
}

/**
 * A message that the application has not settled yet. Stored as ciphertext with its message key, never as plaintext.
 */
export interface InboxRecord extends InboxPlace {
  readonly messageId: Uint8Array
  readonly sender: AgentId
  /** The name that the sender's key claims. */
  readonly identity: Uint8Array
  readonly epoch: number
  readonly receivedAt: Time
  readonly ciphertext: Uint8Array
  readonly messageKey: Uint8Array
  /** The number of recorded attempts that a handler has started. */
  readonly attempts: number
}

/** A message that a handler failed on too often, put aside until the application retries or drops it. */
export interface PoisonRecord extends InboxRecord {
  /** The handler's last error. */
  readonly reason: string
  readonly putAsideAt: Time
}

/** An open request of this agent: not fully answered, or with unread answers. */
export interface AskRecord {
  readonly messageId: Uint8Array
  /** Undefined: all members may answer. */
  readonly to: AgentId | undefined
  readonly deadline: Time
}

/** A member's answers so far to a request of this agent. */
export interface AnswererRecord {
  /** Id of the request. */
  readonly messageId: Uint8Array
  readonly agent: AgentId
  readonly answers: number
  readonly ended: boolean
}

/** A number of messages and their bytes of ciphertext. */
export interface MessageTotals {
  readonly messages: number
  readonly bytes: number
}

/** The same for messages waiting for the application. */
export interface WaitingTotals extends MessageTotals {
  /** The index of the first message; 0 if there is none. */
  readonly first: number
}
