// oxlint-disable-next-line import/no-unassigned-import -- checks this Node before anything else runs
import './platform/node/version.ts'

export {
  AuthError,
  ChannelError,
  type ErrorCode,
  type ErrorDetails,
  type ErrorJson,
  MlsError,
  QuotaExceededError,
  type ReceiptMode,
  StaticError,
  type TrafficProfileName,
  TransportError,
} from '@static/protocol'
export { Ask } from './public/ask.ts'
export type { JsonAnswers } from './public/json-answers.ts'
export type {
  SchemaInput,
  SchemaIssue,
  SchemaOption,
  SchemaOutput,
  SchemaResult,
  StandardSchema,
} from './public/standard-schema.ts'
export { Channel } from './public/channel.ts'
export { Approval, type ApprovalDecision, type ApprovalResult } from './public/approvals/approval.ts'
export type { ApprovalOptions, ApprovalWish, DecideOptions } from './public/options/approval-options.ts'
export { checkApproval, type CheckedApproval, type ExpectedApproval } from './public/approvals/checked-approval.ts'
export type {
  AddOptions,
  AskOneOptions,
  AskOptions,
  CatchUpOptions,
  ChannelStandby,
  HistoryOptions,
  SendOptions,
} from './public/options/channel-options.ts'
export { type JoinOffer, StaticClient } from './public/client.ts'
export type { AgentEvent } from './agent/events.ts'
export type { HistoryOption } from './channel/keeping/keeping.ts'
export type { OfferPolicy } from './joining/offers.ts'
export type { Answers, ServeOptions } from './channel/asking/serving.ts'
export type { HandleOptions } from './channel/receiving/handling.ts'
export type { SentMessage } from './channel/sending/outbox.ts'
export type { ReceiptLevel, UnreachedReason } from './channel/receipts/reached.ts'
export { Answer, ChannelRequest, Envelope, type ReceivedMessage } from './public/envelope.ts'
export type { HistoryMessage } from './public/received/history-message.ts'
export type { PoisonMessage, PoisonMessages } from './public/received/poison-messages.ts'
export type { ChannelMember, ListedMember } from './public/received/member.ts'
export { ReceivedFile } from './public/received/received-file.ts'
export type { ReadFileOptions, SaveFileOptions, SendFileOptions } from './public/options/file-options.ts'
export type { SentFile } from './files/send-file.ts'
export { type InviteLink, isInviteLink, parseInviteLink } from './admitting/link.ts'
export type { IssuedInvite } from './admitting/issued.ts'
export type { ProofOption } from './account/trust/desk.ts'
export { type MemberProof, shownProof } from './channel/proving/member-proof.ts'
export type { Rule } from './proofs/rules.ts'
export type { NameKind } from './proofs/verdict.ts'
export type {
  CreateOptions,
  InviteOptions,
  JoinOptions,
  LinkOptions,
  ShowOptions,
} from './public/options/invite-options.ts'
export { StaticChannelManager } from './public/manager.ts'
export type { Admit, AgentId, Logger } from './ports/index.ts'
export type { MemberReceipt, Reached, ReachedOptions } from './public/receipt-view.ts'
export type { ClientOptions } from './gen/client-options.ts'
export type { AccountSessionOptions } from './public/settings.ts'
export { deleteAccountChannel } from './account/delete-channel.ts'
export { type AgentHistory, openAgentHistory } from './public/agent-history.ts'
export { type AgentIdentity, deleteAgent, type MetRelay, readAgentIdentity } from './store/agent-directory.ts'
export { addKeySlot, listKeySlots, removeKeySlot, replaceKeySlot } from './store/keys/slots.ts'
export type { Keyring, KeySource } from './store/keys/sources.ts'
export type { KeySlot } from './store/keys/slot-file.ts'
