/** Log entries as input of the hash chain. The relay delivers an agent's own entries without their bodies. */
import { sha256 } from '#platform/crypto'
import {
  type ChainEntry,
  commitBody,
  type DeclarationFields,
  leaveBody,
  type LeaveNoticeFields,
} from '@static/protocol'
import type { DeliverCommit, DeliverLeave, DeliverMessage } from '@static/protocol/relay'
import type { History } from './history.ts'
import type { LogEntry } from './log-entry.ts'

type Signed = DeclarationFields & { readonly signature: Uint8Array }

const NO_NOTICE: LeaveNoticeFields = {
  publicKey: new Uint8Array(),
  slot: 0n,
  leafKeys: [],
  signature: new Uint8Array(),
}

export function messageEntry({ sender, messageId, ciphertext }: DeliverMessage): ChainEntry {
  return { kind: 'message', sender, messageId, bodyHash: sha256(ciphertext) }
}

export function commitEntry(entry: DeliverCommit): ChainEntry {
  const { sender, messageId, commit } = entry
  return { kind: 'commit', sender, messageId, bodyHash: sha256(commitBody(commit, signedDeclaration(entry))) }
}

export function leaveEntry(entry: DeliverLeave): ChainEntry {
  const bodyHash = sha256(leaveBody(leaveNotice(entry)))
  return { kind: 'leave', sender: entry.sender, messageId: new Uint8Array(), bodyHash }
}

export function signedDeclaration({ declaration }: DeliverCommit): Signed {
  return { adds: [], removes: [], leaveNotices: [], vouches: [], signature: new Uint8Array(), ...declaration }
}

export function leaveNotice({ notice }: DeliverLeave): LeaveNoticeFields {
  return notice ?? NO_NOTICE
}

/** Whether a redelivered entry differs from the one this agent processed. `own`: it is this agent's. */
export function isAnother(history: History, entry: Exclude<LogEntry, { case: 'gap' }>, own: boolean): boolean {
  const index = Number(entry.value.index)
  switch (entry.case) {
    case 'deliverMessage': {
      if (!own) return history.has(index, messageEntry(entry.value)) === false
      const ownIndex = history.ownIndex(entry.value.messageId)
      return ownIndex !== undefined && ownIndex !== index
    }
    case 'deliverCommit':
      return !own && history.has(index, commitEntry(entry.value)) === false
    case 'deliverLeave':
      return history.has(index, leaveEntry(entry.value)) === false
  }
}
