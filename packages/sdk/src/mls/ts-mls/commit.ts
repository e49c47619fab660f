/**
 * Creates and applies commits (RFC 9420, sections 12.4.1 and 12.4.2) under the rules of commit-rules.ts.
 *
 * The lone leaf. When the committer is the only leaf left (the founder or the last other member removed, or a rotate
 * while alone), this library uses a commit secret of zeros where the RFC requires a fresh one. A removed member, or
 * someone who stole the state, could then compute the next epoch and keep reading. Such a commit therefore always
 * carries a PreSharedKey proposal over 32 random bytes that are discarded at once: only the committer can compute the
 * next epoch. A rotate while alone has no path, because the library creates none next to a PreSharedKey; the commit
 * that follows the first Add (`rekeyDue`) replaces the leaf's key.
 *
 * Commits that change the owner or the standby are not created by the library (context-commit.ts).
 */
import type { ClientState, Proposal, PskIndex, Welcome } from 'ts-mls'
import { createCommit } from 'ts-mls/createCommit.js'
import { encodeMlsMessage } from 'ts-mls/message.js'
import { processPrivateMessage } from 'ts-mls/processMessages.js'
import { emptyPskIndex } from 'ts-mls/pskIndex.js'
import {
  applyProposals,
  makePskIndex,
  validateLeafNodeCredentialAndKeyUniqueness,
  validateLeafNodeUpdateOrCommit,
} from 'ts-mls/clientState.js'
import type { Commit } from 'ts-mls/commit.js'
import { toLeafIndex } from 'ts-mls/treemath.js'
import { applyUpdatePath } from 'ts-mls/updatePath.js'
import { sameBytes } from '#platform/crypto'
import { type DeclarationFields, type ErrorCode, MAX_MEMBERS, MAX_NUMBER, StaticError, toHex } from '@static/protocol'
import { concat, same, toBase64 } from '../../platform/bytes.ts'
import { type ChannelContext, ownedBy, type Ownership } from '../channel-context.ts'
import { checkCommit, type Declared, type Violation } from '../commit-rules.ts'
import { agentIdOf } from '../credential.ts'
import type { CommitChange, Epoch, Invited, Member, PendingCommit, Processed } from '../engine.ts'
import { CONTENT_TYPES, parsePrivateMessage } from '../framing.ts'
import { sha256 } from '../hash.ts'
import { sealWelcome } from '../sealed-welcome.ts'
import { CONFIG } from './config.ts'
import { createContextCommit } from './context-commit.ts'
import { checkCommitsMade, withHandshakeUsed } from './handshake.ts'
import { checkKeyPackage, type MlsCrypto, type ParsedKeyPackage } from './key-package.ts'
import { decodeMessage, encodeGroupInfo, encodeSecrets } from './message.ts'
import { openCommit } from './open-commit.ts'
import { adopt, enclose, outside, type TsMlsGroup } from './state.ts'
import { contextExtensions, findContext, membersOf, neededExtensions, personOf, ruleCommit, ruleGroup } from './view.ts'

const LONE_LEAF = new TextEncoder().encode('static lone leaf')

/** Creates a commit; see `MlsEngine.commit`. */
export async function makeCommit(crypto: MlsCrypto, group: TsMlsGroup, change: CommitChange): Promise<PendingCommit> {
  const { provider } = crypto
  const { state, key } = group
  const members = membersOf(state.ratchetTree)
  checkCommitsMade(state, members.filter(({ founder }) => !founder).length - 1)
  const keyPackages = await Promise.all(
    (change.adds ?? []).map((bytes) =>
      checkKeyPackage(crypto, bytes, neededExtensions(state.groupContext), change.now),
    ),
  )
  const removes = (change.removes ?? []).map((agentId) => {
    const member = members.find((other) => !other.founder && sameBytes(other.agentId, agentId))
    if (member === undefined)
      throw StaticError.of('not_found', `Agent ${toHex(agentId)} is not a member of the channel.`)
    return member
  })
  const founders = change.removeFounder === true ? members.filter(({ founder }) => founder) : []
  if (group.founding && founders.length === 0)
    throw StaticError.of('invalid_request', 'The first commit to a new channel must remove the founder leaf.')
  const context = findContext(state.groupContext.extensions)
  const ownership = context && ownershipAfter(context, removes, change)
  const proposals: Proposal[] = [
    ...[...removes, ...founders].map(({ leaf }) => ({ proposalType: 'remove' as const, remove: { removed: leaf } })),
    ...(ownership ? [contextProposal({ name: context.name, ...ownership })] : []),
    ...keyPackages.map(({ parsed }) => ({ proposalType: 'add' as const, add: { keyPackage: parsed } })),
  ]
  const lone = members.length - removes.length - founders.length + keyPackages.length === 1
  if (lone) proposals.push(pskProposal(provider.rng.randomBytes(provider.kdf.size)))
  const declaration: DeclarationFields = {
    adds: keyPackages.map(({ agentId }) => agentId),
    removes: removes.map(({ agentId }) => agentId),
    leaveNotices: change.leaveNotices ?? [],
    vouches: change.vouches ?? [],
    ...(ownership && { owner: ownership.owner, standby: ownership.standby ?? new Uint8Array() }),
  }
  expectValid(group, proposals, declaration)

  const psk = provider.rng.randomBytes(provider.kdf.size)
  const pskIndex = pskIndexOf(psk)
  const creating = ownership
    ? createContextCommit(crypto, state, proposals, pskIndex)
    : createCommit(
        { state, cipherSuite: provider, pskIndex },
        { extraProposals: proposals, ratchetTreeExtension: keyPackages.length > 0 },
      )
  const made = await creating
    .catch((cause: unknown) => {
      throw StaticError.of('mls_error', 'Creating the commit failed.', { cause })
    })
    .finally(() => psk.fill(0))
  const { welcome } = made
  const groupInfo = welcome === undefined ? new Uint8Array() : encodeGroupInfo(welcome)
  return {
    commit: encodeMlsMessage(made.commit),
    welcomes: sealAll(welcome, groupInfo, keyPackages, change.invited ?? []),
    groupInfo,
    declaration,
    next: adopt(crypto, made.newState, key),
    current: outside(enclose(crypto, withHandshakeUsed(state), key)),
    rekeyDue: members.length === 1 && keyPackages.length > 0,
  }
}

