/**
 * Which commits are valid (SPEC.md, 4.3; beyond RFC 9420, section 12.4). One pure function of the tree, the
 * GroupContext, the commit and the signed declaration sent with it: no clock, no pins, no settings. Every member must
 * reach the same verdict, or the group splits. The function cannot check whether the other members can decrypt the
 * commit's path: an insider can build a path that only some of them can decrypt, and MLS cannot prevent that.
 */
import { ed25519, sameBytes } from '#platform/crypto'
import {
  type DeclarationFields,
  leaveBytes,
  type LeaveNoticeFields,
  MAX_LEAF_KEYS,
  MAX_MEMBERS,
  MAX_NUMBER,
  PUBLIC_KEY_BYTES,
} from '@static/protocol'
import { latin1 } from '../platform/bytes.ts'
import type { ChannelContext } from './channel-context.ts'
import { agentIdOf, isFounder, isIdentity } from './credential.ts'
import { isEncryptionKey } from './x25519.ts'

/** A leaf that is not blank. */
export interface RuleLeaf {
  readonly leaf: number
  /** Undefined for a credential that is not basic. */
  readonly identity: Uint8Array | undefined
  readonly signatureKey: Uint8Array
  readonly encryptionKey: Uint8Array
  /** Whether it has all capabilities the group requires, and no extensions. */
  readonly able: boolean
}

export type RuleProposal =
  /** `sealable`: whether the KeyPackage has a key to which its Welcome can be sealed. */
  | ({ readonly kind: 'add'; readonly sealable: boolean } & Omit<RuleLeaf, 'leaf'>)
  | { readonly kind: 'remove'; readonly leaf: number }
  /** A GroupContextExtensions; the context is undefined if it is not that of a channel. */
  | { readonly kind: 'context'; readonly context: ChannelContext | undefined }
  /** A PreSharedKey; `external` as opposed to one derived from an earlier epoch. */
  | { readonly kind: 'psk'; readonly external: boolean }
  /** Any other type, or a reference to an earlier proposal. */
  | { readonly kind: 'other' }

/** A member's commit, sent as a PrivateMessage. */
export interface RuleCommit {
  readonly sender: number
  readonly proposals: readonly RuleProposal[]
  readonly path: (Omit<RuleLeaf, 'leaf'> & { readonly nodeKeys: readonly Uint8Array[] }) | undefined
}

/** The group before the commit. */
export interface RuleGroup {
  readonly groupId: Uint8Array
  readonly epoch: bigint
  /** From the GroupContext. */
  readonly context: ChannelContext | undefined
  readonly leaves: readonly RuleLeaf[]
  /** The encryption keys of the parent nodes. */
  readonly parentKeys: readonly Uint8Array[]
}

/** The signed declaration sent with a commit. */
export interface Declared {
  readonly declaration: DeclarationFields
  /** The agent that signed the declaration; the caller has verified the signature. */
  readonly declarer: Uint8Array
}

/** The rule that a commit breaks. */
export type Violation =
  | 'sender_not_member'
  | 'proposal_not_allowed'
  | 'founder_commits'
  | 'founder_added'
  | 'credential_invalid'
  | 'capabilities_missing'
  | 'seal_key_missing'
  | 'credential_changed'
  | 'signature_key_changed'
  | 'signature_key_twice'
  | 'identity_twice'
  | 'encryption_key_used'
  | 'encryption_key_invalid'
  | 'removes_blank_leaf'
  | 'removes_itself'
  | 'removes_owner'
  | 'removes_without_right'
  | 'leave_notice_invalid'
  | 'psk_misplaced'
  | 'declaration_differs'
  | 'declaration_of_another'
  | 'vouches_without_right'
  | 'context_invalid'
  | 'context_misplaced'
  | 'ownership_without_right'
  | 'standby_not_member'
  | 'standby_not_cleared'
  | 'group_full'
  | 'last_epoch'

/** The effect of a valid commit. */
export interface MemberChange {
  readonly added: readonly Omit<RuleLeaf, 'leaf'>[]
  readonly removed: readonly RuleLeaf[]
}

const NO_ONE = new Uint8Array()

