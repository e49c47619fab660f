/**
 * Is a tree that came with a Welcome sound (RFC 9420, sections 7.3, 7.9 and 12.4.3.1)? The library's own check is too
 * strict: it wants all nodes above an unmerged leaf to list the same leaves, so ordinary groups, in which members were
 * added at different times, could not be joined. It cannot show that the leaves are who they say they are.
 */
import type { GroupContext, LeafNode, RatchetTree } from 'ts-mls'
import { verifyLeafNodeSignature, verifyLeafNodeSignatureKeyPackage } from 'ts-mls/leafNode.js'
import { getHpkePublicKey } from 'ts-mls/ratchetTree.js'
import { directPath, isLeaf, leafToNodeIndex, leafWidth, toLeafIndex, toNodeIndex } from 'ts-mls/treemath.js'
import { equal, keyOf } from '../bytes.ts'
import type { Crypto } from '../key-package.ts'
import { isEncryptionKey } from '../x25519.ts'
import { TreeHashes } from './tree-hash.ts'
import { isAble, leavesOf } from './view.ts'

/** What is wrong with a tree; undefined when nothing is. */
export async function faultOf(crypto: Crypto, tree: RatchetTree, context: GroupContext): Promise<string | undefined> {
  const nodes = tree.filter((node) => node !== undefined)
  const misplaced = tree.some((node, at) => node && (node.nodeType === 'leaf') !== isLeaf(toNodeIndex(at)))
  if (misplaced) return 'The tree is not built as one.'
  const keys = nodes.map(getHpkePublicKey)
  if (!keys.every(isEncryptionKey)) return 'The tree holds keys that nobody can use.'
  if (twice(keys)) return 'The tree holds a key twice.'
  const leaves = leavesOf(tree)
  if (twice(leaves.map(({ node }) => node.signaturePublicKey))) return 'Two members share a signature key.'
  for (const { leaf, node } of leaves) {
    if (!isAble(node, context)) return 'A member cannot do what a channel needs.'
    if (!(await isSigned(crypto, node, leaf, context.groupId))) return 'A member has not signed its leaf.'
  }
  if (!isMerged(tree)) return 'The tree lists leaves that were not merged wrongly.'
  const hashes = new TreeHashes(tree)
  if (!equal(hashes.root, context.treeHash)) return 'The tree is not the one of the group.'
  if (!hashes.areParentsValid()) return 'The tree was not made by its members.'
  return undefined
}

async function isSigned({ provider }: Crypto, node: LeafNode, leaf: number, groupId: Uint8Array): Promise<boolean> {
  // An Update proposal, the third source, is never committed in a channel.
  if (node.leafNodeSource === 'key_package') return verifyLeafNodeSignatureKeyPackage(node, provider.signature)
  return node.leafNodeSource === 'commit' && verifyLeafNodeSignature(node, groupId, leaf, provider.signature)
}

/** Each leaf that a node lists is below it, not blank, and listed by all nodes between that are not blank. */
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
  return new Set(values.map(keyOf)).size !== values.length
}
