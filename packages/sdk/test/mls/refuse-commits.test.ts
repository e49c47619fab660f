import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import type { CiphersuiteImpl, Proposal } from 'ts-mls'
import type { DeclarationFields } from '@static/protocol'
import fc from 'fast-check'
import { inside } from '../../src/mls/ts-mls/state.ts'
import { SEED } from '@static/testkit/random'
import { crypto } from './attacker.ts'
import { add, bare, FORBIDDEN, leafOf, notice, remove } from './forbidden-commits.ts'
import { Agent, channelOf, engine, hex } from './support.ts'

const { provider } = crypto
const DAY = 86_400_000
const NOTHING: DeclarationFields = { adds: [], removes: [], leaveNotices: [], vouches: [] }

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

for (const [name, reason, forge] of FORBIDDEN) {
  test(`refused by every member, and the channel continues: ${name}`, async () => {
    const place = await scene()
    const { owner, ann, bob } = place
    const { commit, declaration, declarer } = await forge(place)
    for (const member of [owner, bob]) {
      const before = hex(engine.encodeGroup(member.group))
      const result = await member.judge(commit, { ...NOTHING, ...declaration }, declarer ?? ann.agentId)
      assert.equal(result.kind, 'rejected')
      assert.equal(result.kind === 'rejected' && result.reason, reason)
      if (result.kind === 'rejected' && reason !== 'not_a_commit')
        assert.equal(hex(result.sender?.agentId ?? new Uint8Array()), hex(ann.agentId))
      assert.equal(hex(engine.encodeGroup(member.group)), before)
    }
    assert.equal(owner.read(bob.send('still here')), 'still here')
    const next = await ann.commit()
    ann.adopt(next)
    assert.equal((await owner.take(ann, next)).kind, 'accepted')
    assert.equal((await bob.take(ann, next)).kind, 'accepted')
    assert.equal(bob.read(ann.send('and on')), 'and on')
  })
}

test('any member removes a member that has left, with its notice', async () => {
  const { channelId, owner, ann, bob } = await scene()
  await assert.rejects(ann.commit({ removes: [bob.agentId] }), { code: 'not_allowed' })
  const pending = await ann.commit({ removes: [bob.agentId], leaveNotices: [notice(ann, bob, channelId)] })
  ann.adopt(pending)
  assert.equal((await owner.take(ann, pending)).kind, 'accepted')
  assert.equal(owner.read(ann.send('two left')), 'two left')
})

test('a member that returns with the key of a leaf takes its place: Remove and Add in one commit', async () => {
  const { owner, ann, bob } = await scene()
  const again = await bob.keyPackage()
  const pending = await owner.commit({ removes: [bob.agentId], adds: [again.keyPackage] })
  owner.adopt(pending)
  const atAnn = await ann.take(owner, pending)
  assert.ok(atAnn.kind === 'accepted')
  assert.deepEqual([atAnn.added.length, atAnn.removed.length], [1, 1])
  await bob.join(pending.welcomes[0]!.welcome, again, { signer: owner.agentId })
  assert.equal(ann.read(bob.send('back')), 'back')
})

test('a commit that others would refuse is refused before it is made', async () => {
  const { owner, ann, bob } = await scene()
  const same = await new Agent('ann').keyPackage()
  await assert.rejects(owner.commit({ adds: [same.keyPackage] }), { code: 'invalid_request' })
  await assert.rejects(owner.commit({ removes: [owner.agentId] }), { code: 'not_allowed' })
  await assert.rejects(ann.commit({ removes: [owner.agentId] }), { code: 'not_allowed' })
  await assert.rejects(owner.commit({ removes: [new Uint8Array(32)] }), { code: 'not_found' })
  const late = await new Agent('late').keyPackage(Date.now() - 85 * 86_400_000)
  await assert.rejects(owner.commit({ adds: [late.keyPackage] }), { code: 'key_package_unavailable' })
  assert.equal(bob.read(owner.send('nothing happened')), 'nothing happened')
})