/** Returns the change a commit makes, or the first rule it breaks. */
export function checkCommit(group: RuleGroup, commit: RuleCommit, declared: Declared): MemberChange | Violation {
  const { proposals, path } = commit
  const sender = group.leaves.find(({ leaf }) => leaf === commit.sender)
  if (sender === undefined) return 'sender_not_member'
  if (isFounderLeaf(sender)) return 'founder_commits'
  if (proposals.some(({ kind }) => kind === 'other')) return 'proposal_not_allowed'
  if (path !== undefined) {
    if (path.identity === undefined || !sameIdentity(path, sender)) return 'credential_changed'
    if (!sameBytes(path.signatureKey, sender.signatureKey)) return 'signature_key_changed'
  }

  const removed: RuleLeaf[] = []
  for (const proposal of proposals) {
    if (proposal.kind !== 'remove') continue
    const leaf = group.leaves.find(({ leaf }) => leaf === proposal.leaf)
    if (leaf === undefined || removed.includes(leaf)) return 'removes_blank_leaf'
    if (leaf === sender) return 'removes_itself'
    removed.push(leaf)
  }
  const added = proposals.filter((proposal) => proposal.kind === 'add')
  if (added.some(isFounderLeaf)) return 'founder_added'
  if (added.some(({ identity }) => identity === undefined || !isIdentity(identity))) return 'credential_invalid'

  const right = checkRights(group, sender, removed, declared) ?? checkOwnership(group, commit, sender, removed)
  if (right !== undefined) return right

  const staying = group.leaves.filter((leaf) => !removed.includes(leaf))
  const after = [...staying.map((leaf) => (leaf === sender && path !== undefined ? path : leaf)), ...added]
  if (twice(after.map(({ signatureKey }) => signatureKey))) return 'signature_key_twice'
  if (twice(after.map(({ identity }) => identity ?? new Uint8Array()))) return 'identity_twice'
  // A joiner rejects a tree with such leaves or keys, so accepting one here would stop all later joins.
  const fresh = [...added, ...(path === undefined ? [] : [path])]
  if (!fresh.every(({ able }) => able)) return 'capabilities_missing'
  // A recorded Welcome that is not sealed opens all later epochs once X25519 is broken.
  if (!added.every(({ sealable }) => sealable)) return 'seal_key_missing'
  const newKeys = [...fresh.map(({ encryptionKey }) => encryptionKey), ...(path?.nodeKeys ?? [])]
  const oldKeys = new Set([...group.leaves.map(({ encryptionKey }) => encryptionKey), ...group.parentKeys].map(latin1))
  if (twice(newKeys) || newKeys.some((key) => oldKeys.has(latin1(key)))) return 'encryption_key_used'
  if (!newKeys.every(isEncryptionKey)) return 'encryption_key_invalid'
  if (after.length > MAX_MEMBERS) return 'group_full'
  if (group.epoch >= MAX_NUMBER) return 'last_epoch'

  // Required for the lone leaf, see ts-mls/commit.ts. Anywhere else it would lock out the members without the key.
  const psks = proposals.filter((proposal) => proposal.kind === 'psk')
  if (psks.length !== (after.length === 1 ? 1 : 0) || psks.some(({ external }) => !external)) return 'psk_misplaced'

  if (!sameBytes(declared.declarer, agentIdOf(sender.signatureKey))) return 'declaration_of_another'
  const { adds, removes } = declared.declaration
  const agentIds = (leaves: readonly Pick<RuleLeaf, 'signatureKey'>[]): Uint8Array[] =>
    leaves.map(({ signatureKey }) => agentIdOf(signatureKey))
  const named = removed.filter((leaf) => !isFounderLeaf(leaf))
  if (!sameSet(adds, agentIds(added)) || !sameSet(removes, agentIds(named))) return 'declaration_differs'
  if (!isOwnershipDeclared(proposals, declared)) return 'declaration_differs'
  if (!mayVouch(group, sender, declared)) return 'vouches_without_right'
  return { added, removed }
}

/**
 * The owner may set and clear its standby, and the standby may make itself the owner, in a commit that changes no members.
 * A commit that removes the standby clears it: otherwise an agent that was removed could be added again by anyone, and take
 * the channel over. It adds no one, because the library creates no such commit.
 */
