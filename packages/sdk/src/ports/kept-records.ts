/** The history: messages that the agent keeps because its user wants it to (SPEC.md, 5.8). */
import type { AgentId, Time } from './ids.ts'
import type { InboxPlace } from './message-records.ts'

export const KEPT_KINDS = ['payload', 'file', 'request', 'answer'] as const
export type KeptKind = (typeof KEPT_KINDS)[number]

/**
 * The place of a kept message. The sender is part of it: for a message of this agent, the index is the relay's word,
 * which must not replace the message of another.
 */
export interface KeptPlace extends InboxPlace {
  readonly sender: AgentId
}

/** A kept message without its content. */
export interface KeptSize extends KeptPlace {
  /** When this agent kept it, by its own clock. */
  readonly keptAt: Time
  readonly bytes: number
}

/** A message that the application has settled, or that this agent has sent. */
export interface KeptRecord extends KeptSize {
  readonly messageId: Uint8Array
  /** The name that the sender's key claims. */
  readonly identity: Uint8Array
  readonly receivedAt: Time
  readonly kind: KeptKind
  /** Of an answer: the id of its request. */
  readonly requestId: Uint8Array | undefined
  /** Of a file; its secret is not kept. */
  readonly fileName: string | undefined
  readonly fileSize: number | undefined
  readonly fileType: string | undefined
  /** Of a file: the text beside it. */
  readonly payload: Uint8Array
}
