/** Entries as far as a request tells them; index and chain are the log's. */
import type { CommitEntry, Entry, LeaveEntry, MessageEntry, StoreRequest } from '../../ports.ts'

/** The operations that log an entry. */
export type LoggingOperation = 'append' | 'commit' | 'leave'

type Draft<Kind extends Entry> = Omit<Kind, 'index' | 'hash'>

/** An entry without its place. */
export type EntryDraft = Draft<MessageEntry> | Draft<CommitEntry> | Draft<LeaveEntry>

/** A message's entry. */
export function messageDraft(request: StoreRequest<'append'>): Draft<MessageEntry> {
  const { actor, slot, messageId, counter, control, ciphertext, now } = request
  return { kind: 'message', slot, sender: actor.agent, at: now, messageId, counter, control, ciphertext }
}

/** A commit's entry. */
export function commitDraft(request: StoreRequest<'commit'>): Draft<CommitEntry> {
  const { actor, slot, messageId, commit, declaration, now } = request
  return { kind: 'commit', slot, sender: actor.agent, at: now, messageId, commit, declaration }
}

/** A leave's entry. */
export function leaveDraft({ actor, notice, now }: StoreRequest<'leave'>): Draft<LeaveEntry> {
  return { kind: 'leave', slot: Number(notice.slot), sender: actor.agent, at: now, notice }
}

/** The entry in its place. */
export function placed(draft: EntryDraft, index: number, hash: Uint8Array): Entry {
  return { ...draft, index, hash }
}
