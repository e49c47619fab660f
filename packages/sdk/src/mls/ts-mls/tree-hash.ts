/**
 * Tree hashes and parent hashes (RFC 9420, sections 7.8 and 7.9), with which a joiner verifies that every parent node
 * was made by a member below it. Unlike the library, which recomputes them, this caches the hash of each subtree.
 */
import type { Node, RatchetTree } from 'ts-mls'
import { encodeParentHashInput } from 'ts-mls/parentHash.js'
import { resolution } from 'ts-mls/ratchetTree.js'
import { encodeLeafNodeHashInput, encodeParentNodeHashInput } from 'ts-mls/treeHash.js'
import { isLeaf, left, type NodeIndex, right, rootFromNodeWidth, toLeafIndex, toNodeIndex } from 'ts-mls/treemath.js'
import { sameBytes } from '#platform/crypto'
import { sha256 } from '../hash.ts'

const NOBODY: ReadonlySet<number> = new Set()

/** The hashes of one tree. */
export class TreeHashes {
  readonly #tree: RatchetTree
  readonly #known = new Map<NodeIndex, Uint8Array>()

  constructor(tree: RatchetTree) {
    this.#tree = tree
  }

  /** The hash of the whole tree. */
  get root(): Uint8Array {
    return this.of(rootFromNodeWidth(this.#tree.length))
  }

  /** The hash of the subtree below a node. */
  of(index: NodeIndex): Uint8Array {
    return this.#hash(index, NOBODY)
  }

  /** Whether each parent node that is not blank was made by exactly one node below it (section 7.9.2). */
  areParentsValid(): boolean {
    return this.#tree.every((node, at) => {
      if (node?.nodeType !== 'parent') return true
      const index = toNodeIndex(at)
      const [one, other] = [left(index), right(index)]
      return this.#makers(node, one, other) + this.#makers(node, other, one) === 1
    })
  }

  /** Counts the nodes below `child` whose parent hash matches the parent; `sibling` is the other child. */
  #makers(parent: Node & { nodeType: 'parent' }, child: NodeIndex, sibling: NodeIndex): number {
    const { hpkePublicKey, parentHash, unmergedLeaves } = parent.parent
    const below = resolution(this.#tree, child)
    const unmerged = new Set(unmergedLeaves.map((leaf) => toNodeIndex(2 * leaf)))
    const makers = below.filter((index) => !unmerged.has(index))
    const [maker] = makers
    // All except the maker were added later: they are the unmerged leaves on this side.
    const later = [...unmerged].filter((index) => isBelow(index, child)).length
    if (maker === undefined || makers.length !== 1 || later !== below.length - 1) return 0
    const claim = parentHashOf(this.#tree[maker])
    if (claim === undefined) return 0
    const originalSiblingTreeHash = this.#hash(sibling, new Set(unmergedLeaves))
    const input = encodeParentHashInput({ encryptionKey: hpkePublicKey, parentHash, originalSiblingTreeHash })
    return sameBytes(sha256(input), claim) ? 1 : 0
  }

  /** The hash of a subtree with these leaves left out. */
  #hash(index: NodeIndex, without: ReadonlySet<number>): Uint8Array {
    const touched = [...without].some((leaf) => isBelow(toNodeIndex(2 * leaf), index))
    const known = touched ? undefined : this.#known.get(index)
    if (known !== undefined) return known
    const hash = sha256(this.#input(index, touched ? without : NOBODY))
    if (!touched) this.#known.set(index, hash)
    return hash
  }

  #input(index: NodeIndex, without: ReadonlySet<number>): Uint8Array {
    const node = this.#tree[index]
    if (isLeaf(index)) {
      const leafIndex = toLeafIndex(index / 2)
      const leafNode = node?.nodeType === 'leaf' && !without.has(leafIndex) ? node.leaf : undefined
      return encodeLeafNodeHashInput({ nodeType: 'leaf', leafIndex, leafNode })
    }
    const parent = node?.nodeType === 'parent' ? node.parent : undefined
    const unmergedLeaves = parent?.unmergedLeaves.filter((leaf) => !without.has(leaf)) ?? []
    return encodeParentNodeHashInput({
      nodeType: 'parent',
      parentNode: parent && { ...parent, unmergedLeaves },
      leftHash: this.#hash(left(index), without),
      rightHash: this.#hash(right(index), without),
    })
  }
}

function parentHashOf(node: Node | undefined): Uint8Array | undefined {
  if (node?.nodeType === 'parent') return node.parent.parentHash
  return node?.leaf.leafNodeSource === 'commit' ? node.leaf.parentHash : undefined
}

/** Whether a node is in a subtree, root included: a subtree is a contiguous range of indices around its root. */
function isBelow(index: NodeIndex, root: NodeIndex): boolean {
  const half = (~root & (root + 1)) - 1
  return index >= root - half && index <= root + half
}
