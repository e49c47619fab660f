/**
 * Messages waiting to be encrypted, in order, until the turn ends. Consecutive payloads then travel as one message, a
 * pack, if that takes no more cells than sending them separately.
 */
import type { StaticError } from '@static/protocol'
import { cellsOf } from '../../mls/index.ts'
import { FRAME_HEAD_BYTES, type FrameKind, isControl } from './message-frame.ts'
import type { Sending } from './outbox.ts'
import { encodePack, MOST_PACK_BYTES, MOST_PARTS, PART_HEAD_BYTES } from './pack.ts'

/** A message whose id is known before it is sent. */
export interface NamedMessage {
  readonly messageId: Uint8Array
  /** The file that it sends. */
  readonly fileId?: Uint8Array
  /** Called when it is encrypted: changes made now are written together with it. */
  sealed(): void
}

/** A message to encrypt, and its waiting caller. */
export interface WaitingMessage {
  readonly kind: FrameKind
  readonly payload: Uint8Array
  readonly as: NamedMessage | undefined
  readonly sending: Sending
}

/** The messages of one channel. */
export class WaitingMessages {
  #messages: WaitingMessage[] = []

  get isEmpty(): boolean {
    return this.#messages.length === 0
  }

  /** Whether one of them is from the application. */
  get hasPayload(): boolean {
    return this.#messages.some(({ kind }) => !isControl(kind))
  }

  add(message: WaitingMessage): void {
    this.#messages.push(message)
  }

  /** Removes the next message: a pack of the first payloads, or the first one. */
  removeNext(): WaitingMessage | undefined {
    const [first, ...others] = this.#messages.splice(0, packable(this.#messages))
    return first && others.length > 0 ? packOf([first, ...others]) : first
  }

  /** Removes a message. Returns whether it was here. */
  remove(message: WaitingMessage): boolean {
    const at = this.#messages.indexOf(message)
    if (at >= 0) this.#messages.splice(at, 1)
    return at >= 0
  }

  /** The message with this id. */
  named(messageId: Uint8Array): WaitingMessage | undefined {
    return this.#messages.find(({ as }) => as?.messageId === messageId)
  }

  /** Rejects all messages. */
  refuse(error: StaticError): void {
    for (const { sending } of this.#messages.splice(0)) sending.reject(error)
  }
}

/** How many of the first messages fit into one message. */
function packable(messages: readonly WaitingMessage[]): number {
  let [bytes, cellsApart, most] = [0, 0, 1]
  for (const [at, { kind, payload, as }] of messages.slice(0, MOST_PARTS).entries()) {
    bytes += PART_HEAD_BYTES + payload.length
    if (kind !== 'payload' || as || bytes > MOST_PACK_BYTES) break
    cellsApart += cellsOf(FRAME_HEAD_BYTES + payload.length)
    if (cellsOf(FRAME_HEAD_BYTES + bytes) <= cellsApart) most = at + 1
  }
  return most
}

function packOf(messages: readonly WaitingMessage[]): WaitingMessage {
  const sending: Sending = {
    resolve: ({ messageId, index }) => {
      // The last digit of the id is the number of the payload.
      for (const [part, message] of messages.entries())
        message.sending.resolve({ messageId: `${messageId.slice(0, -1)}${part.toString(16)}`, index })
    },
    reject: (error) => {
      for (const message of messages) message.sending.reject(error)
    },
  }
  return { kind: 'pack', payload: encodePack(messages.map(({ payload }) => payload)), as: undefined, sending }
}