test('a commit that only some can decrypt: those that cannot report it, with its sender', async () => {
  const { owner, ann, bob } = await scene()
  const node = inside(bob.group).state.ratchetTree[2 * leafOf(bob, bob)]
  assert.ok(node?.nodeType === 'leaf')
  const { hpkePublicKey } = node.leaf
  const seal: CiphersuiteImpl['hpke']['seal'] = async (key, ...rest) => {
    const sealed = await provider.hpke.seal(key, ...rest)
    if (hex(await provider.hpke.exportPublicKey(key)) === hex(hpkePublicKey)) sealed.ct.fill(7)
    return sealed
  }
  const commit = await bare(ann, [], { provider: { ...provider, hpke: { ...provider.hpke, seal } } })
  assert.equal((await owner.judge(commit, NOTHING, ann.agentId)).kind, 'accepted')
  const atBob = await bob.judge(commit, NOTHING, ann.agentId)
  assert.ok(atBob.kind === 'unfollowable')
  assert.equal(hex(atBob.sender.agentId), hex(ann.agentId))
  const garbled = Uint8Array.from(commit)
  garbled[garbled.length - 1]! ^= 1
  assert.equal((await owner.judge(garbled, NOTHING, ann.agentId)).kind, 'undecryptable')
})

test('a removed member judges the commit like those that stay', async () => {
  const { owner, ann, bob } = await scene()
  const [proposal, agentId] = await add('cid')
  assert.ok('add' in proposal)
  const keyPackage = { ...proposal.add.keyPackage, signature: new Uint8Array(64) }
  const blind = { ...provider, signature: { ...provider.signature, verify: async () => true } }
  const proposals: Proposal[] = [remove(owner, bob), { proposalType: 'add', add: { keyPackage } }]
  const commit = await bare(owner, proposals, { provider: blind })
  const declaration = { ...NOTHING, adds: [agentId], removes: [bob.agentId] }
  for (const member of [ann, bob]) {
    const result = await member.judge(commit, declaration, owner.agentId)
    assert.equal(result.kind === 'rejected' && result.reason, 'invalid')
  }
})

test('members agree on a commit, whatever their clocks say', async () => {
  const { owner, ann, bob } = await scene()
  const cid = new Agent('cid')
  const [twin] = await add('owner')
  const good = await ann.commit({ adds: [(await cid.keyPackage()).keyPackage] })
  const commits = [
    ['accepted', good.commit, good.declaration],
    ['accepted', await bare(ann, []), NOTHING],
    ['identity_twice', await bare(ann, [twin]), NOTHING],
    ['removes_without_right', await bare(ann, [remove(ann, bob)]), { ...NOTHING, removes: [bob.agentId] }],
  ] as const
  const clock = fc.oneof(fc.nat({ max: 4_000_000_000_000 }), fc.constantFrom(Date.now(), Date.now() + 85 * DAY))
  await fc.assert(
    fc.asyncProperty(clock, fc.constantFrom(owner, bob), fc.constantFrom(...commits), async (now, agent, tuple) => {
      const [expected, commit, declaration] = tuple
      mock.timers.enable({ apis: ['Date'], now })
      try {
        const result = await agent.judge(commit, declaration, ann.agentId)
        assert.equal(result.kind === 'rejected' ? result.reason : result.kind, expected)
      } finally {
        mock.timers.reset()
      }
    }),
    { seed: SEED, numRuns: 60 },
  )
})

test('a member that has been silent longer than its KeyPackage lasts blocks no joins', async () => {
  const { owner, bob } = await scene()
  mock.timers.enable({ apis: ['Date'], now: Date.now() + 200 * DAY })
  try {
    const cid = new Agent('cid')
    const own = await cid.keyPackage()
    const pending = await owner.commit({ adds: [own.keyPackage] })
    owner.adopt(pending)
    assert.equal((await bob.take(owner, pending)).kind, 'accepted')
    await cid.join(pending.welcomes[0]!.welcome, own, { signer: owner.agentId })
    assert.equal(bob.read(cid.send('in')), 'in')
  } finally {
    mock.timers.reset()
  }
})

test('a commit is judged and never throws, whatever its bytes', async () => {
  const { owner, ann } = await scene()
  const { commit, declaration } = await ann.commit()
  await fc.assert(
    fc.asyncProperty(
      fc.nat({ max: commit.length - 1 }),
      fc.integer({ min: 1, max: 255 }),
      fc.boolean(),
      async (at, flip, cut) => {
        const changed = Uint8Array.from(cut ? commit.subarray(0, at) : commit)
        if (!cut) changed[at]! ^= flip
        assert.notEqual((await owner.judge(changed, declaration, ann.agentId)).kind, 'accepted')
      },
    ),
    { seed: SEED, numRuns: 150 },
  )
  assert.equal((await owner.take(ann, { commit, declaration })).kind, 'accepted')
})
