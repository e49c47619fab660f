export { agentIdOf } from './credential.ts'
export { type Declared, isLeaveOf, type Violation } from './commit-rules.ts'
export { type ChannelContext, isSameOwnership, type Ownership } from './channel-context.ts'
export { ed25519, generateSignatureKeyPair, type SignatureKeyPair } from '#platform/crypto'
export type {
  CheckedKeyPackage,
  CommitChange,
  Epoch,
  ExpectedWelcome,
  NewGroup,
  Group,
  GroupFacts,
  Joined,
  Member,
  MlsEngine,
  NewKeyPackage,
  PendingCommit,
  Processed,
  Rejection,
} from './engine.ts'
export { KeyedMutex } from './mutex.ts'
export { type Bucket, BUCKETS, cellsOf, ciphertextBytesOf } from './padding.ts'
export {
  decodeRow,
  encodeRow,
  type ExpectedSender,
  type Opened,
  type RatchetRow,
  type Ratchets,
  type Sealed,
} from './ratchet.ts'
export { isPayloadKey, openPayload, sealPayload, storedBytes } from './stored-payload.ts'
export { makeEngine } from './ts-mls/adapter.ts'
