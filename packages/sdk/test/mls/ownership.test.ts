/** Who owns a group, and who may take it over: what every member accepts of the other members (SPEC.md, 4.3). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CommitChange, Rejection } from '../../src/mls/engine.ts'
import { decodeContext, encodeContext, ownedBy } from '../../src/mls/channel-context.ts'
import { createCommit, encodeMlsMessage, type PrivateMessage } from 'ts-mls'
import { decodeMessage } from '../../src/mls/ts-mls/message.ts'
import { openCommit } from '../../src/mls/ts-mls/open-commit.ts'
import { inside } from '../../src/mls/ts-mls/state.ts'
import { crypto } from './attacker.ts'
import { add, contextOf, notice, remove, withContext } from './forbidden-commits.ts'
import { Agent, addAll, channelOf, engine, hex, NAME } from './support.ts'

interface Scene {
  readonly channelId: Uint8Array
  readonly owner: Agent
  readonly ann: Agent
  readonly bob: Agent
}

async function scene(): Promise<Scene> {
  const { channelId, agents } = await channelOf('owner', 'ann', 'bob')
  const [owner, ann, bob] = agents as [Agent, Agent, Agent]
  return { channelId, owner, ann, bob }
}

/** A commit that all follow. */
async function commit(by: Agent, change: Omit<CommitChange, 'now'>, others: readonly Agent[]): Promise<void> {
  const pending = await by.commit(change)
  by.adopt(pending)
  for (const other of others) assert.equal((await other.take(by, pending)).kind, 'accepted')
}

/** What a group says of its ownership. */
function ownershipOf({ group }: Agent): unknown {
  const { owner, standby, offered } = engine.facts(group).context
  return [hex(owner), standby && hex(standby), offered]
}

/** The scene after the owner has named a standby. */
async function withStandby(): Promise<Scene> {
  const place = await scene()
  const { owner, ann, bob } = place
  const ownership = { owner: owner.agentId, standby: ann.agentId, offered: false }
  await commit(owner, { ownership }, [ann, bob])
  return place
}

/** Checks that the other members refuse a commit for a reason. */
async function refused(
  by: Agent,
  bytes: Uint8Array,
  declaration: object,
  others: readonly Agent[],
  reason: Rejection,
): Promise<void> {
  const declared = { adds: [], removes: [], leaveNotices: [], vouches: [], ...declaration }
  for (const other of others) {
    const result = await other.judge(bytes, declared, by.agentId)
    assert.equal(result.kind === 'rejected' ? result.reason : result.kind, reason)
  }
}

test('the owner names a standby, offers it the channel, and clears it; all read on', async () => {
  const { owner, ann, bob } = await scene()
  const own = hex(owner.agentId)
  for (const [standby, offered] of [
    [ann, false],
    [bob, true],
    [undefined, false],
  ] as const) {
    const ownership = { owner: owner.agentId, standby: standby?.agentId, offered }
    await commit(owner, { ownership }, [ann, bob])
    for (const agent of [owner, ann, bob]) {
      assert.deepEqual(ownershipOf(agent), [own, standby && hex(standby.agentId), offered])
      agent.restart()
    }
    assert.equal(bob.read(owner.send('on')), 'on')
    assert.equal(owner.read(ann.send('and on')), 'and on')
  }
})

test('the standby takes over: the former owner is a member that it may remove', async () => {
  const { owner, ann, bob } = await withStandby()
  await commit(ann, { ownership: ownedBy(ann.agentId) }, [owner, bob])
  for (const agent of [owner, ann, bob]) assert.deepEqual(ownershipOf(agent), [hex(ann.agentId), undefined, false])
  assert.equal(owner.read(ann.send('mine now')), 'mine now')
  await assert.rejects(owner.commit({ removes: [bob.agentId] }), { code: 'not_allowed' })
  const again = { owner: owner.agentId, standby: bob.agentId, offered: false }
  await assert.rejects(owner.commit({ ownership: again }), { code: 'not_allowed' })
  await commit(ann, { removes: [owner.agentId] }, [bob])
  assert.equal(bob.read(ann.send('two left')), 'two left')
})

