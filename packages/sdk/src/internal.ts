/**
 * Only for `@static/testkit`: the ports that its stores, transports and crash injection implement, and the frames that
 * its liar sends. Not published.
 */
export { encodeAnswer, encodeAnswerEnd, encodeCancel, encodeRequest } from './channel/asking/ask-frame.ts'
export type { FileParts } from './files/agent-files.ts'
export type { FrameKind } from './channel/sending/message-frame.ts'
export { parseEndpoint } from './account/endpoint.ts'
export type {
  AgentStore,
  AnsweredRecord,
  AttemptRecord,
  CellStream,
  Change,
  ChannelId,
  ChannelRecord,
  EpochRecord,
  FileDisk,
  IdentityRecord,
  InboxRecord,
  InviteRecord,
  JoinerRecord,
  KeptRecord,
  KeptSize,
  KeyPackageRecord,
  LeaverRecord,
  OpenedTarget,
  OutboxRecord,
  PartLine,
  PendingCommitRecord,
  PoisonRecord,
  RelaySession,
  SenderRecord,
  Snapshot,
  StoredChannel,
  StreamHandlers,
  Target,
  Transport,
  UploadPart,
} from './ports/index.ts'
export { RefusedChange } from './ports/index.ts'
export { openSession } from './session/core-runner.ts'
export { prepareChanges } from './store/changes.ts'
export {
  prepareAnswers,
  prepareFiles,
  prepareInbox,
  prepareKept,
  preparePoison,
  prepareRequests,
  readSnapshot,
} from './store/snapshot.ts'
export type { Value } from './store/sqlite.ts'
export type { Backwards, Key, RowReads, RowWrites, Table, Totals } from './store/rows/table.ts'
export { IDENTITY } from './store/tables/agent-tables.ts'
export { TABLES } from './store/tables/all-tables.ts'
export { StreamEvents } from './transport/stream-events.ts'
export { makeGrpcTransport } from './transport/grpc.ts'
export { makeQuicTransport } from './transport/quic.ts'
