import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { GroupContext } from 'ts-mls'
import { decodeRatchetTree, resolution } from 'ts-mls/ratchetTree.js'
import { toNodeIndex } from 'ts-mls/treemath.js'
import { isTreeBounded } from '../../src/mls/ts-mls/bounds.ts'
import { faultOf } from '../../src/mls/ts-mls/tree.ts'
import { TreeHashes } from '../../src/mls/ts-mls/tree-hash.ts'
import { hex } from '../mls/support.ts'
import { bytesOf, cryptoOf, decodeAll, type OfSuite, readVectors } from './support.ts'

interface TreeVector extends OfSuite {
  readonly tree: string
  readonly group_id: string
  readonly tree_hashes: readonly string[]
  readonly resolutions: readonly (readonly number[])[]
}

for (const [at, vector] of (readVectors('tree-validation') as readonly TreeVector[]).entries()) {
  test(`tree ${at}, suite ${vector.cipher_suite}, ${vector.tree_hashes.length} nodes: its hashes, and no fault`, async () => {
    const crypto = cryptoOf(vector)
    const tree = decodeAll(decodeRatchetTree, vector.tree)
    const hashes = new TreeHashes(tree)
    for (const [index, hash] of vector.tree_hashes.entries()) {
      assert.equal(hex(hashes.of(toNodeIndex(index))), hash)
      assert.deepEqual(resolution(tree, toNodeIndex(index)), vector.resolutions[index])
    }
    assert.equal(hex(hashes.root), vector.tree_hashes[vector.tree_hashes.length >>> 1])
    assert.ok(hashes.areParentsValid())
    assert.ok(isTreeBounded(tree))
    const context: GroupContext = {
      version: 'mls10',
      cipherSuite: crypto.suite.name,
      groupId: bytesOf(vector.group_id),
      epoch: 0n,
      treeHash: hashes.root,
      confirmedTranscriptHash: new Uint8Array(),
      extensions: [],
    }
    assert.equal(await faultOf(crypto, tree, context), undefined)
    const treeHash = bytesOf(vector.tree_hashes[0] ?? '')
    assert.match((await faultOf(crypto, tree, { ...context, treeHash })) ?? '', /not the one of the group/)
  })
}
