import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ed25519, generateSignatureKeyPair } from '@static/node/ed25519'
import { type ChannelName, leaveBytes, MAX_MEMBERS } from '@static/protocol'
import {
  checkCommit,
  type Declared,
  isLeaveOf,
  type RuleCommit,
  type RuleGroup,
  type RuleLeaf,
} from '../../src/mls/commit-rules.ts'
import { ownedBy } from '../../src/mls/channel-context.ts'
import { agentIdOf, FOUNDER_IDENTITY } from '../../src/mls/credential.ts'
import { text } from './support.ts'

const fill = (length: number, value: number): Uint8Array => new Uint8Array(length).fill(value)

/** What cannot be made with a library that has checks of its own is checked here by hand. */
function leaf(number: number, change: Partial<RuleLeaf> = {}): RuleLeaf {
  const key = Buffer.alloc(32)
  key.writeUInt32BE(1000 + number, 0)
  return {
    leaf: number,
    identity: text(`agent ${number}`),
    signatureKey: key,
    encryptionKey: key,
    able: true,
    ...change,
  }
}

const idOf = ({ signatureKey }: RuleLeaf): Uint8Array => agentIdOf(signatureKey)
const group: RuleGroup = {
  groupId: fill(16, 1),
  epoch: 7n,
  context: { name: 'acme/support/routing' as ChannelName, ...ownedBy(idOf(leaf(0))) },
  leaves: [leaf(0), leaf(1), leaf(2)],
  parentKeys: [fill(32, 7)],
}
const byOwner: RuleCommit = { sender: 0, proposals: [], path: undefined }

function declared(change: Partial<Declared['declaration']> = {}): Declared {
  return { declaration: { adds: [], removes: [], leaveNotices: [], vouches: [], ...change }, declarer: idOf(leaf(0)) }
}

test('an empty commit changes nothing', () => {
  assert.deepEqual(checkCommit(group, byOwner, declared()), { added: [], removed: [] })
})

test('rules that other checks precede', () => {
  const founder = leaf(9, { identity: FOUNDER_IDENTITY })
  const withFounder = { ...group, leaves: [...group.leaves, founder] }
  assert.equal(checkCommit(withFounder, { ...byOwner, sender: 9 }, declared()), 'founder_commits')
  assert.equal(checkCommit(group, { ...byOwner, sender: 7 }, declared()), 'sender_not_member')
  const remove = (...leaves: number[]): RuleCommit => ({
    ...byOwner,
    proposals: leaves.map((leaf) => ({ kind: 'remove', leaf })),
  })
  assert.equal(checkCommit(group, remove(5), declared()), 'removes_blank_leaf')
  assert.equal(checkCommit(group, remove(1, 1), declared()), 'removes_blank_leaf')
  assert.equal(checkCommit(group, remove(0), declared()), 'removes_itself')
  const add = (...leaves: RuleLeaf[]): RuleCommit => ({
    ...byOwner,
    proposals: leaves.map((leaf) => ({ kind: 'add', sealable: true, ...leaf })),
  })
  assert.equal(checkCommit(group, add(leaf(3, { identity: undefined })), declared()), 'credential_invalid')
  assert.equal(checkCommit(group, add(leaf(3, { identity: new Uint8Array() })), declared()), 'credential_invalid')
  assert.equal(
    checkCommit(group, add(leaf(3, { encryptionKey: leaf(1).encryptionKey })), declared()),
    'encryption_key_used',
  )
  const path = { ...leaf(0), encryptionKey: fill(32, 9), nodeKeys: [fill(32, 8), fill(32, 8)] }
  assert.equal(checkCommit(group, { ...byOwner, path }, declared()), 'encryption_key_used')
  assert.equal(
    checkCommit(group, { ...byOwner, path: { ...path, identity: undefined } }, declared()),
    'credential_changed',
  )
  assert.equal(checkCommit(group, add(leaf(3, { encryptionKey: fill(32, 7) })), declared()), 'encryption_key_used')
  assert.equal(
    checkCommit(group, { ...byOwner, path: { ...leaf(0), nodeKeys: [] } }, declared()),
    'encryption_key_used',
  )
  assert.equal(checkCommit(group, add(leaf(3, { able: false })), declared()), 'capabilities_missing')
  const unsealable = { ...byOwner, proposals: [{ kind: 'add' as const, sealable: false, ...leaf(3) }] }
  assert.equal(checkCommit(group, unsealable, declared()), 'seal_key_missing')
  const unable = { ...path, nodeKeys: [], able: false }
  assert.equal(checkCommit(group, { ...byOwner, path: unable }, declared()), 'capabilities_missing')
  const zero = new Uint8Array(32)
  assert.equal(checkCommit(group, add(leaf(3, { encryptionKey: zero })), declared()), 'encryption_key_invalid')
  for (const bad of [{ encryptionKey: zero }, { encryptionKey: zero.subarray(1) }, { nodeKeys: [zero] }]) {
    const unusable = { ...path, nodeKeys: [], ...bad }
    assert.equal(checkCommit(group, { ...byOwner, path: unusable }, declared()), 'encryption_key_invalid')
  }
  const many = Array.from({ length: MAX_MEMBERS - 2 }, (_, at) => leaf(100 + at))
  assert.equal(checkCommit(group, add(...many), declared({ adds: many.map(idOf) })), 'group_full')
  assert.equal(checkCommit({ ...group, epoch: 2n ** 52n }, byOwner, declared()), 'last_epoch')
  assert.equal(typeof checkCommit({ ...group, epoch: 2n ** 52n - 1n }, byOwner, declared()), 'object')
  const fits = many.slice(1)
  assert.equal(typeof checkCommit(group, add(...fits), declared({ adds: fits.map(idOf) })), 'object')
})

