/** Messages that a handler failed on too often, as the application gets them. */
import { toHex } from '@static/protocol'
import type { PutAside } from '../../channel/receiving/poison.ts'
import type { Envelope } from '../envelope.ts'
import { memberOf, timeOf } from './member.ts'

/** A message that a handler failed on too often, so it was put aside (`Channel.poison`). */
export interface PoisonMessage extends Pick<Envelope, 'payload' | 'sender' | 'messageId' | 'index' | 'epoch' | 'time'> {
  /** How often the handler tried it. */
  readonly attempts: number
  /** The handler's last error. */
  readonly reason: string
  /** When it was put aside, by this machine's clock. */
  readonly putAsideAt: Date
}

/** @internal */
export function poisonMessageOf({ record, payload }: PutAside): PoisonMessage {
  const { sender, identity, messageId, index, epoch, receivedAt, attempts, reason, putAsideAt } = record
  return {
    payload,
    sender: memberOf(sender, identity),
    messageId: toHex(messageId),
    index,
    epoch,
    time: timeOf(receivedAt),
    attempts,
    reason,
    putAsideAt: new Date(putAsideAt),
  }
}

/** Messages of a channel that a handler failed on too often. */
export interface PoisonMessages {
  /** All messages put aside, in log order. */
  list(): readonly PoisonMessage[]
  /**
   * Delivers a message again, before later messages, and counts its attempts from zero. Pass its `messageId`.
   *
   * @throws {StaticError} `not_found` if no such message was put aside; `invalid_request` if several have this id,
   * since
   *   senders choose ids: then pass `messageId@index`
   */
  retry(message: string): Promise<void>
  /**
   * Permanently deletes a message. Pass its `messageId`, or `messageId@index`.
   *
   * @throws {StaticError} `not_found`, `invalid_request`; see `retry`
   */
  drop(message: string): Promise<void>
}
