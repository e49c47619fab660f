/** The ports of the agent: a database, transports and a session with the relay. */
export type { ApprovalEventRecord, ApprovalRecord, ApprovalRequestRecord } from './approval-records.ts'
export type { FileDisk, OpenedSource, OpenedTarget, PartLine, PartReply, PartRequest, Spool } from './files.ts'
export type { FileRecord, UploadPart, UploadRecord } from './file-records.ts'
export type { AgentId, ChannelId, Time } from './ids.ts'
export { KEPT_KINDS } from './kept-records.ts'
export type { KeptKind, KeptRecord, KeptSize } from './kept-records.ts'
export type { Logger } from './logger.ts'
export type {
  Admit,
  AttemptRecord,
  ClaimRecord,
  InviteListRecord,
  InviteRecord,
  JoinerRecord,
  UseRecord,
} from './invite-records.ts'
export type {
  AnsweredRecord,
  AnswererRecord,
  AskRecord,
  InboxPlace,
  InboxRecord,
  MessageTotals,
  OutboxRecord,
  PoisonRecord,
} from './message-records.ts'
export type {
  AnswerTo,
  FilesPlace,
  KnownRelay,
  Outcome,
  RelaySession,
  RequestBody,
  ServerBody,
  SessionInfo,
  SessionListener,
} from './session.ts'
export { RefusedChange } from './store.ts'
export type {
  AgentStore,
  ChainRecord,
  Change,
  ChannelRecord,
  EpochPlace,
  EpochRecord,
  IdentityRecord,
  KeyPackageRecord,
  LeaverRecord,
  OwnReceiptRecord,
  PendingCommitRecord,
  PositionRecord,
  RemovedRecord,
  SenderRecord,
  Snapshot,
  StayRecord,
  StoredChannel,
} from './store.ts'
export type { MemberProofRecord, OwnProofRecord } from './proof-records.ts'
export type { CellStream, StreamHandlers, Target, Transport } from './transport.ts'