/** A Welcome for each KeyPackage, sealed: nothing else of the library's Welcome leaves this function. */
function sealAll(
  welcome: Welcome | undefined,
  groupInfo: Uint8Array,
  keyPackages: readonly ParsedKeyPackage[],
  invited: readonly Invited[],
): PendingCommit['welcomes'] {
  const groupInfoHash = sha256(groupInfo)
  return keyPackages.map(({ agentId, recipient }, at) => {
    const secrets = welcome?.secrets[at]
    if (welcome === undefined || secrets === undefined) throw new TypeError('Every KeyPackage gets a Welcome.')
    const ownPart = encodeSecrets({ ...welcome, secrets: [secrets] })
    const invite = invited.find((each) => same(each.agentId, agentId))
    const sealed = sealWelcome(ownPart, groupInfoHash, recipient, invite)
    ownPart.fill(0)
    return { agentId, welcome: concat(sealed, groupInfo) }
  })
}

/** Checks and applies a commit; see `MlsEngine.process`. */
export async function followCommit(
  crypto: MlsCrypto,
  group: TsMlsGroup,
  bytes: Uint8Array,
  declared: Declared,
): Promise<Processed> {
  const { provider } = crypto
  const { state, key } = group
  const { groupContext, ratchetTree } = state
  const parts = parsePrivateMessage(bytes)
  const message = decodeMessage('mls_private_message', bytes)?.privateMessage
  if (message === undefined || parts?.contentType !== CONTENT_TYPES.commit)
    return { kind: 'rejected', reason: 'not_a_commit', sender: undefined }
  if (!sameBytes(parts.groupId, groupContext.groupId))
    return { kind: 'rejected', reason: 'other_group', sender: undefined }
  if (parts.epoch !== groupContext.epoch) return { kind: 'other_epoch', epoch: parts.epoch }

  const opened = await openCommit(crypto, state, message)
  if (opened.kind === 'undecryptable') return opened
  if (opened.kind !== 'commit') return { kind: 'rejected', reason: opened.kind, sender: undefined }
  const { leaf, commit, ahead } = opened
  const sender = membersOf(ratchetTree).find((member) => member.leaf === leaf)
  if (sender === undefined) return { kind: 'rejected', reason: 'sender_not_member', sender }

  const change = checkCommit(ruleGroup(state), ruleCommit(leaf, commit, groupContext), declared)
  if (typeof change === 'string') return { kind: 'rejected', reason: change, sender }
  if (!(await isSound(crypto, state, leaf, commit))) return { kind: 'rejected', reason: 'invalid', sender }
  const { added, removed } = change
  let next: Epoch | undefined
  if (!removed.some(({ leaf }) => leaf === state.privatePath.leafIndex)) {
    try {
      const { newState } = await processPrivateMessage(ahead, message, emptyPskIndex, provider)
      next = adopt(crypto, newState, key)
    } catch (cause) {
      return { kind: 'unfollowable', sender, cause }
    }
  }
  return {
    kind: 'accepted',
    sender,
    added: added.map(personOf),
    removed: removed.map((leaf) => ({ leaf: leaf.leaf, ...personOf(leaf) })),
    next,
  }
}

