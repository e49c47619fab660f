/** Passes a received frame to the part of the channel that handles its kind. */
import type { InboxRecord } from '../../ports/index.ts'
import type { AgentChannel } from '../channel.ts'
import type { Incoming } from './inbox.ts'
import type { DecodedFrame } from '../sending/message-frame.ts'
import { decodePack, partId } from '../sending/pack.ts'
import { decodeFile } from '../../files/file-frame.ts'
import { frameContent } from './stored-message.ts'

/** Delivers a frame with this record. Unknown kinds are ignored. */
export function deliverFrame(
  { intake, inbox, requests, asks, listedInvites, proving, files, approvals }: AgentChannel,
  frame: DecodedFrame,
  received: Omit<InboxRecord, 'part' | 'attempts'>,
): void {
  const { kind, payload } = frame
  const record = { ...received, part: 0, attempts: 0 }
  switch (kind) {
    case 'payload':
      return inbox.arrive({ record, payload, redelivered: intake.isRedelivered(record.index) })
    case 'pack':
      return inbox.arrive(...unpack(record, payload, intake.isRedelivered(record.index)))
    case 'file': {
      const file = decodeFile(payload)
      if (file) files.arrive(record, file)
      return inbox.arrive({ record, ...frameContent(frame), redelivered: intake.isRedelivered(record.index) })
    }
    case 'approval':
    case 'decision':
      // Kept decrypted, and never given to a reader.
      record.messageKey.fill(0)
      return approvals.arrive(kind, record, payload)
    case 'request':
      return requests.arrive(record, payload)
    case 'answer':
    case 'answer_end':
      return asks.arrive(kind, record, payload)
    case 'refused':
      return asks.refused(record.sender, payload)
    case 'cancel':
    case 'more':
      return requests.heed(kind, record.sender, payload)
    case 'invites':
    case 'claim':
      return listedInvites.receive(kind, record.sender, payload)
    case 'prove':
    case 'proof':
      return proving.receive(kind, record.sender, payload)
    default:
  }
}

const NOTHING = new Uint8Array()

/** The payloads of a pack. Each is stored separately, so the pack's key is no longer needed. */
function unpack(record: InboxRecord, pack: Uint8Array, redelivered: boolean): readonly Incoming[] {
  record.messageKey.fill(0)
  const payloads = decodePack(pack) ?? []
  return payloads.map((payload, part) => ({
    record: {
      ...record,
      part,
      messageId: partId(record.messageId, part),
      ciphertext: NOTHING,
      messageKey: NOTHING,
    },
    // A copy, because a kept view would keep the whole pack in memory.
    payload: Uint8Array.from(payload),
    redelivered,
  }))
}
