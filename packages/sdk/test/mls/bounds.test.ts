import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createCommit, encodeGroupState, type LeafNode, type Proposal } from 'ts-mls'
import type { Commit } from 'ts-mls/commit.js'
import type { DeclarationFields } from '@static/protocol'
import fc from 'fast-check'
import { generateSignatureKeyPair } from '@static/node/ed25519'
import { capabilitiesOf } from '../../src/mls/ts-mls/config.ts'
import { decodeState, encodeState } from '../../src/mls/ts-mls/group-codec.ts'
import { makeKeyPackage } from '../../src/mls/ts-mls/key-package.ts'
import { decodeMessage, encodeKeyPackage } from '../../src/mls/ts-mls/message.ts'
import { inside } from '../../src/mls/ts-mls/state.ts'
import { crypto } from './attacker.ts'
import { add, bare, remove, withLeaf } from './forbidden-commits.ts'
import { reshaped } from './forgery.ts'
import { sealedFor } from './sealing.ts'
import { Agent, channelOf, text } from './support.ts'

const NOTHING: DeclarationFields = { adds: [], removes: [], leaveNotices: [], vouches: [] }
const { provider, suite } = crypto
const OURS = capabilitiesOf(suite)

/** The channel's own extensions and so many unknown ones, GREASE values among them. */
function extensionTypes(count: number): number[] {
  const others = Array.from({ length: count - OURS.extensions.length }, (_, at) =>
    at % 2 ? 0xff00 + (at % 256) : 0x0a0a,
  )
  return [...OURS.extensions, ...others]
}

function claiming(count: number): { capabilities: LeafNode['capabilities'] } {
  return { capabilities: { ...OURS, extensions: extensionTypes(count) } }
}

for (const count of [33, 3000]) {
  test(`a commit whose leaf lists ${count} extension types is refused by every member, and the channel continues`, async () => {
    const { agents } = await channelOf('owner', 'ann', 'bob')
    const [owner, ann, bob] = agents as [Agent, Agent, Agent]
    const commit = await bare(ann, [], { state: withLeaf(ann, claiming(count)) })
    for (const member of [owner, bob]) {
      assert.deepEqual(await member.judge(commit, NOTHING, ann.agentId), {
        kind: 'rejected',
        reason: 'out_of_bounds',
        sender: undefined,
      })
      member.restart()
    }
    assert.equal(bob.read(owner.send('still here')), 'still here')
  })
}

test('a leaf may list 32 extension types that no other member knows', async () => {
  const { agents } = await channelOf('owner', 'ann')
  const [owner, ann] = agents as [Agent, Agent]
  const commit = await bare(ann, [], { state: withLeaf(ann, claiming(32)) })
  assert.equal((await owner.judge(commit, NOTHING, ann.agentId)).kind, 'accepted')
})

test('a commit with more Adds, Removes, path nodes or path secrets than a group can have is refused', async () => {
  const { agents } = await channelOf('owner', 'ann', 'bob')
  const [owner, ann, bob] = agents as [Agent, Agent, Agent]
  const removes: Proposal[] = Array.from({ length: 251 }, () => remove(ann, bob))
  const [adding] = await add('cid')
  const adds: Proposal[] = Array.from({ length: 251 }, () => adding)
  for (const proposals of [removes, adds]) {
    const commit = await forge(ann, (content) => ({ ...content, proposals: proposals.map(byValue) }))
    assert.deepEqual(await owner.judge(commit, NOTHING, ann.agentId), {
      kind: 'rejected',
      reason: 'out_of_bounds',
      sender: undefined,
    })
  }
  const secrets = await forge(ann, (content) => ({
    ...content,
    path: content.path && {
      ...content.path,
      nodes: content.path.nodes.map((node) => ({
        ...node,
        encryptedPathSecret: Array.from({ length: 257 }, () => node.encryptedPathSecret[0]!),
      })),
    },
  }))
  const nodes = await forge(ann, (content) => ({
    ...content,
    path: content.path && { ...content.path, nodes: Array.from({ length: 9 }, () => content.path!.nodes[0]!) },
  }))
  for (const commit of [secrets, nodes]) {
    assert.deepEqual(await owner.judge(commit, NOTHING, ann.agentId), {
      kind: 'rejected',
      reason: 'out_of_bounds',
      sender: undefined,
    })
  }
})