/**
 * Whether RFC 9420 allows a commit, as far as this can be checked without secrets: every member reaches the same
 * result, including a removed one. The library notices a removal only if the leaf stays blank, not if the same commit
 * gives it to another member.
 */
export async function isSound(
  { provider }: MlsCrypto,
  state: ClientState,
  sender: number,
  commit: Commit,
): Promise<boolean> {
  const { hash, signature } = provider
  const { proposals, path } = commit
  const leaf = toLeafIndex(sender)
  try {
    // Nothing is derived from the PreSharedKey here, so any value works for any id.
    const pskIndex: PskIndex = { findPsk: () => new Uint8Array(provider.kdf.size) }
    const { tree, needsUpdatePath } = await applyProposals(state, proposals, leaf, pskIndex, false, provider)
    // The library forgets that a new GroupContext requires a path.
    if (path === undefined) return !needsUpdatePath && !proposals.some(isContextChange)
    const { leafNode } = path
    const faults = [
      await validateLeafNodeUpdateOrCommit(leafNode, sender, state.groupContext, CONFIG.authService, signature),
      await validateLeafNodeCredentialAndKeyUniqueness(tree, leafNode, sender),
    ]
    if (faults.some((fault) => fault !== undefined)) return false
    await applyUpdatePath(tree, leaf, path, hash)
    return true
  } catch {
    return false
  }
}

function isContextChange(item: Commit['proposals'][number]): boolean {
  return item.proposalOrRefType === 'proposal' && 'groupContextExtensions' in item.proposal
}

/** The ownership that a commit sets, if it sets one: without its standby, no one may take the channel over. */
function ownershipAfter(
  { owner, standby }: ChannelContext,
  removes: readonly Member[],
  { ownership }: CommitChange,
): Ownership | undefined {
  const removesStandby = removes.some(({ agentId }) => standby !== undefined && sameBytes(agentId, standby))
  return removesStandby ? ownedBy(owner) : ownership
}

function contextProposal(context: ChannelContext): Proposal {
  return {
    proposalType: 'group_context_extensions',
    groupContextExtensions: { extensions: contextExtensions(context) },
  }
}

function pskProposal(nonce: Uint8Array): Proposal {
  return {
    proposalType: 'psk',
    psk: { preSharedKeyId: { psktype: 'external', pskId: LONE_LEAF, pskNonce: nonce } },
  }
}

function pskIndexOf(psk: Uint8Array): PskIndex {
  return makePskIndex(undefined, { [toBase64(LONE_LEAF)]: psk })
}

/** Rejects a commit that other members would reject, with a message for the caller. */
function expectValid({ state, key }: TsMlsGroup, proposals: readonly Proposal[], declaration: DeclarationFields): void {
  const { leafIndex } = state.privatePath
  const items = proposals.map((proposal) => ({ proposalOrRefType: 'proposal' as const, proposal }))
  const declarer = agentIdOf(key.publicKey)
  const verdict = checkCommit(
    ruleGroup(state),
    ruleCommit(leafIndex, { proposals: items, path: undefined }, state.groupContext),
    {
      declaration,
      declarer,
    },
  )
  if (typeof verdict !== 'string') return
  throw StaticError.of(codeOf(verdict), MESSAGES[verdict] ?? `The commit breaks a rule: ${verdict}.`)
}

const MESSAGES: Partial<Record<Violation, string>> = {
  encryption_key_used: 'The KeyPackage was already used. Use a new one, unless the agent was already added with it.',
  identity_twice: 'A member with this identity but another key is in the channel. Remove that member first.',
  signature_key_twice: 'An agent to be added is already a member of the channel, or is named twice.',
  group_full: `The channel would have more than ${MAX_MEMBERS} members. Remove a member, or create another channel.`,
  last_epoch: `The keys of the channel can no longer be changed, after ${MAX_NUMBER} epochs. Create another channel.`,
  removes_owner: 'The owner cannot be removed from its channel.',
  removes_itself: 'An agent cannot remove itself. Leave the channel instead.',
  removes_without_right: 'Only the owner can remove a member that has not left. Ask the owner to remove it.',
  ownership_without_right:
    'This agent may not change who owns the channel: only the owner names a standby, and only the standby takes over.',
  standby_not_member: 'The standby must be a member of the channel. Add it first.',
  standby_not_cleared: 'The standby of the channel cannot be replaced in one step. Remove it, then add it again.',
  context_invalid: 'The standby must be another agent than the owner.',
  leave_notice_invalid: 'A leave notice is not signed by the member it names, or not for its current leaf.',
}

function codeOf(violation: Violation): ErrorCode {
  switch (violation) {
    case 'group_full':
      return 'group_full'
    case 'removes_owner':
    case 'removes_itself':
    case 'removes_without_right':
    case 'ownership_without_right':
    case 'leave_notice_invalid':
      return 'not_allowed'
    default:
      return 'invalid_request'
  }
}
