/** The ports of the agent: a database, transports and a session with the relay. */
export type { AgentId, ChannelId, Time } from './ports/ids.ts'
export type {
  Admit,
  AttemptRecord,
  ClaimRecord,
  InviteListRecord,
  InviteRecord,
  JoinerRecord,
  UseRecord,
} from './ports/invites.ts'
export type {
  KnownRelay,
  Outcome,
  RelaySession,
  RequestBody,
  ServerBody,
  SessionInfo,
  SessionListener,
} from './ports/session.ts'
export type {
  AgentStore,
  AnswererRecord,
  AnsweredRecord,
  AskRecord,
  ChainRecord,
  Change,
  ChannelRecord,
  EpochPlace,
  EpochRecord,
  IdentityRecord,
  InboxPlace,
  InboxRecord,
  KeyPackageRecord,
  LeaverRecord,
  OutboxRecord,
  OwnReceiptRecord,
  PendingCommitRecord,
  PoisonRecord,
  MessageTotals,
  PositionRecord,
  RemovedRecord,
  SenderRecord,
  Snapshot,
  StayRecord,
  StoredChannel,
} from './ports/store.ts'
export type { CellStream, StreamHandlers, Target, Transport } from './ports/transport.ts'
