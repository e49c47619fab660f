import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Proposal, RatchetTree } from 'ts-mls'
import { decodeProposal } from 'ts-mls/proposal.js'
import {
  addLeafNode,
  decodeRatchetTree,
  encodeRatchetTree,
  removeLeafNode,
  updateLeafNode,
} from 'ts-mls/ratchetTree.js'
import { toLeafIndex } from 'ts-mls/treemath.js'
import { TreeHashes } from '../../src/mls/ts-mls/tree-hash.ts'
import { hex } from '../mls/support.ts'
import { decodeAll, type OfSuite, readVectors } from './support.ts'

interface Operation extends OfSuite {
  readonly proposal: string
  readonly proposal_sender: number
  readonly tree_before: string
  readonly tree_hash_before: string
  readonly tree_after: string
  readonly tree_hash_after: string
}

function apply(tree: RatchetTree, proposal: Proposal, sender: number): RatchetTree {
  if ('add' in proposal) return addLeafNode(tree, proposal.add.keyPackage.leafNode)[0]
  if ('update' in proposal) return updateLeafNode(tree, proposal.update.leafNode, toLeafIndex(sender))
  assert.ok('remove' in proposal)
  return removeLeafNode(tree, toLeafIndex(proposal.remove.removed))
}

for (const [at, vector] of (readVectors('tree-operations') as readonly Operation[]).entries()) {
  const proposal = decodeAll(decodeProposal, vector.proposal)

  test(`operation ${at}, ${proposal.proposalType}: the tree and its hash, before and after`, () => {
    const before = decodeAll(decodeRatchetTree, vector.tree_before)
    assert.equal(hex(new TreeHashes(before).root), vector.tree_hash_before)
    const after = apply(before, proposal, vector.proposal_sender)
    assert.equal(hex(encodeRatchetTree(after)), vector.tree_after)
    assert.equal(hex(new TreeHashes(after).root), vector.tree_hash_after)
  })
}
