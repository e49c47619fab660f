import assert from 'node:assert/strict'
import { test } from 'node:test'
import { left, type NodeIndex, nodeWidth, parent, right, root, sibling, toNodeIndex } from 'ts-mls/treemath.js'
import { readVectors } from './support.ts'

interface TreeMath {
  readonly n_leaves: number
  readonly n_nodes: number
  readonly root: number
  readonly left: readonly (number | null)[]
  readonly right: readonly (number | null)[]
  readonly parent: readonly (number | null)[]
  readonly sibling: readonly (number | null)[]
}

/** The result where the tree has such a node. */
function ifAny(step: (node: NodeIndex) => number, node: NodeIndex): number | null {
  try {
    return step(node)
  } catch {
    return null
  }
}

test('the nodes around a node', () => {
  for (const vector of readVectors('tree-math') as readonly TreeMath[]) {
    const { n_leaves: leaves } = vector
    assert.equal(nodeWidth(leaves), vector.n_nodes)
    assert.equal(root(leaves), vector.root)
    for (let at = 0; at < vector.n_nodes; at++) {
      const node = toNodeIndex(at)
      assert.equal(ifAny(left, node), vector.left[at])
      assert.equal(ifAny(right, node), vector.right[at])
      assert.equal(
        ifAny((index) => parent(index, leaves), node),
        vector.parent[at],
      )
      assert.equal(
        ifAny((index) => sibling(index, leaves), node),
        vector.sibling[at],
      )
    }
  }
})
