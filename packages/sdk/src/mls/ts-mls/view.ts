/** Converts the library's trees and commits to the types of engine.ts and commit-rules.ts. */
import type { ClientState, Extension, GroupContext, LeafNode, RatchetTree } from 'ts-mls'
import { decodeRequiredCapabilities, encodeRequiredCapabilities } from 'ts-mls/requiredCapabilities.js'
import type { Commit } from 'ts-mls/commit.js'
import { sameBytes } from '#platform/crypto'
import { StaticError } from '@static/protocol'
import type { RuleCommit, RuleGroup, RuleLeaf, RuleProposal } from '../commit-rules.ts'
import { type ChannelContext, CONTEXT_TYPE, decodeContext, encodeContext } from '../channel-context.ts'
import { agentIdOf, isFounder } from '../credential.ts'
import type { Member } from '../engine.ts'
import { findSealKey } from '../seal-key.ts'
import { CHANNEL_EXTENSIONS } from './config.ts'

/** A leaf as the rules see it. */
export function ruleLeaf(node: LeafNode, context: GroupContext): Omit<RuleLeaf, 'leaf'> {
  const required = { ...context, extensions: neededExtensions(context) }
  return { ...keysOf(node), able: missingCapability(node, required) === undefined }
}

function keysOf({
  credential,
  signaturePublicKey,
  hpkePublicKey,
}: LeafNode): Pick<RuleLeaf, 'identity' | 'signatureKey' | 'encryptionKey'> {
  const identity = credential.credentialType === 'basic' ? credential.identity : undefined
  return { identity, signatureKey: signaturePublicKey, encryptionKey: hpkePublicKey }
}

/** The capabilities that every leaf of a group must support. */
export interface RequiredCapabilities extends Pick<GroupContext, 'version' | 'cipherSuite'> {
  /** Extensions of private types. */
  readonly extensions: readonly number[]
}

/**
 * The capability that a leaf lacks, phrased to follow "it" in a message; undefined if it lacks none. A leaf must have
 * no extensions, because the other members support none.
 */
export function missingCapability(leaf: LeafNode, required: RequiredCapabilities): string | undefined {
  const { capabilities, credential, extensions } = leaf
  const { version, cipherSuite } = required
  if (credential.credentialType !== 'basic') return 'does not have a basic credential'
  if (!capabilities.credentials.includes('basic')) return 'does not support basic credentials'
  if (!capabilities.versions.includes(version)) return `does not support version ${version}`
  if (!capabilities.ciphersuites.includes(cipherSuite)) return `does not support suite ${cipherSuite}`
  const missing = required.extensions.find((type) => !capabilities.extensions.includes(type))
  if (missing !== undefined) return `does not support extension 0x${missing.toString(16)}`
  if (extensions.length > 0) return `has ${extensions.length} leaf extensions and must have none`
  return undefined
}

/** A group as the rules see it. */
export function ruleGroup({ groupContext, ratchetTree }: ClientState): RuleGroup {
  return {
    groupId: groupContext.groupId,
    epoch: groupContext.epoch,
    context: findContext(groupContext.extensions),
    leaves: leavesOf(ratchetTree).map(({ leaf, node }) => ({ leaf, ...ruleLeaf(node, groupContext) })),
    parentKeys: ratchetTree.flatMap((node) => (node?.nodeType === 'parent' ? [node.parent.hpkePublicKey] : [])),
  }
}

/** A commit as the rules see it. */
export function ruleCommit(sender: number, { proposals, path }: Commit, context: GroupContext): RuleCommit {
  return {
    sender,
    proposals: proposals.map((item): RuleProposal => {
      if (item.proposalOrRefType !== 'proposal') return { kind: 'other' }
      const { proposal } = item
      if ('add' in proposal) {
        const { leafNode, extensions } = proposal.add.keyPackage
        return { kind: 'add', ...ruleLeaf(leafNode, context), sealable: findSealKey(extensions) !== undefined }
      }
      if ('remove' in proposal) return { kind: 'remove', leaf: proposal.remove.removed }
      if ('psk' in proposal) return { kind: 'psk', external: proposal.psk.preSharedKeyId.psktype === 'external' }
      if ('groupContextExtensions' in proposal)
        return { kind: 'context', context: findContext(proposal.groupContextExtensions.extensions) }
      return { kind: 'other' }
    }),
    path: path && {
      ...ruleLeaf(path.leafNode, context),
      nodeKeys: path.nodes.map(({ hpkePublicKey }) => hpkePublicKey),
    },
  }
}

