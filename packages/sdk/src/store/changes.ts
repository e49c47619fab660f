/** Applies the changes of a transaction to rows. */
import { StaticError } from '@static/protocol'
import type { Change, ChannelId, EpochRecord } from '../ports/index.ts'
import type { WritesOf } from './rows/table.ts'
import { KEY_PACKAGE, PIN, RELAY, REMOVED } from './tables/agent-tables.ts'
import { APPROVAL, APPROVAL_EVENT, APPROVAL_REQUEST } from './tables/approval-tables.ts'
import {
  CHANNEL,
  channelRow,
  CURRENT,
  EPOCH,
  LEAVER,
  PENDING,
  PENDING_COMMIT,
  RATCHET,
  SENDER,
  WELCOME,
} from './tables/channel-tables.ts'
import { FILE, FILE_DIGESTS, UPLOAD, UPLOAD_PART } from './tables/file-tables.ts'
import { ATTEMPT, CLAIM, INVITE, INVITE_LIST, JOINER, USE } from './tables/invite-tables.ts'
import { KEEPING, KEPT } from './tables/kept-tables.ts'
import { ANSWER, ANSWERER, ASK, INBOX, OUTBOX, POISON, REQUEST } from './tables/message-tables.ts'
import { MEMBER_PROOF, OWN_PROOF } from './tables/proof-tables.ts'
import { CHAIN, OWN_RECEIPT, STAY, stayRow } from './tables/receipt-tables.ts'

/** The handler of each type of change. */
type Steps = { readonly [Type in Change['type']]: (change: Extract<Change, { readonly type: Type }>) => void }

const NO_KEY = new Uint8Array(0)

/** Returns the function that applies one change. If it throws, the whole transaction must be rolled back. */
export function prepareChanges(rowsOf: WritesOf): (change: Change) => void {
  const steps: Steps = {
    ...agentSteps(rowsOf),
    ...channelSteps(rowsOf),
    ...epochSteps(rowsOf),
    ...messageSteps(rowsOf),
    ...receiptSteps(rowsOf),
    ...proofSteps(rowsOf),
    ...askSteps(rowsOf),
    ...fileSteps(rowsOf),
    ...keptSteps(rowsOf),
    ...approvalSteps(rowsOf),
    ...inviteSteps(rowsOf),
    ...admissionSteps(rowsOf),
  }
  return (change) => (steps[change.type] as (change: Change) => void)(change)
}

type AgentStep = 'putKeyPackage' | 'dropKeyPackage' | 'putPin' | 'putRelay' | 'putRemoved' | 'dropRemoved'

function agentSteps(rowsOf: WritesOf): Pick<Steps, AgentStep> {
  const [keyPackages, pins, relays, removed] = [rowsOf(KEY_PACKAGE), rowsOf(PIN), rowsOf(RELAY), rowsOf(REMOVED)]
  return {
    putKeyPackage: ({ record }) => keyPackages.put(record),
    dropKeyPackage: ({ ref }) => keyPackages.drop(ref),
    putPin: (pin) => pins.put(pin),
    putRelay: (relay) => relays.put(relay),
    putRemoved: ({ record }) => removed.put(record),
    dropRemoved: ({ name }) => removed.drop(name),
  }
}

type ChannelStep = 'putChannel' | 'dropChannel' | 'putWelcome' | 'putSender' | 'dropSender' | 'putLeaver' | 'dropLeaver'

function channelSteps(rowsOf: WritesOf): Pick<Steps, ChannelStep> {
  const [channels, welcomes] = [rowsOf(CHANNEL), rowsOf(WELCOME)]
  const [senders, leavers] = [rowsOf(SENDER), rowsOf(LEAVER)]
  const messages = [rowsOf(OUTBOX), rowsOf(INBOX), rowsOf(POISON), rowsOf(REQUEST), rowsOf(ANSWER)]
  return {
    putChannel: ({ record }) => channels.put(channelRow(record)),
    dropChannel: ({ id }) => {
      // Not left to the foreign key, because their ciphertexts are stored apart.
      for (const rows of messages) rows.drop(id)
      channels.drop(id)
    },
    putWelcome: ({ id, welcome }) => {
      if (welcome === undefined) welcomes.drop(id)
      else welcomes.put({ channel: id, welcome })
    },
    putSender: ({ id, sender }) => senders.put({ ...sender, channel: id }),
    dropSender: ({ id, agent }) => senders.drop(id, agent),
    putLeaver: ({ id, leaver }) => leavers.put({ ...leaver, channel: id }),
    dropLeaver: ({ id, agent }) => leavers.drop(id, agent),
  }
}