test('a KeyPackage that lists 33 extension types is refused by the member that would add it', async () => {
  const { agents } = await channelOf('owner', 'ann')
  const [owner] = agents as [Agent]
  const made = await makeKeyPackage(crypto, text('cid'), generateSignatureKeyPair(), Date.now())
  const leafNode = { ...made.publicPackage.leafNode, ...claiming(33) }
  const keyPackage = encodeKeyPackage({ ...made.publicPackage, leafNode })
  await assert.rejects(owner.commit({ adds: [keyPackage] }), { code: 'invalid_request', message: /more than 32/ })
})

test('a Welcome into a tree with such a leaf is refused by the joiner', async () => {
  const { agents } = await channelOf('owner', 'ann')
  const [, ann] = agents as [Agent, Agent]
  const cid = new Agent('cid')
  const own = await cid.keyPackage()
  const state = { ...inside(ann.group).state, ...withLeaf(ann, claiming(33)) }
  const { keyPackage } = decodeMessage('mls_key_package', own.keyPackage)!
  const { welcome } = await createCommit(
    { state, cipherSuite: provider, pskIndex: { findPsk: () => new Uint8Array(32) } },
    { extraProposals: [{ proposalType: 'add', add: { keyPackage } }], ratchetTreeExtension: true },
  )
  await assert.rejects(cid.join(await sealedFor(own.keyPackage, welcome!), own), {
    code: 'invalid_welcome',
    message: /too large/,
  })
})

/** A commit of ann with other content, sealed with the keys that every member has; it is refused before its signature is checked. */
async function forge(ann: Agent, change: (commit: Commit) => Commit): Promise<Uint8Array> {
  return await reshaped(ann, await bare(ann, []), change)
}

function byValue(proposal: Proposal): Commit['proposals'][number] {
  return { proposalOrRefType: 'proposal', proposal }
}

test('a group is encoded as by the library, and lists of any length use no more stack', async () => {
  const { agents } = await channelOf('owner', 'ann', 'bob')
  const [owner] = agents as [Agent]
  const { state } = inside(owner.group)
  const bare = { ...state, signaturePrivateKey: new Uint8Array(), unappliedProposals: {} }
  assert.deepEqual(encodeState(state), new Uint8Array(encodeGroupState({ ...bare, historicalReceiverData: new Map() })))
  const node = state.ratchetTree[0]
  assert.ok(node?.nodeType === 'leaf')
  const { leaf } = node
  fc.assert(
    fc.property(fc.nat(60_000), fc.nat(60_000), fc.nat(2000), (types, unmerged, nodes) => {
      const large = { ...leaf, capabilities: { ...OURS, extensions: extensionTypes(types + 1) } }
      const parent = { hpkePublicKey: new Uint8Array(32), parentHash: new Uint8Array(32) }
      const unmergedLeaves = Array.from({ length: unmerged }, (_, at) => at as never)
      const ratchetTree = [
        { nodeType: 'leaf' as const, leaf: large },
        { nodeType: 'parent' as const, parent: { ...parent, unmergedLeaves } },
        ...Array.from({ length: 2 * nodes + 1 }, (_, at) => (at % 2 === 0 ? node : undefined)),
      ]
      const decoded = decodeState(encodeState({ ...state, ratchetTree }))
      assert.ok(decoded)
      const [first, second] = decoded.ratchetTree
      assert.ok(first?.nodeType === 'leaf' && second?.nodeType === 'parent')
      assert.equal(first.leaf.capabilities.extensions.length, types + 1)
      assert.equal(second.parent.unmergedLeaves.length, unmerged)
    }),
    { numRuns: 5, seed: 20_261_115 },
  )
})

test('bytes that are not a group are rejected, whatever they are', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 2000 }), (bytes) => decodeState(bytes) === undefined),
    { numRuns: 300, seed: 20_261_115 },
  )
})
