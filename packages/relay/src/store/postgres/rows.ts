/**
 * Rows in PostgreSQL, for the synchronous ledger: the rows that a transaction has read, and the changes of its batch.
 */
import type { Hash } from '@static/protocol'
import type { Rows } from '../ledger/rows/rows.ts'
import type { Channel } from '../ledger/state.ts'
import type { Proof } from './doubt.ts'
import { DueTable } from './due.ts'
import type { Table } from './facts.ts'
import { writeHot, writeIfCurrent } from './hot-write.ts'
import { AccountTable } from './tables/accounts.ts'
import type { CacheOptions } from './tables/channel-cache.ts'
import { ChannelTable } from './tables/channels.ts'
import { FileTable } from './tables/files.ts'
import { IdTable } from './tables/ids.ts'
import { InviteTable } from './tables/invites.ts'
import { LogTable } from './tables/log.ts'
import { NameTable } from './tables/names.ts'
import { OwnedReads } from './tables/owned.ts'
import { SlotTable } from './tables/slots.ts'
import { TransientTable } from './tables/transient.ts'
import { WelcomeTable } from './tables/welcomes.ts'
import type { Transaction } from './write.ts'

export class PostgresRows implements Rows {
  readonly transaction: Transaction
  readonly channels: ChannelTable
  readonly names: NameTable
  readonly accounts: AccountTable
  readonly log: LogTable
  readonly slots: SlotTable
  readonly ids: IdTable
  readonly welcomes: WelcomeTable
  readonly invites: InviteTable
  readonly files: FileTable
  readonly transient: TransientTable
  readonly owned: OwnedReads
  readonly due: DueTable

  constructor(transaction: Transaction, hash: Hash, cache: CacheOptions) {
    this.transaction = transaction
    this.log = new LogTable(transaction, hash)
    this.channels = new ChannelTable(transaction, this.log, cache)
    this.names = new NameTable(transaction, () => this.channels.changes)
    this.accounts = new AccountTable(transaction, cache.freshMs, cache.accounts)
    this.slots = new SlotTable(transaction, this.channels)
    this.ids = new IdTable(transaction)
    this.welcomes = new WelcomeTable(transaction, this.channels)
    this.invites = new InviteTable(transaction)
    this.files = new FileTable(transaction)
    this.transient = new TransientTable(transaction)
    this.owned = new OwnedReads(transaction)
    this.due = new DueTable(this)
  }

  /** A transaction begins. */
  begin(): void {
    for (const table of [...this.#tables(), this.names, this.owned, this.due]) table.begin()
  }

  /** The batch is decided again. */
  rewind(): void {
    for (const table of this.#tables()) table.rewind()
  }

  /** Sends all changes of the batch. */
  write(): void {
    // Deletes the rows of deleted channels before others with their names and ids are stored.
    this.channels.write()
    writeHot(this.transaction, this)
    this.#writeOthers()
    this.due.write()
  }

  /**
   * Stores a batch of `count` messages and commits, if nothing has changed since it was decided on. Returns whether it
   * did. Throws `Unforeseen` if the batch has changed more than these messages do.
   */
  storeIfCurrent(count: number): Promise<boolean> {
    this.channels.write()
    this.#writeOthers()
    return writeIfCurrent(this.transaction, this, count)
  }

  /** Proof, for later, of whether the batch was committed; undefined if there is none. */
  proof(): Proof | undefined {
    return this.log.proof((channel) => this.channels.isLive(channel))
  }

  committed(): void {
    this.channels.committed()
    this.accounts.committed()
  }

  /** Nothing in memory can be trusted anymore. */
  forget(): void {
    this.channels.forget()
    this.accounts.forget()
  }

  settle(): void {
    this.channels.settle()
  }

  dropChannel(channel: Channel): void {
    this.slots.dropChannel(channel)
    this.welcomes.dropChannel(channel)
    this.invites.dropAll(channel)
    this.files.endAll(channel)
    this.channels.drop(channel)
  }

  /** Done before the ledger decides (needs.ts). */
  purge(): void {}

  #writeOthers(): void {
    const { log, accounts, slots, welcomes, invites, files, transient } = this
    for (const table of [log, accounts, slots, welcomes, invites, files, transient]) table.write()
  }

  #tables(): readonly Table[] {
    const { channels, accounts, log, slots, ids, welcomes, invites, files, transient } = this
    return [channels, accounts, log, slots, ids, welcomes, invites, files, transient]
  }
}
