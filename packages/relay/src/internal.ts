/** Only for `@static/testkit`: the basis of other engines, crash tests and raw clients. Not published. */
export { Relay } from './core/relay.ts'
export { makeCrypto } from './crypto.ts'
export type {
  Account,
  AgentId,
  BusWire,
  ChannelId,
  DueFile,
  Entry,
  Head,
  Invite,
  JoinRequest,
  MemberReceipt,
  OpenWire,
  Position,
  Retention,
  Store,
  StoredWelcome,
  StoreEvent,
  StoreListener,
  StoreOperation,
  StoreRequest,
  StoreResult,
  StreamHandler,
  StreamId,
  Time,
  Transport as RelayTransport,
  WireListener,
} from './ports.ts'
export { CoreRunner } from './runner/core-runner.ts'
export { settingsFrom } from './settings.ts'
export { type EntryDraft } from './store/ledger/log/draft.ts'
export { Ledger } from './store/ledger/ledger.ts'
export { addEntry } from './store/ledger/log/log.ts'
export type { AccountRows } from './store/ledger/rows/accounts.ts'
export type { ChannelRows, Glance, NameRows, NewChannel } from './store/ledger/rows/channels.ts'
export type { DueRows, OldWelcome } from './store/ledger/rows/due.ts'
export type { FileRecord, FileRoom, FileRows } from './store/ledger/rows/files.ts'
export type { Answered, IdKey, IdRows } from './store/ledger/rows/ids.ts'
export type { InviteRows } from './store/ledger/rows/invites.ts'
export { ENTRY_OVERHEAD, type LogRows, type Weight } from './store/ledger/rows/log.ts'
export type { Behind, Owned, OwnedRows } from './store/ledger/rows/owned.ts'
export type { Rows } from './store/ledger/rows/rows.ts'
export type { SlotRows } from './store/ledger/rows/slots.ts'
export type { DroppedWelcome, NewWelcome, WelcomeRows } from './store/ledger/rows/welcomes.ts'
export {
  type AccountRecord,
  type Channel,
  findMember,
  newAccount,
  newChannel,
  onRoster,
  receiptsOf,
  type Slot,
  type Turn,
} from './store/ledger/state.ts'
export {
  type JoinHeader,
  type JoinKey,
  type JoinPlace,
  type JoinQueue,
  type JoinRows,
  type JoinWeight,
  queueOf,
} from './store/ledger/rows/joins.ts'
export type { Notices, TransientRows } from './store/ledger/rows/transient.ts'
export type { EngineStep } from './store/sqlite/engine.ts'
export type { WorkerOptions } from './store/sqlite/thread/worker-messages.ts'
export { serveDatabase } from './store/sqlite/thread/serve.ts'
export { openPostgresStore } from './store/postgres/store.ts'
export { openSqliteStore } from './store/sqlite/store.ts'