test('a newcomer joins the group of the new owner, whose leaf is signed for it', async () => {
  const { channelId, owner, ann, bob } = await withStandby()
  await commit(ann, { ownership: ownedBy(ann.agentId) }, [owner, bob])
  const cid = new Agent('cid')
  const own = await cid.keyPackage()
  const pending = await bob.commit({ adds: [own.keyPackage] })
  bob.adopt(pending)
  const { welcome } = pending.welcomes[0] ?? assert.fail()
  await assert.rejects(cid.join(welcome, own, { owner: owner.agentId }), { code: 'invalid_welcome' })
  await cid.join(welcome, own, { channelId, name: NAME, owner: ann.agentId })
  assert.equal(cid.read(bob.send('welcome')), 'welcome')
})

test('only the standby takes over, and only for itself', async () => {
  const { owner, ann, bob } = await withStandby()
  await refused(
    bob,
    await withContext(bob, [contextOf(bob, { ...ownedBy(bob.agentId) })]),
    { owner: bob.agentId },
    [owner, ann],
    'ownership_without_right',
  )
  await refused(
    ann,
    await withContext(ann, [contextOf(ann, { ...ownedBy(bob.agentId) })]),
    { owner: bob.agentId },
    [owner, bob],
    'ownership_without_right',
  )
  const toAnn = contextOf(owner, { ...ownedBy(ann.agentId) })
  await refused(owner, await withContext(owner, [toAnn]), { owner: ann.agentId }, [ann, bob], 'ownership_without_right')
})

test('a take-over names no standby and changes no members', async () => {
  const { owner, ann, bob } = await withStandby()
  const named = contextOf(ann, { owner: ann.agentId, standby: bob.agentId })
  const declared = { owner: ann.agentId, standby: bob.agentId }
  await refused(ann, await withContext(ann, [named]), declared, [owner, bob], 'ownership_without_right')
  const own = contextOf(ann, ownedBy(ann.agentId))
  const [adding, agentId] = await add('eve')
  const adds = { owner: ann.agentId, adds: [agentId] }
  await refused(ann, await withContext(ann, [adding, own]), adds, [owner, bob], 'context_misplaced')
  const removes = { owner: ann.agentId, removes: [owner.agentId] }
  await refused(ann, await withContext(ann, [remove(ann, owner), own]), removes, [bob], 'removes_owner')
})

test('a take-over without a path is refused, even though the library takes it', async () => {
  const { owner, ann, bob } = await withStandby()
  const { commit } = await createCommit(
    { state: inside(ann.group).state, cipherSuite: crypto.provider },
    { extraProposals: [contextOf(ann, ownedBy(ann.agentId))] },
  )
  await refused(ann, encodeMlsMessage(commit), { owner: ann.agentId }, [owner, bob], 'invalid')
})

test('a take-over whose declaration names another owner or standby is refused', async () => {
  const { owner, ann, bob } = await withStandby()
  const bytes = await withContext(ann, [contextOf(ann, ownedBy(ann.agentId))])
  for (const declaration of [{}, { owner: owner.agentId }, { owner: ann.agentId, standby: ann.agentId }]) {
    await refused(ann, bytes, declaration, [owner, bob], 'declaration_differs')
  }
})

test('a standby that was cleared can no longer take over, nor the one before', async () => {
  const { owner, ann, bob } = await withStandby()
  const old = await withContext(ann, [contextOf(ann, ownedBy(ann.agentId))])
  const ownership = { owner: owner.agentId, standby: bob.agentId, offered: true }
  await commit(owner, { ownership }, [ann, bob])
  await assert.rejects(ann.commit({ ownership: ownedBy(ann.agentId) }), { code: 'not_allowed' })
  const late = await bob.judge(
    old,
    { adds: [], removes: [], leaveNotices: [], vouches: [], owner: ann.agentId },
    ann.agentId,
  )
  assert.equal(late.kind, 'other_epoch')
})