function checkOwnership(
  { context, leaves }: RuleGroup,
  { proposals }: RuleCommit,
  sender: RuleLeaf,
  removed: readonly RuleLeaf[],
): Violation | undefined {
  const removesStandby = removed.some((leaf) => isAgent(context?.standby, leaf))
  const [proposal, ...more] = proposals.filter((each) => each.kind === 'context')
  if (proposal === undefined) return removesStandby ? 'standby_not_cleared' : undefined
  const next = proposal.context
  if (more.length > 0 || !context || !next || next.name !== context.name) return 'context_invalid'
  if (proposals.some(({ kind }) => kind === 'add')) return 'context_misplaced'
  const isSameOwner = sameBytes(next.owner, context.owner)
  if (removesStandby) return isSameOwner && next.standby === undefined ? undefined : 'standby_not_cleared'
  if (removed.length > 0) return 'context_misplaced'
  if (isSameOwner) {
    if (!isAgent(context.owner, sender)) return 'ownership_without_right'
    const isThere = next.standby === undefined || leaves.some((leaf) => isAgent(next.standby, leaf))
    return isThere ? undefined : 'standby_not_member'
  }
  const takesOver = isAgent(context.standby, sender) && isAgent(next.owner, sender) && next.standby === undefined
  return takesOver ? undefined : 'ownership_without_right'
}

/** Whether the declaration names the owner and the standby that the commit sets, and only such a commit names any. */
function isOwnershipDeclared(proposals: RuleCommit['proposals'], { declaration }: Declared): boolean {
  const { owner = NO_ONE, standby = NO_ONE } = declaration
  const next = proposals.find((each) => each.kind === 'context')?.context
  return sameBytes(owner, next?.owner ?? NO_ONE) && sameBytes(standby, next?.standby ?? NO_ONE)
}

/** The owner may remove any member, others only a member that signed a leave notice; anyone the founder leaf. */
function checkRights(
  { groupId, context }: RuleGroup,
  sender: RuleLeaf,
  removed: readonly RuleLeaf[],
  { declaration }: Declared,
): Violation | undefined {
  const ids = new Map(removed.map((leaf) => [latin1(agentIdOf(leaf.signatureKey)), leaf]))
  const left = new Set<RuleLeaf>()
  for (const notice of declaration.leaveNotices) {
    const leaf = ids.get(latin1(agentIdOf(notice.publicKey)))
    if (leaf === undefined || left.has(leaf) || !isLeaveOf(groupId, leaf, notice)) return 'leave_notice_invalid'
    left.add(leaf)
  }
  for (const leaf of removed) {
    if (isFounderLeaf(leaf)) continue
    if (isAgent(context?.owner, leaf)) return 'removes_owner'
    if (!isAgent(context?.owner, sender) && !left.has(leaf)) return 'removes_without_right'
  }
  return undefined
}

/** The owner may vouch for agents that the commit adds, once for each; others for no one. */
function mayVouch({ context }: RuleGroup, sender: RuleLeaf, { declaration: { adds, vouches } }: Declared): boolean {
  if (vouches.length === 0) return true
  const keys = new Set(adds.map(latin1))
  return isAgent(context?.owner, sender) && !twice(vouches) && vouches.every((agent) => keys.has(latin1(agent)))
}

function isAgent(agent: Uint8Array | undefined, { signatureKey }: Pick<RuleLeaf, 'signatureKey'>): boolean {
  return agent !== undefined && sameBytes(agentIdOf(signatureKey), agent)
}

/**
 * Whether a leave notice is signed by this member and names its current leaf key. A notice from an earlier membership,
 * or from before a re-key by which the member chose to stay, names another key.
 */
export function isLeaveOf(
  groupId: Uint8Array,
  { signatureKey, encryptionKey }: Pick<RuleLeaf, 'signatureKey' | 'encryptionKey'>,
  notice: LeaveNoticeFields,
): boolean {
  const { publicKey, leafKeys, signature } = notice
  if (leafKeys.length > MAX_LEAF_KEYS || !leafKeys.some((key) => sameBytes(key, encryptionKey))) return false
  if (!leafKeys.every(({ length }) => length === PUBLIC_KEY_BYTES)) return false
  return sameBytes(publicKey, signatureKey) && ed25519.verifier(publicKey)(leaveBytes(groupId, notice), signature)
}

function isFounderLeaf({ identity }: Pick<RuleLeaf, 'identity'>): boolean {
  return identity !== undefined && isFounder(identity)
}

function sameIdentity(one: Pick<RuleLeaf, 'identity'>, other: Pick<RuleLeaf, 'identity'>): boolean {
  return one.identity !== undefined && other.identity !== undefined && sameBytes(one.identity, other.identity)
}

function twice(values: readonly Uint8Array[]): boolean {
  return new Set(values.map(latin1)).size !== values.length
}

function sameSet(one: readonly Uint8Array[], other: readonly Uint8Array[]): boolean {
  const keys = new Set(one.map(latin1))
  return one.length === other.length && keys.size === one.length && other.every((value) => keys.has(latin1(value)))
}
