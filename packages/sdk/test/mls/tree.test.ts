import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { before, test } from 'node:test'
import type { GroupContext, Node, RatchetTree } from 'ts-mls'
import { verifyParentHashes } from 'ts-mls/parentHash.js'
import { treeHashRoot } from 'ts-mls/treeHash.js'
import { inside } from '../../src/mls/ts-mls/state.ts'
import { faultOf } from '../../src/mls/ts-mls/tree.ts'
import { TreeHashes } from '../../src/mls/ts-mls/tree-hash.ts'
import { crypto } from './attacker.ts'
import { Agent, addAll, channelOf, hex } from './support.ts'

let tree: RatchetTree
let context: GroupContext

/** Seven members, all parents made by commits, then an eighth whose leaf the nodes above it list as unmerged. */
before(async () => {
  const { agents } = await channelOf('owner', 'a', 'b', 'c', 'd', 'e', 'f')
  for (const sender of agents) {
    const pending = await sender.commit()
    sender.adopt(pending)
    for (const other of agents) if (other !== sender) await other.take(sender, pending)
  }
  const [owner, ...others] = agents as [Agent, ...Agent[]]
  await addAll(owner, [new Agent('g')], others)
  const { ratchetTree, groupContext } = inside(owner.group).state
  ;[tree, context] = [ratchetTree, groupContext]
})

/** The tree with one node changed, and the hash that a lying adder would give with it. */
async function fault(at: number, change: (node: Node) => Node | undefined): Promise<string | undefined> {
  const node = tree[at]
  assert.ok(node)
  const changed = tree.with(at, change(node))
  const treeHash = await treeHashRoot(changed, crypto.provider.hash)
  return faultOf(crypto, changed, { ...context, treeHash })
}

const parent =
  (change: object) =>
  (node: Node): Node => {
    assert.ok(node.nodeType === 'parent')
    return { nodeType: 'parent', parent: { ...node.parent, ...change } }
  }
const leaf =
  (change: object) =>
  (node: Node): Node => {
    assert.ok(node.nodeType === 'leaf')
    return { nodeType: 'leaf', leaf: { ...node.leaf, ...change } }
  }

test('a valid tree has no fault, and its hashes match the library', async () => {
  assert.equal(await faultOf(crypto, tree, context), undefined)
  const hashes = new TreeHashes(tree)
  assert.equal(hex(hashes.root), hex(await treeHashRoot(tree, crypto.provider.hash)))
  assert.equal(hashes.areParentsValid(), await verifyParentHashes(tree, crypto.provider.hash))
  assert.deepEqual(tree[11]?.nodeType === 'parent' && tree[11].parent.unmergedLeaves, [7])
})

test('changes an adder must not make to a tree', async () => {
  const madeUp = /not made by its members/
  assert.match((await fault(11, parent({ hpkePublicKey: randomBytes(32) })))!, madeUp)
  assert.match((await fault(3, parent({ parentHash: randomBytes(32) })))!, madeUp)
  assert.match((await fault(11, parent({ unmergedLeaves: [] })))!, /listed|lists|made/)
  assert.match((await fault(3, parent({ unmergedLeaves: [1] })))!, /lists/)
  assert.match((await fault(3, parent({ unmergedLeaves: [7] })))!, /lists/)
  assert.match((await fault(11, parent({ hpkePublicKey: new Uint8Array(32) })))!, /not a usable X25519 key/)
  const first = tree[0]
  assert.ok(first?.nodeType === 'leaf')
  assert.match((await fault(4, leaf({ hpkePublicKey: first.leaf.hpkePublicKey })))!, /key twice/)
  assert.match((await fault(4, leaf({ signaturePublicKey: first.leaf.signaturePublicKey })))!, /share a signature/)
  assert.match((await fault(4, leaf({ signature: randomBytes(64) })))!, /not signed/)
  assert.match((await fault(4, () => first))!, /twice/)
  const basic = tree[4]
  assert.ok(basic?.nodeType === 'leaf')
  const { capabilities } = basic.leaf
  assert.match(
    (await fault(4, leaf({ capabilities: { ...capabilities, extensions: [] } })))!,
    /leaf 2 does not support/,
  )
  assert.match((await faultOf(crypto, tree.with(3, first), context))!, /malformed/)
  assert.match((await faultOf(crypto, tree, { ...context, treeHash: randomBytes(32) }))!, /not the one/)
})