test('a commit that removes the standby clears it, so that it has no power when it comes back', async () => {
  for (const byOwner of [true, false]) {
    const { channelId, owner, ann, bob } = await withStandby()
    const by = byOwner ? owner : bob
    const leaveNotices = byOwner ? [] : [notice(bob, ann, channelId)]
    const bare = { removes: [ann.agentId], leaveNotices }
    const others = byOwner ? [bob] : [owner]
    await refused(by, await withContextless(by, ann), bare, others, 'standby_not_cleared')
    const kept = await withContext(by, [remove(by, ann), contextOf(by, {})])
    const declared = { ...bare, owner: owner.agentId, standby: ann.agentId }
    await refused(by, kept, declared, others, 'standby_not_cleared')
    await commit(by, { removes: [ann.agentId], leaveNotices }, others)
    assert.deepEqual(ownershipOf(by), [hex(owner.agentId), undefined, false])
    await addAll(owner, [ann], [bob])
    await assert.rejects(ann.commit({ ownership: ownedBy(ann.agentId) }), { code: 'not_allowed' })
  }
})

function privateMessageOf(bytes: Uint8Array): PrivateMessage {
  return decodeMessage('mls_private_message', bytes)?.privateMessage ?? assert.fail('not a PrivateMessage')
}

/** A Remove without the change of the GroupContext that belongs to it. */
async function withContextless(by: Agent, gone: Agent): Promise<Uint8Array> {
  const { commit } = await createCommit(
    { state: inside(by.group).state, cipherSuite: crypto.provider },
    { extraProposals: [remove(by, gone)] },
  )
  return encodeMlsMessage(commit)
}

test('the last other member is removed with its standing as standby: no one else can compute the epoch', async () => {
  const { agents } = await channelOf('owner', 'ann')
  const [owner, ann] = agents as [Agent, Agent]
  await commit(owner, { ownership: { owner: owner.agentId, standby: ann.agentId, offered: false } }, [ann])
  const pending = await owner.commit({ removes: [ann.agentId] })
  const opened = await openCommit(crypto, inside(ann.group).state, privateMessageOf(pending.commit))
  assert.ok(opened.kind === 'commit')
  const kinds = opened.commit.proposals.map(
    (each) => each.proposalOrRefType === 'proposal' && each.proposal.proposalType,
  )
  assert.deepEqual(kinds, ['remove', 'group_context_extensions', 'psk'])
  owner.adopt(pending)
  assert.deepEqual(ownershipOf(owner), [hex(owner.agentId), undefined, false])
})

test('the standby is a member and not the owner', async () => {
  const { owner } = await scene()
  const absent = { owner: owner.agentId, standby: new Agent('eve').agentId, offered: false }
  await assert.rejects(owner.commit({ ownership: absent }), { code: 'invalid_request' })
  const itself = { owner: owner.agentId, standby: owner.agentId, offered: false }
  await assert.rejects(owner.commit({ ownership: itself }), { code: 'invalid_request' })
})

test('the extension has one form for each state', () => {
  const [owner, standby] = [new Uint8Array(32).fill(1), new Uint8Array(32).fill(2)]
  const states = [ownedBy(owner), { owner, standby, offered: false }, { owner, standby, offered: true }]
  for (const state of states) {
    const context = { name: NAME, ...state }
    assert.deepEqual(decodeContext(encodeContext(context)), context)
  }
  const offeredToNoOne = encodeContext({ name: NAME, owner, standby: undefined, offered: true })
  assert.equal(decodeContext(offeredToNoOne), undefined)
  assert.equal(decodeContext(encodeContext({ name: NAME, owner, standby: owner, offered: false })), undefined)
  for (const flags of [2, 3, 0x80]) {
    assert.equal(decodeContext(encodeContext({ name: NAME, owner, standby, offered: false }).with(1, flags)), undefined)
  }
  assert.equal(decodeContext(encodeContext({ name: NAME, ...ownedBy(owner) }).with(0, 1)), undefined)
})
