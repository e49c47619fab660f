/** The ports between the relay's parts. The core knows these, but neither engines nor transports. */
export {
  type ApiState,
  type BlockedAnswer,
  type BlockReason,
  type DeletionSource,
  MAX_CHECKED_ACCOUNTS,
  type OverviewSink,
  type QuotaSource,
  type TokenVerifier,
} from './ports/api.ts'
export type {
  Bus,
  BusCounts,
  BusListener,
  BusState,
  BusWire,
  News,
  NodeId,
  OpenWire,
  Topic,
  WireListener,
} from './ports/bus.ts'
export type { StoreEvent } from './ports/events.ts'
export type { DueFile, FileName, FilesPlace, FileState, PartAnswer, PartAsk, PartGate } from './ports/files.ts'
export type { Invite, JoinRequest, NumberedJoin } from './ports/invites.ts'
export type {
  AckedPosition,
  AgentId,
  ChannelId,
  CommitEntry,
  Entry,
  LeaveEntry,
  MemberReceipt,
  MessageEntry,
  Position,
  SignedDeclaration,
  StoredWelcome,
  Time,
  WelcomeFields,
} from './ports/log.ts'
export type {
  Gap,
  Head,
  OwnedChannel,
  Pressure,
  Standing,
  StoreOperation,
  StoreRequest,
  StoreResult,
  Unpaid,
} from './ports/operations.ts'
export { type Account, accountKey, type Actor, type Done, type Laggard, type Refusal } from './ports/outcome.ts'
export type { ListedParts, Parts } from './ports/parts.ts'
export {
  type Deployment,
  type Durability,
  MAX_STORE_CLOCK_OFFSET_MS,
  OutcomeUnknown,
  type Retention,
  type Store,
  type StoreCensus,
  type StoreListener,
  storeClockProblem,
} from './ports/store.ts'
export type {
  CallHandler,
  Certificate,
  ConnectionLimit,
  FullTransport,
  Health,
  Peer,
  PushSink,
  StreamHandler,
  StreamId,
  Subscription,
  Transport,
} from './ports/transport.ts'