function epochSteps(rowsOf: WritesOf): Pick<Steps, 'putEpoch' | 'putGroup' | 'putRow' | 'putPending'> {
  const [epochs, ratchets, commits] = [rowsOf(EPOCH), rowsOf(RATCHET), rowsOf(PENDING_COMMIT)]
  const changeGroup = epochs.change('group')
  const put = (channel: ChannelId, pending: number, { group, rows }: EpochRecord): void => {
    epochs.put({ channel, pending, group })
    for (const [leaf, ratchet] of rows) ratchets.put({ channel, pending, leaf, ratchet })
  }
  return {
    putEpoch: ({ id, epoch }) => {
      epochs.drop(id)
      if (epoch) put(id, CURRENT, epoch)
    },
    putGroup: ({ id, group }) => {
      if (changeGroup([id, CURRENT], { group })) return
      throw new StaticError('internal_error', `Channel ${id} has no group to replace.`)
    },
    putRow: ({ id, leaf, row }) => ratchets.put({ channel: id, pending: CURRENT, leaf, ratchet: row }),
    putPending: ({ id, pending }) => {
      epochs.drop(id, PENDING)
      if (!pending) return
      const { next, ...commit } = pending
      put(id, PENDING, next)
      commits.put({ ...commit, channel: id, pending: PENDING })
    },
  }
}

type MessageStep = 'putOutbox' | 'answerOutbox' | 'dropOutbox' | 'putInbox' | 'dropInbox' | 'putPoison' | 'dropPoison'

function messageSteps(rowsOf: WritesOf): Pick<Steps, MessageStep> {
  const [outbox, inbox, poison] = [rowsOf(OUTBOX), rowsOf(INBOX), rowsOf(POISON)]
  const answer = outbox.change('messageKey', 'bodyHash')
  return {
    putOutbox: ({ id, record }) => outbox.put({ ...record, channel: id, bodyHash: undefined }),
    answerOutbox: ({ id, messageId, bodyHash }) => void answer([id, messageId], { messageKey: NO_KEY, bodyHash }),
    dropOutbox: ({ id, messageId }) => outbox.drop(id, messageId),
    putInbox: ({ id, record }) => inbox.put({ ...record, channel: id, bytes: record.ciphertext.length }),
    dropInbox: ({ id, place: { index, part } }) => inbox.drop(id, index, part),
    putPoison: ({ id, record }) => {
      inbox.drop(id, record.index, record.part)
      poison.put({ ...record, channel: id, bytes: record.ciphertext.length })
    },
    dropPoison: ({ id, place: { index, part } }) => poison.drop(id, index, part),
  }
}

function receiptSteps(
  rowsOf: WritesOf,
): Pick<Steps, 'putChain' | 'dropChain' | 'putOwnReceipt' | 'putStay' | 'dropStay'> {
  const [chains, ownReceipts, stays] = [rowsOf(CHAIN), rowsOf(OWN_RECEIPT), rowsOf(STAY)]
  return {
    putChain: ({ id, chain }) => chains.put({ ...chain, channel: id }),
    dropChain: ({ id, first }) => chains.drop(id, first),
    putOwnReceipt: ({ id, own }) => ownReceipts.put({ ...own, channel: id }),
    putStay: ({ id, stay }) => stays.put({ ...stayRow(stay), channel: id }),
    dropStay: ({ id, agent, addedAt }) => stays.drop(id, agent, addedAt),
  }
}

function proofSteps(rowsOf: WritesOf): Pick<Steps, 'putOwnProof' | 'putMemberProof' | 'dropMemberProof'> {
  const [own, members] = [rowsOf(OWN_PROOF), rowsOf(MEMBER_PROOF)]
  return {
    putOwnProof: ({ id, own: record }) => own.put({ ...record, channel: id }),
    putMemberProof: ({ id, record }) => members.put({ ...record, channel: id }),
    dropMemberProof: ({ id, agent }) => members.drop(id, agent),
  }
}

type AskStep = 'putRequest' | 'dropRequest' | 'putAsk' | 'dropAsk' | 'putAnswerer' | 'putAnswer' | 'dropAnswer'

