/**
 * Size limits for the parts of a group (SPEC.md, 4.4). Every member applies the same limits to the decoded parts,
 * before it re-encodes any: the library encodes a list with one nested call per item, so without limits one leaf with
 * thousands of capabilities would overflow the stack of some members but not of others, and split the group.
 */
import type { Capabilities, Extension, GroupInfo, KeyPackage, LeafNode, Proposal, RatchetTree } from 'ts-mls'
import { encodeKeyPackage } from 'ts-mls/keyPackage.js'
import { encodeLeafNode } from 'ts-mls/leafNode.js'
import type { Commit } from 'ts-mls/commit.js'
import { MAX_KEY_PACKAGE_BYTES, MAX_MEMBERS } from '@static/protocol'

/** Entries of each capability list, and extensions of a leaf, a KeyPackage or a group. OpenMLS's defaults are lower. */
export const MAX_LIST = 32
/** The size of an encoded leaf. This SDK's leaves take about 200 bytes. */
const MAX_LEAF_BYTES = MAX_KEY_PACKAGE_BYTES
/** Adds fill blank leaves first, so the tree of the largest channel has 256 leaves. */
const MAX_LEAVES = 256
const MAX_NODES = 2 * MAX_LEAVES - 1
/** The path from a leaf to the root of that tree. */
const MAX_PATH_NODES = Math.log2(MAX_LEAVES)

/** Whether a commit's lists are within bounds. */
export function isCommitBounded({ proposals, path }: Commit): boolean {
  let adds = 0
  let removes = 0
  let others = 0
  for (const item of proposals) {
    if (item.proposalOrRefType !== 'proposal') others++
    else {
      if ('add' in item.proposal) adds++
      else if ('remove' in item.proposal) removes++
      else others++
      if (!isProposalBounded(item.proposal)) return false
    }
  }
  if (adds > MAX_MEMBERS || removes > MAX_MEMBERS || others > MAX_LIST) return false
  if (path === undefined) return true
  return (
    isLeafBounded(path.leafNode) &&
    path.nodes.length <= MAX_PATH_NODES &&
    path.nodes.every(({ encryptedPathSecret }) => encryptedPathSecret.length <= MAX_LEAVES)
  )
}

function isProposalBounded(proposal: Proposal): boolean {
  if ('add' in proposal) return isKeyPackageBounded(proposal.add.keyPackage)
  if ('update' in proposal) return isLeafBounded(proposal.update.leafNode)
  if ('reinit' in proposal) return isShort(proposal.reinit.extensions)
  if ('groupContextExtensions' in proposal) return isShort(proposal.groupContextExtensions.extensions)
  return true
}

/** Whether a KeyPackage and its leaf are within bounds. */
export function isKeyPackageBounded(keyPackage: KeyPackage): boolean {
  return (
    isShort(keyPackage.extensions) &&
    isLeafBounded(keyPackage.leafNode) &&
    encodeKeyPackage(keyPackage).length <= MAX_KEY_PACKAGE_BYTES
  )
}

/** Whether a GroupInfo's extensions are few enough. */
export function isGroupInfoBounded({ groupContext, extensions }: GroupInfo): boolean {
  return isShort(groupContext.extensions) && isShort(extensions)
}

/** Whether a tree and each of its nodes are within bounds. */
export function isTreeBounded(tree: RatchetTree): boolean {
  if (tree.length > MAX_NODES) return false
  return tree.every((node) => {
    if (node === undefined) return true
    return node.nodeType === 'leaf' ? isLeafBounded(node.leaf) : node.parent.unmergedLeaves.length <= MAX_LEAVES
  })
}

function isLeafBounded(leaf: LeafNode): boolean {
  return (
    isShort(leaf.extensions) && areCapabilitiesShort(leaf.capabilities) && encodeLeafNode(leaf).length <= MAX_LEAF_BYTES
  )
}

function areCapabilitiesShort({ versions, ciphersuites, extensions, proposals, credentials }: Capabilities): boolean {
  return [versions, ciphersuites, extensions, proposals, credentials].every(({ length }) => length <= MAX_LIST)
}

function isShort(extensions: readonly Extension[]): boolean {
  return extensions.length <= MAX_LIST
}
