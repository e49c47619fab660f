/**
 * The interface of a storage engine: records and rows, all accessed synchronously. Everything an operation writes
 * becomes durable together with the changed records, or not at all.
 */
import type { Channel } from '../state.ts'
import type { AccountRows } from './accounts.ts'
import type { ChannelRows, NameRows } from './channels.ts'
import type { DueRows } from './due.ts'
import type { FileRows } from './files.ts'
import type { IdRows } from './ids.ts'
import type { InviteRows } from './invites.ts'
import type { LogRows } from './log.ts'
import type { OwnedRows } from './owned.ts'
import type { SlotRows } from './slots.ts'
import type { TransientRows } from './transient.ts'
import type { WelcomeRows } from './welcomes.ts'

/** Records and rows of one engine. */
export interface Rows {
  readonly channels: ChannelRows
  readonly names: NameRows
  readonly accounts: AccountRows
  readonly log: LogRows
  readonly slots: SlotRows
  readonly ids: IdRows
  readonly welcomes: WelcomeRows
  readonly invites: InviteRows
  readonly files: FileRows
  readonly transient: TransientRows
  readonly owned: OwnedRows
  readonly due: DueRows
  /** Channel records are no longer in use and may be evicted from memory. */
  settle(): void
  /**
   * Also hides its log, ids, Welcomes and invites, and ends its files. Its bytes stay on the account until `purge` has deleted them:
   * otherwise creating and deleting channels would fill the disk faster than it is freed.
   */
  dropChannel(channel: Channel): void
  /** Deletes a limited part of what deleted channels left behind, and takes it off their accounts. */
  purge(): void
}
