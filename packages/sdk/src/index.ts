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
export { Ask } from './ask.ts'
export { Channel } from './channel.ts'
export type { AddOptions, AskOptions, PoisonMessages, SendOptions } from './channel-options.ts'
export { type JoinOffer, StaticClient } from './client.ts'
export type { AgentEvent } from './core/agent/events.ts'
export type { OfferPolicy } from './core/agent/offer-limits.ts'
export type { Answers, ServeOptions } from './core/channel/asks/serving.ts'
export type { HandleOptions } from './core/channel/messages/handling.ts'
export type { SentMessage } from './core/channel/messages/outbox.ts'
export type { ReceiptLevel, UnreachedReason } from './core/channel/receipts/reached.ts'
export {
  Answer,
  type ChannelMember,
  ChannelRequest,
  Envelope,
  type ListedMember,
  type PoisonMessage,
  type ReceivedMessage,
} from './envelope.ts'
export { type InviteLink, isInviteLink, parseInviteLink } from './invite/link.ts'
export type { IssuedInvite } from './invite/issued.ts'
export { type InviteOptions, type LinkOptions, StaticChannelManager } from './manager.ts'
export type { Admit, AgentId } from './ports.ts'
export type { MemberReceipt, Reached, ReachedOptions } from './receipts.ts'
export type { ClientOptions } from './settings.ts'
export { type AgentIdentity, deleteAgent, type MetRelay, readAgentIdentity } from './store/agent-directory.ts'
export { addKeySlot, listKeySlots, removeKeySlot, replaceKeySlot } from './store/keys/slots.ts'
export type { Keyring, KeySource } from './store/keys/sources.ts'
export type { KeySlot } from './store/keys/slot-file.ts'
