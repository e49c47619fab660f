/** Decodes the bodies of commits and leaves, stored as the hash chain covers them (`log.ts` of the protocol). */
import type { LeaveNoticeFields } from '@static/protocol'
import type { CommitEntry } from '../../../ports.ts'

/** Decodes the body of a commit's entry. */
export function readCommitBody(body: Uint8Array): Pick<CommitEntry, 'commit' | 'declaration'> {
  const [commit, adds, removes, notices, vouches, owner, standby, signature] = fields(body, 8)
  const declaration = {
    adds: fields(adds),
    removes: fields(removes),
    leaveNotices: fields(notices).map(readLeaveBody),
    vouches: fields(vouches),
    owner,
    standby,
    signature,
  }
  return { commit, declaration }
}

/** Decodes the body of a leave's entry. */
export function readLeaveBody(body: Uint8Array): LeaveNoticeFields {
  const [publicKey, slot, leafKeys, signature] = fields(body, 4)
  const number = new DataView(slot.buffer, slot.byteOffset, 8).getBigUint64(0)
  return { publicKey, slot: number, leafKeys: fields(leafKeys), signature }
}

type Fields = Uint8Array[] & Record<0 | 1 | 2 | 3 | 4 | 5 | 6 | 7, Uint8Array>

/** Splits length-prefixed fields; `count` is their expected number, if known. */
function fields(bytes: Uint8Array, count?: number): Fields {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  const parts: Uint8Array[] = []
  for (let at = 0; at < bytes.length;) {
    const length = view.getUint32(at)
    parts.push(bytes.subarray(at + 4, at + 4 + length))
    at += 4 + length
  }
  if (count !== undefined && parts.length !== count)
    throw new Error(`a stored entry is damaged: ${parts.length} fields instead of ${count}`)
  return parts as Fields
}