/** The leaves that are not blank. */
export function leavesOf(tree: RatchetTree): { readonly leaf: number; readonly node: LeafNode }[] {
  return tree.flatMap((node, at) => (node?.nodeType === 'leaf' ? [{ leaf: at / 2, node: node.leaf }] : []))
}

/** A leaf as a member, without its position in the tree. */
export function personOf({
  identity = new Uint8Array(),
  signatureKey,
  encryptionKey,
}: Pick<RuleLeaf, 'identity' | 'signatureKey' | 'encryptionKey'>): Omit<Member, 'leaf'> {
  return { identity, signatureKey, encryptionKey, agentId: agentIdOf(signatureKey), founder: isFounder(identity) }
}

const members = new WeakMap<RatchetTree, readonly Member[]>()

/** The members in a tree. Trees are immutable values, so the list is computed once per tree. */
export function membersOf(tree: RatchetTree): readonly Member[] {
  let known = members.get(tree)
  if (known === undefined) {
    known = leavesOf(tree).map(({ leaf, node }) => ({ leaf, ...personOf(keysOf(node)), ...makingOf(node) }))
    members.set(tree, known)
  }
  return known
}

function makingOf(node: LeafNode): Pick<Member, 'madeAt'> {
  return node.leafNodeSource === 'key_package' ? { madeAt: node.lifetime.notBefore } : {}
}

/**
 * Whether a member has committed in the group: only then does its leaf carry a signature over the group id. A leaf from
 * a KeyPackage does not show that the member knows of the group.
 */
export function isConfirmed(tree: RatchetTree, { leaf }: Pick<Member, 'leaf'>): boolean {
  const node = tree[2 * leaf]
  return node?.nodeType === 'leaf' && node.leaf.leafNodeSource === 'commit'
}

const REQUIRED = encodeRequiredCapabilities({
  extensionTypes: [...CHANNEL_EXTENSIONS],
  proposalTypes: [],
  credentialTypes: ['basic'],
})

/** The extensions of a channel's GroupContext. */
export function contextExtensions(context: ChannelContext): Extension[] {
  return [
    { extensionType: 'required_capabilities', extensionData: REQUIRED },
    { extensionType: CONTEXT_TYPE, extensionData: encodeContext(context) },
  ]
}

/** The channel a GroupContext names; undefined unless its extensions are exactly those of a channel. */
export function findContext(extensions: readonly Extension[]): ChannelContext | undefined {
  const [required, context] = extensions
  if (extensions.length !== 2 || required?.extensionType !== 'required_capabilities') return undefined
  if (!sameBytes(required.extensionData, REQUIRED) || context?.extensionType !== CONTEXT_TYPE) return undefined
  return decodeContext(context.extensionData)
}

/** The channel of a group whose context was checked when it was created or joined. */
export function contextOf({ groupContext }: ClientState): ChannelContext {
  const context = findContext(groupContext.extensions)
  if (context === undefined) throw StaticError.of('mls_error', 'The GroupContext does not name a channel.')
  return context
}

/** The extensions of private types that every leaf of this group must support: those that it has or requires. */
export function neededExtensions({ extensions }: GroupContext): number[] {
  const needed = extensions.flatMap(({ extensionType, extensionData }) => {
    if (extensionType !== 'required_capabilities') return extensionType
    return decodeRequiredCapabilities(extensionData, 0)?.[0].extensionTypes ?? []
  })
  return [...new Set(needed)].filter((type) => typeof type === 'number')
}
