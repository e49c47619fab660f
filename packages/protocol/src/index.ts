export { A2A_BINDING, A2A_VERSION, type A2AInterface, a2aInterface } from './a2a.ts'
export { addressKey, NETWORK_SHARES, networkLimit, networkOf, sourceOf } from './address.ts'
export {
  CELL_BYTES,
  CELL_PAYLOAD_BYTES,
  CELL_TYPES,
  type CellEvent,
  CellJoiner,
  cutEnvelope,
  type LoneCell,
  makeCell,
} from './traffic/cell.ts'
export { CoverClock, UNIT_CELLS, UsualTime, wholeUnits } from './traffic/cover.ts'
export {
  AUDIENCE,
  ISSUER,
  MODES,
  PLANS,
  TOKEN_ALGORITHM,
  TOKEN_LIFETIME_SECONDS,
  type Mode,
  type Plan,
  type TokenClaims,
} from './claims.ts'
export { ERROR_MEANINGS } from './errors/meanings.ts'
export {
  AuthError,
  ChannelError,
  docUrlOf,
  type ErrorDetails,
  type ErrorJson,
  MlsError,
  QuotaExceededError,
  StaticError,
  TransportError,
} from './errors/errors.ts'
export { checkOptionNames } from './errors/option-names.ts'
export { redactSecrets } from './errors/redact.ts'
export { ERRORS, type ErrorCode, type ErrorRow } from './errors/table.ts'
export {
  ACCOUNT_STATUSES,
  CSRF_HEADER,
  DEVICE_COOKIE,
  SESSION_COOKIE,
  type Account,
  type AccountStatus,
  type CreatedKey,
  type IssuedToken,
  type Lease,
  type ListedKey,
  type ListedSession,
  type ChannelDeletion,
  type Overview,
  OVERVIEW_LIMITS,
  type OverviewAgent,
  type OverviewChannel,
  type RelayOverview,
  type RequestedDeletion,
  type Problem,
  type Readiness,
  type SignedUp,
  type Usage,
  AUDIT_ACTORS,
  AUDIT_EVENTS,
  type AuditActor,
  type AuditedEvent,
  type AuditEvent,
  type AuditPage,
  ANNOUNCEMENT_PATH,
  SIGNUP_MODES,
  type ServerAnnouncement,
  type SignupMode,
} from './http.ts'
export {
  inviteListBytes,
  type InviteListClaim,
  JOIN_REFUSALS,
  type JoinClaim,
  joinProofBytes,
} from './signed/invite.ts'
export {
  AGENT_ID_BYTES,
  CHANNEL_ID_BYTES,
  ENVELOPE_LIMITS,
  FILE_ID_BYTES,
  HASH_BYTES,
  INVITE_ID_BYTES,
  MAX_CIPHERTEXT_BYTES,
  MAX_KEY_PACKAGE_BYTES,
  MAX_KEY_PACKAGES,
  MAX_MEMBERS,
  MAX_UNVOUCHED_SIZE,
  MAX_NUMBER,
  MAX_PAYLOAD_BYTES,
  MESSAGE_ID_BYTES,
  NONCE_BYTES,
  PUBLIC_KEY_BYTES,
  RELAY_ID_BYTES,
  SIGNATURE_BYTES,
  countedAdds,
  maxCommitBytes,
  MAX_WELCOME_BYTES,
} from './wire/limits.ts'
export {
  FILE_PART_BYTES,
  FILE_PART_OVERHEAD,
  filePartBytes,
  filePartCount,
  MAX_FILE_BYTES,
  paddedFileBytes,
  storedFileBytes,
} from './wire/file-size.ts'
export { lengthPrefixed, signedBytes } from './signed/layout.ts'
export { type RosterClaim, rosterBytes, type VouchClaim, vouchBytes } from './signed/roster.ts'
export {
  decodeReceipt,
  encodeReceipt,
  RECEIPT_BYTES,
  RECEIPT_MODES,
  type ReceiptClaim,
  type ReceiptMode,
  receiptBytes,
  type SignedReceipt,
} from './signed/receipt.ts'
export {
  type ChainEntry,
  type CommitPlace,
  type DeclarationFields,
  type Hash,
  type LeaveNoticeFields,
  chainNext,
  chainStart,
  commitBody,
  declarationBytes,
  leaveBody,
  leaveBytes,
  MAX_LEAF_KEYS,
} from './signed/log-entry.ts'
export { fromHex, toHex } from './hex.ts'
export { identityWithFingerprint, type NamedAgent, shortFingerprint, ShownNames, shownIdentity } from './identity.ts'
export { CHANNEL_NAME_PATTERN, type ChannelName, isChannelName, MAX_NAME_LENGTH, parseChannelName } from './name.ts'
export { type Pace, Pacer, type PacerCounts, paceOf } from './traffic/pacer.ts'
export {
  ALL_TRAFFIC,
  ALPN,
  ERROR_METADATA,
  OLDEST_REVISION,
  PURPOSES,
  REVISION,
  SESSION_METADATA,
  type SessionClaim,
  type SessionPurpose,
  TRAFFIC_PROFILES,
  type TrafficProfileName,
  type TrafficRange,
  outsideRange,
  sessionBytes,
} from './signed/session.ts'
export { overlaySettings } from './settings.ts'
export { type Claimant, Connected, Holdings, Shares, type Taken } from './shares.ts'
export { CellUnframer, type FrameFault, frameCells, frameMessage, GRPC_PREFIX_BYTES } from './wire/grpc-frame.ts'
export { message } from './wire/message.ts'
export { WireError, type WireFault } from './wire/wire-error.ts'
