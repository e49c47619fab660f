/** The state of an in-memory store, as one value that can be copied. */
import type {
  AccountRecord,
  AgentId,
  Answered,
  Channel,
  ChannelId,
  Entry,
  FileRecord,
  Slot,
  StoredWelcome,
  Time,
  Turn,
} from '@static/relay/internal'

/** A channel with all that belongs to it. */
export interface Kept {
  readonly channel: Channel
  readonly founding: Uint8Array
  /** Entries by index. */
  readonly log: Map<number, { readonly entry: Entry; readonly size: number }>
  readonly ids: Map<string, Answered & { readonly at: Time }>
  readonly welcomes: Map<AgentId, { readonly welcome: StoredWelcome; readonly shares: boolean; readonly at: Time }>
  /** By the index of the commit. */
  readonly groupInfos: Map<number, Uint8Array>
  /** By slot, in order. */
  readonly slots: Map<number, Slot>
  /** In the order of the log. */
  turns: Turn[]
}

/** Everything except invites and short-lived rows. */
export interface MemoryState {
  readonly channels: Map<ChannelId, Kept>
  readonly accounts: Map<string, AccountRecord>
  /** By key. */
  readonly files: Map<string, FileRecord>
  readonly dropped: Pick<Channel, 'account' | 'bytes'>[]
  lastNumber: number
  lastSequence: number
}

/** The state of an empty store. */
export function emptyState(): MemoryState {
  return { channels: new Map(), accounts: new Map(), files: new Map(), dropped: [], lastNumber: 0, lastSequence: 0 }
}

/** A channel that must exist. */
export function keptOf({ channels }: MemoryState, { id }: Pick<Channel, 'id'>): Kept {
  const kept = channels.get(id)
  if (!kept) throw new Error(`channel ${id} was deleted`)
  return kept
}

/** The records of all channels. */
export function allChannels({ channels }: MemoryState): Channel[] {
  return [...channels.values()].map(({ channel }) => channel)
}
