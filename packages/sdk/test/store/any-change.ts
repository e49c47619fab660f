/** Changes of every kind, for random writes. */
import type { Change } from '../../src/ports/index.ts'
import {
  approvalEvent,
  approvalRecord,
  attemptRecord,
  bytesOf,
  CHANNEL,
  channelRecord,
  epochRecord,
  fileRecord,
  inboxRecord,
  inviteRecord,
  joinerRecord,
  keptRecord,
  leaverRecord,
  OTHER,
  outboxRecord,
  pendingRecord,
  uploadRecord,
} from './support.ts'

/** One change of any kind; the labels are few, so that most meet rows of others. */
export function anyChange(below: (limit: number) => number): Change {
  const id = below(3) === 0 ? OTHER : CHANNEL
  const few = 1 + below(6)
  const part = below(2)
  const agent = ['0a', '0b', '0c'][below(3)]!.repeat(32)
  const bytes = bytesOf(`bytes ${below(1000)}`, 20 + below(3000))
  const { messageId } = outboxRecord(few)
  const invite = `invite ${few} to ${id}`
  const changes: (() => Change)[] = [
    () => ({
      type: 'putKeyPackage',
      record: { ref: agent, keyPackage: bytes, privatePart: bytesOf('private'), createdAt: few, pooled: few > 3 },
    }),
    () => ({ type: 'dropKeyPackage', ref: agent }),
    () => ({ type: 'putChannel', record: channelRecord({ id, counter: few }) }),
    () => ({ type: 'putChannel', record: channelRecord({ id, state: 'ended', fork: agent }) }),
    () => (below(8) === 0 ? { type: 'dropChannel', id } : { type: 'putWelcome', id, welcome: undefined }),
    () => ({ type: 'putWelcome', id, welcome: bytes }),
    () => ({ type: 'putEpoch', id, epoch: few === 1 ? undefined : epochRecord(`epoch ${few}`, few) }),
    () => ({ type: 'putGroup', id, group: bytes }),
    () => ({ type: 'putRow', id, leaf: few, row: bytes }),
    () => ({ type: 'putPending', id, pending: few === 1 ? undefined : pendingRecord(`pending ${few}`) }),
    () => ({
      type: 'putSender',
      id,
      sender: { agent, counter: few, ownHash: bytesOf(`own ${few}`), accepted: few === 1 },
    }),
    () => ({ type: 'dropSender', id, agent }),
    () => ({ type: 'putLeaver', id, leaver: leaverRecord(agent, { slot: few }) }),
    () => ({ type: 'dropLeaver', id, agent }),
    () => ({ type: 'putOutbox', id, record: outboxRecord(few, { ciphertext: bytes }) }),
    () => ({ type: 'answerOutbox', id, messageId, bodyHash: bytesOf(`body ${few}`) }),
    () => ({ type: 'dropOutbox', id, messageId }),
    () => ({
      type: 'putInbox',
      id,
      record: inboxRecord(few, { part, ciphertext: bytes, identity: bytesOf(agent, few) }),
    }),
    () => ({ type: 'dropInbox', id, place: { index: few, part } }),
    () => ({
      type: 'putPoison',
      id,
      record: { ...inboxRecord(few, { part, ciphertext: bytes }), reason: agent, putAsideAt: few },
    }),
    () => ({ type: 'dropPoison', id, place: { index: few, part } }),
    () => ({ type: 'putRequest', id, record: inboxRecord(few, { part, ciphertext: bytes }) }),
    () => ({ type: 'dropRequest', id, place: { index: few, part } }),
    () => ({ type: 'putAnswer', id, record: inboxRecord(few, { part, ciphertext: bytes }) }),
    () => ({ type: 'dropAnswer', id, place: { index: few, part } }),
    () => ({ type: 'putAsk', id, record: { messageId, to: few > 3 ? agent : undefined, deadline: below(9) } }),
    () => ({ type: 'dropAsk', id, messageId }),
    () => ({ type: 'putAnswerer', id, record: { messageId, agent, answers: below(9), ended: few > 3 } }),
    () => ({ type: 'putFile', id, record: fileRecord(few, { savedParts: below(9), isDone: few > 4 }) }),
    () => ({ type: 'putFileDigests', id, index: few, digests: bytes }),
    () => ({ type: 'dropFile', id, index: few }),
    () => ({ type: 'putUpload', id, record: uploadRecord(few, { begunAt: below(9) }) }),
    () => ({
      type: 'putUploadPart',
      id,
      fileId: uploadRecord(few).fileId,
      part: { part, nonce: bytesOf(`nonce ${few}`, 12), digest: bytesOf(`digest ${few}`) },
    }),
    () => ({ type: 'dropUpload', id, fileId: uploadRecord(few).fileId }),
    () => ({ type: 'putKept', id, record: keptRecord(few, { part, sender: agent, payload: bytes }) }),
    () => ({
      type: 'putKept',
      id,
      record: keptRecord(few, { kind: 'file', fileName: agent, fileSize: few, fileType: '', requestId: messageId }),
    }),
    () => ({ type: 'dropKept', id, place: { index: few, part, sender: agent } }),
    () => ({ type: 'putKeeping', days: few > 3 ? few : undefined }),
    () => ({
      type: 'putApproval',
      id,
      record: approvalRecord(few, { clock: below(9), outcome: few > 3 ? 'approved' : undefined, isSpent: few > 4 }),
    }),
    () => ({ type: 'putApprovalRequest', id, record: { hash: approvalRecord(few).hash, request: bytes } }),
    () => ({ type: 'putApprovalEvent', id, record: approvalEvent(few, below(3)) }),
    () => ({ type: 'dropApprovalEvent', id, hash: approvalRecord(few).hash, number: below(3) }),
    () => ({ type: 'dropApproval', id, hash: approvalRecord(few).hash }),
    () => ({ type: 'putRemoved', record: { name: `channel ${few}`, at: below(9) } }),
    () => ({ type: 'dropRemoved', name: `channel ${few}` }),
    () => ({ type: 'putInvite', record: inviteRecord(invite, { channel: id, uses: below(3) }) }),
    () => ({ type: 'dropInvite', id: invite }),
    () => ({ type: 'putJoiner', record: joinerRecord(agent, invite, { channel: id, since: below(9) }) }),
    () => ({ type: 'dropJoiner', id, agent }),
    () => ({ type: 'putInviteList', id, list: { list: bytes, counts: bytesOf(`counts ${few}`), due: few > 3 } }),
    () => ({
      type: 'putUse',
      id,
      use: {
        agent,
        slot: below(3),
        invite,
        leafKey: bytes,
        by: agent,
        since: few,
        state: few > 3 ? 'added' : 'here',
        beyond: few > 4,
      },
    }),
    () => ({ type: 'dropUse', id, agent, slot: below(3) }),
    () => ({ type: 'putClaim', id, claim: { by: agent, claims: bytes } }),
    () => ({ type: 'dropClaims', id }),
    () => ({ type: 'putAttempt', record: attemptRecord(invite, { keyPackage: bytes }) }),
    () => ({ type: 'dropAttempt', invite }),
    () => ({ type: 'putPin', owner: agent, identity: bytesOf(`identity ${few}`), agent }),
    () => ({
      type: 'putRelay',
      relayName: `relay-${few}`,
      relayId: bytesOf(`relay ${below(9)}`),
      grpcPort: below(9),
    }),
  ]
  return changes[below(changes.length)]!()
}
