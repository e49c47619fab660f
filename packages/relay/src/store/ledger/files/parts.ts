/** The parts of files: which bytes may come, and that they have come. The bytes themselves are elsewhere. */
import { filePartBytes, filePartCount, storedFileBytes } from '@static/protocol'
import type { Refusal, StoreRequest, StoreResult } from '../../../ports.ts'
import { type Admitted, type Context, admit, isRefusal, refuse, touch } from '../context.ts'
import { countGuest, guestRefusal } from '../room/guests.ts'
import type { FileRecord } from '../rows/files.ts'
import { checksumOf, liveFile, withPart } from './file.ts'
import { seenFile } from './files.ts'

/** Whether the sender may store a part. A part that is stored may come again: its answer may have been lost. */
export function admitPart(context: Context, request: StoreRequest<'admitPart'>): StoreResult<'admitPart'> {
  const own = ownPart(context, request)
  if (isRefusal(own)) return own
  const { channel, file } = own
  const { actor, part, now } = request
  const stored = checksumOf(file, part)
  const refusal = stored === undefined && !actor.account ? guestRefusal(channel, now) : undefined
  const payer = actor.account ?? channel.account
  return refusal ?? { key: file.key, bytes: filePartBytes(file.size, part), stored, payer }
}

/** Records a part. The first write wins. */
export function recordPart(context: Context, request: StoreRequest<'recordPart'>): StoreResult<'recordPart'> {
  const own = ownPart(context, request)
  if (isRefusal(own)) return own
  const { channel, file } = own
  const { actor, part, checksum, now } = request
  const stored = checksumOf(file, part)
  if (stored !== undefined) {
    return stored === checksum
      ? { charged: false }
      : refuse('invalid_request', `Other bytes of part ${part} are already stored.`)
  }
  if (!actor.account) {
    const refusal = guestRefusal(channel, now)
    if (refusal) return refusal
    countGuest(channel, now)
    touch(context, channel)
  }
  context.rows.files.change(withPart(file, part, checksum))
  return { charged: true }
}

/** Whether an agent may fetch a part. */
export function findPart(context: Context, request: StoreRequest<'findPart'>): StoreResult<'findPart'> {
  const { actor, part, now } = request
  const seen = seenFile(context, request, actor, now)
  if (isRefusal(seen)) return seen
  const { file } = seen
  const outside = outsideOf(file, part)
  if (outside) return outside
  if (checksumOf(file, part) === undefined) return refuse('file_incomplete', `Part ${part} is not stored yet.`)
  return { key: file.key, bytes: filePartBytes(file.size, part), total: storedFileBytes(file.size) }
}

/** A part of a file that the actor has begun. */
function ownPart(
  context: Context,
  request: StoreRequest<'admitPart'>,
): (Admitted & { readonly file: FileRecord }) | Refusal {
  const { actor, part, now } = request
  const admitted = admit(context, actor, request.channel)
  if (isRefusal(admitted)) return admitted
  const file = liveFile(context, request, now)
  if (!file || file.sender !== actor.agent) return refuse('file_expired')
  return outsideOf(file, part) ?? { ...admitted, file }
}

function outsideOf({ size }: FileRecord, part: number): Refusal | undefined {
  const count = filePartCount(size)
  return part < count
    ? undefined
    : refuse('invalid_request', `The file has ${count} parts, so none has number ${part}.`)
}
