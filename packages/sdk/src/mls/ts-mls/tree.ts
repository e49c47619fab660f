/**
 * Checks the tree of a Welcome (RFC 9420, sections 7.3, 7.9 and 12.4.3.1). The library's own check is too strict: it
 * requires all nodes above an unmerged leaf to list the same leaves, so agents could not join ordinary groups whose
 * members were added at different times. The check cannot show that the leaves are who they claim to be.
 */
import type { GroupContext, LeafNode, RatchetTree } from 'ts-mls'
import { verifyLeafNodeSignature, verifyLeafNodeSignatureKeyPackage } from 'ts-mls/leafNode.js'
import { getHpkePublicKey } from 'ts-mls/ratchetTree.js'
import { directPath, isLeaf, leafToNodeIndex, leafWidth, toLeafIndex, toNodeIndex } from 'ts-mls/treemath.js'
import { sameBytes } from '#platform/crypto'
import { latin1 } from '../../platform/bytes.ts'
import { isEncryptionKey } from '../x25519.ts'
import type { MlsCrypto } from './key-package.ts'
import { TreeHashes } from './tree-hash.ts'
import { leavesOf, missingCapability, neededExtensions } from './view.ts'

/** The fault of a tree; undefined if it has none. */
export async function faultOf(
  crypto: MlsCrypto,
  tree: RatchetTree,
  context: GroupContext,
): Promise<string | undefined> {
  const nodes = tree.filter((node) => node !== undefined)
  const misplaced = tree.some((node, at) => node && (node.nodeType === 'leaf') !== isLeaf(toNodeIndex(at)))
  if (misplaced) return 'The tree is malformed: a leaf is in the place of a parent node, or the reverse.'
  const keys = nodes.map(getHpkePublicKey)
  if (!keys.every(isEncryptionKey)) return 'The tree contains an encryption key that is not a usable X25519 key.'
  if (twice(keys)) return 'The tree contains an encryption key twice.'
  const leaves = leavesOf(tree)
  const required = { ...context, extensions: neededExtensions(context) }
  if (twice(leaves.map(({ node }) => node.signaturePublicKey))) return 'Two members share a signature key.'
  for (const { leaf, node } of leaves) {
    const missing = missingCapability(node, required)
    if (missing !== undefined) return `A member cannot be in a channel: leaf ${leaf} ${missing}.`
    if (!(await isSigned(crypto, node, leaf, context.groupId))) return `Leaf ${leaf} is not signed by its member.`
  }
  if (!isMerged(tree)) return 'The tree lists the wrong unmerged leaves.'
  const hashes = new TreeHashes(tree)
  if (!sameBytes(hashes.root, context.treeHash))
    return 'The tree is not the one of the group: its hash differs from the tree hash in the GroupContext.'
  if (!hashes.areParentsValid()) return 'The tree was not made by its members: the hash of a parent node is wrong.'
  return undefined
}

async function isSigned({ provider }: MlsCrypto, node: LeafNode, leaf: number, groupId: Uint8Array): Promise<boolean> {
  // The third source, an Update proposal, is never committed in a channel.
  if (node.leafNodeSource === 'key_package') return verifyLeafNodeSignatureKeyPackage(node, provider.signature)
  return node.leafNodeSource === 'commit' && verifyLeafNodeSignature(node, groupId, leaf, provider.signature)
}

/** Each leaf listed by a node is below it and not blank, and every non-blank node in between lists it as well. */
function isMerged(tree: RatchetTree): boolean {
  const width = leafWidth(tree.length)
  return tree.every((node, at) => {
    if (node?.nodeType !== 'parent') return true
    return node.parent.unmergedLeaves.every((unmerged) => {
      const leaf = leafToNodeIndex(toLeafIndex(unmerged))
      if (tree[leaf] === undefined) return false
      const above = directPath(leaf, width)
      const between = above.slice(0, above.indexOf(toNodeIndex(at)))
      return (
        above.includes(toNodeIndex(at)) &&
        between.every((index) => {
          const other = tree[index]
          return other === undefined || (other.nodeType === 'parent' && other.parent.unmergedLeaves.includes(unmerged))
        })
      )
    })
  })
}

function twice(values: readonly Uint8Array[]): boolean {
  return new Set(values.map(latin1)).size !== values.length
}
