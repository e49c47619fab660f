/** Messages of a channel's history, as the application gets them. */
import { toHex } from '@static/protocol'
import { safeName } from '../../files/safe-name.ts'
import type { AgentId, KeptRecord } from '../../ports/index.ts'
import { type ChannelMember, memberOf, timeOf } from './member.ts'

/** A message that the application has settled, or that this agent has sent (`Channel.history`). */
export interface HistoryMessage {
  /** 32 hexadecimal digits. */
  readonly messageId: string
  /**
   * Position in the channel's log; payloads sent as one message share it. Of a message of this agent, the one that the
   * relay answered.
   */
  readonly index: number
  readonly sender: ChannelMember
  /** Whether this agent sent it. */
  readonly own: boolean
  /** When the relay accepted it, by the relay's clock; of a message of this agent, when this agent learned that. */
  readonly time: Date
  readonly kind: 'payload' | 'file' | 'request' | 'answer'
  /** Of a file, the text beside it. */
  readonly payload: Uint8Array
  /** Of an answer, the id of its request. */
  readonly request: string | undefined
  /** The file that it sent, as described by its sender. It cannot be fetched from here. */
  readonly file:
    | { readonly name: string; readonly safeName: string; readonly size: number; readonly type: string }
    | undefined
}

/** @internal */
export function historyMessageOf(record: KeptRecord, self: AgentId): HistoryMessage {
  const { messageId, index, sender, identity, receivedAt, kind, payload, requestId } = record
  const { fileName: name, fileSize: size = 0, fileType: type = '' } = record
  return {
    messageId: toHex(messageId),
    index,
    sender: memberOf(sender, identity),
    own: sender === self,
    time: timeOf(receivedAt),
    kind,
    payload,
    request: requestId && toHex(requestId),
    file: name === undefined ? undefined : { name, safeName: safeName(name), size, type },
  }
}
