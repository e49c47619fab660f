/** Entries as built from requests, before the log assigns index and chain hash. */
import type { CommitEntry, Entry, LeaveEntry, MessageEntry, StoreRequest } from '../../../ports.ts'

/** The operations that log an entry. */
export type LoggingOperation = 'append' | 'commit' | 'leave'

type Draft<Kind extends Entry> = Omit<Kind, 'index' | 'hash'>

/** An entry without index and chain hash. */
export type EntryDraft = Draft<MessageEntry> | Draft<CommitEntry> | Draft<LeaveEntry>

export function messageDraft(request: StoreRequest<'append'>): Draft<MessageEntry> {
  const { actor, slot, messageId, counter, control, ciphertext, now } = request
  return { kind: 'message', slot, sender: actor.agent, at: now, messageId, counter, control, ciphertext }
}

export function commitDraft(request: StoreRequest<'commit'>): Draft<CommitEntry> {
  const { actor, slot, messageId, commit, declaration, now } = request
  return { kind: 'commit', slot, sender: actor.agent, at: now, messageId, commit, declaration }
}

export function leaveDraft({ actor, notice, now }: StoreRequest<'leave'>): Draft<LeaveEntry> {
  return { kind: 'leave', slot: Number(notice.slot), sender: actor.agent, at: now, notice }
}

/** The entry with its index and chain hash. */
export function placed(draft: EntryDraft, index: number, hash: Uint8Array): Entry {
  return { ...draft, index, hash }
}