test('the commit that leaves one leaf carries a PreSharedKey, and only that one', () => {
  const alone = { ...group, leaves: [leaf(0)] }
  const psk = (external: boolean): RuleCommit => ({ ...byOwner, proposals: [{ kind: 'psk', external }] })
  assert.equal(checkCommit(alone, byOwner, declared()), 'psk_misplaced')
  assert.equal(typeof checkCommit(alone, psk(true), declared()), 'object')
  assert.equal(checkCommit(alone, psk(false), declared()), 'psk_misplaced')
  assert.equal(checkCommit(group, psk(true), declared()), 'psk_misplaced')
  const twice = { ...byOwner, proposals: [...psk(true).proposals, ...psk(true).proposals] }
  assert.equal(checkCommit(alone, twice, declared()), 'psk_misplaced')
})

test('the founder leaf is removed without being declared, and by any member', () => {
  const founder = leaf(9, { identity: FOUNDER_IDENTITY })
  const withFounder = { ...group, leaves: [...group.leaves, founder] }
  const commit: RuleCommit = { sender: 1, proposals: [{ kind: 'remove', leaf: 9 }], path: undefined }
  const mine = { ...declared(), declarer: idOf(leaf(1)) }
  assert.deepEqual(checkCommit(withFounder, commit, mine), { added: [], removed: [founder] })
  const named = { ...declared({ removes: [idOf(founder)] }), declarer: idOf(leaf(1)) }
  assert.equal(checkCommit(withFounder, commit, named), 'declaration_differs')
})

test('a declaration names each agent once', () => {
  const commit: RuleCommit = { ...byOwner, proposals: [{ kind: 'remove', leaf: 1 }] }
  const id = idOf(leaf(1))
  assert.equal(typeof checkCommit(group, commit, declared({ removes: [id] })), 'object')
  assert.equal(checkCommit(group, commit, declared({ removes: [id, id] })), 'declaration_differs')
  assert.equal(checkCommit(group, commit, declared({ removes: [id], adds: [id] })), 'declaration_differs')
})

test('the owner vouches for agents that the commit adds, once for each, and no one else vouches', () => {
  const joiner = leaf(3)
  const commit: RuleCommit = { ...byOwner, proposals: [{ kind: 'add', sealable: true, ...joiner }] }
  const id = idOf(joiner)
  const vouching = (...vouches: Uint8Array[]): Declared => declared({ adds: [id], vouches })
  assert.equal(typeof checkCommit(group, commit, vouching(id)), 'object')
  assert.equal(typeof checkCommit(group, commit, vouching()), 'object')
  assert.equal(checkCommit(group, commit, vouching(id, id)), 'vouches_without_right')
  assert.equal(checkCommit(group, commit, vouching(idOf(leaf(1)))), 'vouches_without_right')
  const mine = { ...vouching(id), declarer: idOf(leaf(1)) }
  assert.equal(checkCommit(group, { ...commit, sender: 1 }, mine), 'vouches_without_right')
})

test('a leave notice names one or two keys of 32 bytes, one of them that of the leaf', () => {
  const key = generateSignatureKeyPair()
  const member = { signatureKey: key.publicKey, encryptionKey: fill(32, 5) }
  const isLeave = (...leafKeys: Uint8Array[]): boolean => {
    const signature = ed25519.signer(key)(leaveBytes(group.groupId, { slot: 4n, leafKeys }))
    return isLeaveOf(group.groupId, member, { publicKey: key.publicKey, slot: 4n, leafKeys, signature })
  }
  assert.equal(isLeave(fill(32, 5)), true)
  assert.equal(isLeave(fill(32, 6), fill(32, 5)), true)
  assert.equal(isLeave(), false)
  assert.equal(isLeave(fill(32, 6)), false)
  assert.equal(isLeave(fill(32, 5), fill(32, 6), fill(32, 7)), false)
  for (const length of [0, 17, 33]) assert.equal(isLeave(fill(32, 5), fill(length, 6)), false, `${length} bytes`)
})
