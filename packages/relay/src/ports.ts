/** The ports between the relay's parts. The core knows these, but neither engines nor transports. */
export {
  type ApiState,
  MAX_CHECKED_ACCOUNTS,
  type OverviewSink,
  type QuotaSource,
  type TokenVerifier,
} from './ports/api.ts'
export type { Bus, BusListener, BusState, BusWire, News, NodeId, OpenWire, Topic, WireListener } from './ports/bus.ts'
export type {
  AgentId,
  ChannelId,
  CommitEntry,
  Entry,
  LeaveEntry,
  MessageEntry,
  Position,
  SignedDeclaration,
  StoredWelcome,
  Time,
  WelcomeFields,
} from './ports/log.ts'
export type {
  Account,
  Actor,
  Done,
  Gap,
  Head,
  Invite,
  JoinRequest,
  Laggard,
  OwnedChannel,
  Pressure,
  Refusal,
  Standing,
  StoreOperation,
  StoreRequest,
  StoreResult,
  Unpaid,
} from './ports/operations.ts'
export {
  type Deployment,
  type Durability,
  MAX_STORE_CLOCK_OFFSET_MS,
  type Retention,
  type Store,
  type StoreCensus,
  type StoreEvent,
  type StoreListener,
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