function askSteps(rowsOf: WritesOf): Pick<Steps, AskStep> {
  const [requests, answers, asks, answerers] = [rowsOf(REQUEST), rowsOf(ANSWER), rowsOf(ASK), rowsOf(ANSWERER)]
  return {
    putRequest: ({ id, record }) => requests.put({ ...record, channel: id, bytes: record.ciphertext.length }),
    dropRequest: ({ id, place: { index, part } }) => requests.drop(id, index, part),
    putAsk: ({ id, record }) => asks.put({ ...record, channel: id }),
    dropAsk: ({ id, messageId }) => asks.drop(id, messageId),
    putAnswerer: ({ id, record }) => answerers.put({ ...record, channel: id }),
    putAnswer: ({ id, record }) => answers.put({ ...record, channel: id, bytes: record.ciphertext.length }),
    dropAnswer: ({ id, place: { index, part } }) => answers.drop(id, index, part),
  }
}

type ApprovalStep = 'putApproval' | 'putApprovalRequest' | 'putApprovalEvent' | 'dropApprovalEvent' | 'dropApproval'

function approvalSteps(rowsOf: WritesOf): Pick<Steps, ApprovalStep> {
  const [approvals, requests, events] = [rowsOf(APPROVAL), rowsOf(APPROVAL_REQUEST), rowsOf(APPROVAL_EVENT)]
  return {
    putApproval: ({ id, record }) => approvals.put({ ...record, channel: id }),
    putApprovalRequest: ({ id, record }) => requests.put({ ...record, channel: id }),
    putApprovalEvent: ({ id, record }) => events.put({ ...record, channel: id }),
    dropApprovalEvent: ({ id, hash, number }) => events.drop(id, hash, number),
    dropApproval: ({ id, hash }) => approvals.drop(id, hash),
  }
}

type FileStep = 'putFile' | 'putFileDigests' | 'dropFile' | 'putUpload' | 'putUploadPart' | 'dropUpload'

function fileSteps(rowsOf: WritesOf): Pick<Steps, FileStep> {
  const [files, digestsOf] = [rowsOf(FILE), rowsOf(FILE_DIGESTS)]
  const [uploads, parts] = [rowsOf(UPLOAD), rowsOf(UPLOAD_PART)]
  return {
    putFile: ({ id, record }) => files.put({ ...record, channel: id }),
    putFileDigests: ({ id, index, digests }) => digestsOf.put({ channel: id, index, digests }),
    dropFile: ({ id, index }) => files.drop(id, index),
    putUpload: ({ id, record }) => uploads.put({ ...record, channel: id }),
    putUploadPart: ({ id, fileId, part }) => parts.put({ ...part, fileId, channel: id }),
    dropUpload: ({ id, fileId }) => uploads.drop(id, fileId),
  }
}

function keptSteps(rowsOf: WritesOf): Pick<Steps, 'putKept' | 'dropKept' | 'putKeeping'> {
  const [kept, keeping] = [rowsOf(KEPT), rowsOf(KEEPING)]
  return {
    putKept: ({ id, record }) => kept.put({ ...record, channel: id }),
    dropKept: ({ id, place: { index, part, sender } }) => kept.drop(id, index, part, sender),
    putKeeping: ({ days }) => {
      if (days === undefined) keeping.drop(1)
      else keeping.put({ one: 1, days })
    },
  }
}

function inviteSteps(
  rowsOf: WritesOf,
): Pick<Steps, 'putInvite' | 'dropInvite' | 'putJoiner' | 'dropJoiner' | 'putAttempt' | 'dropAttempt'> {
  const [invites, joiners, attempts] = [rowsOf(INVITE), rowsOf(JOINER), rowsOf(ATTEMPT)]
  return {
    putInvite: ({ record }) => invites.put(record),
    dropInvite: ({ id }) => invites.drop(id),
    putJoiner: ({ record }) => joiners.put(record),
    dropJoiner: ({ id, agent }) => joiners.drop(id, agent),
    putAttempt: ({ record }) => attempts.put(record),
    dropAttempt: ({ invite }) => attempts.drop(invite),
  }
}

function admissionSteps(
  rowsOf: WritesOf,
): Pick<Steps, 'putInviteList' | 'putUse' | 'dropUse' | 'putClaim' | 'dropClaims'> {
  const [lists, uses, claims] = [rowsOf(INVITE_LIST), rowsOf(USE), rowsOf(CLAIM)]
  return {
    putInviteList: ({ id, list }) => lists.put({ ...list, channel: id }),
    putUse: ({ id, use }) => uses.put({ ...use, channel: id }),
    dropUse: ({ id, agent, slot }) => uses.drop(id, agent, slot),
    putClaim: ({ id, claim }) => claims.put({ ...claim, channel: id }),
    dropClaims: ({ id }) => claims.drop(id),
  }
}
