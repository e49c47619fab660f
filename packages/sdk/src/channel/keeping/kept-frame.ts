/** What the history keeps of a frame that this agent has sent. */
import { decodeAnswer, decodeRequest } from '../asking/ask-frame.ts'
import type { Content } from '../receiving/content.ts'
import { frameContent } from '../receiving/stored-message.ts'
import type { Frame } from '../sending/message-frame.ts'
import { decodePack, partId } from '../sending/pack.ts'
import type { KeptKind } from '../../ports/index.ts'

/** A message in a frame. */
export interface SentContent extends Content {
  readonly part: number
  readonly messageId: Uint8Array
  readonly kind: KeptKind
  readonly requestId?: Uint8Array | undefined
}

/** The messages in a frame: those of the application, not what the agent sends on its own. */
export function sentContents(frame: Frame): readonly SentContent[] {
  const { kind, messageId, payload } = frame
  switch (kind) {
    case 'payload':
    case 'file':
      return [{ part: 0, messageId, kind, ...frameContent({ kind, payload }) }]
    case 'pack': {
      const payloads = decodePack(payload) ?? []
      return payloads.map((each, part) => ({
        part,
        messageId: partId(messageId, part),
        kind: 'payload',
        payload: each,
      }))
    }
    case 'request': {
      const request = decodeRequest(payload)
      return request ? [{ part: 0, messageId, kind, payload: request.payload }] : []
    }
    case 'answer':
    case 'answer_end': {
      const { content, requestId } = decodeAnswer(kind, payload) ?? {}
      if (!content || !('payload' in content)) return []
      return [{ part: 0, messageId, kind: 'answer', payload: content.payload, requestId }]
    }
    default:
      return []
  }
}
