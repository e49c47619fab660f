/** Commits that the relay refuses use up keys of the epoch: how many, and what happens then. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createCommit, encodeMlsMessage } from 'ts-mls'
import { inside } from '../../src/mls/ts-mls/state.ts'
import { crypto } from './attacker.ts'
import { burnt } from './burnt.ts'
import { type Agent, addAll, Agent as NewAgent, channelOf, engine } from './support.ts'

const MOST_COMMITS = 1536
const MAX_STEPS = 2048

test('the last commit that a member may make in an epoch is followed by the others', async () => {
  const { agents } = await channelOf('owner', 'ann', 'bob')
  const [owner, ann, bob] = agents as [Agent, Agent, Agent]
  owner.group = burnt(owner.group, owner.key, MOST_COMMITS - 1)
  const last = await owner.commit()
  assert.equal(engine.commitsMade(owner.group), MOST_COMMITS)
  owner.adopt(last)
  for (const other of [ann, bob]) assert.equal((await other.take(owner, last)).kind, 'accepted')
  assert.equal(bob.read(owner.send('and on')), 'and on')
  assert.equal(ann.read(bob.send('back')), 'back')
  assert.equal(engine.commitsMade(owner.group), 0)
})

test('a member makes no commit that others might not follow, until another one commits', async () => {
  const { agents } = await channelOf('owner', 'ann')
  const [owner, ann] = agents as [Agent, Agent]
  owner.group = burnt(owner.group, owner.key, MOST_COMMITS)
  // Nor after a restart: the ratchet is on disk.
  owner.restart()
  await assert.rejects(owner.commit(), { code: 'unavailable', message: /refused 1536 commits.*`rotate`.*try again/ })
  const other = await ann.commit()
  ann.adopt(other)
  assert.equal((await owner.take(ann, other)).kind, 'accepted')
  const own = await owner.commit()
  owner.adopt(own)
  assert.equal((await ann.take(owner, own)).kind, 'accepted')
})

test('a member that is alone can commit however many were refused', async () => {
  const { agents } = await channelOf('owner')
  const [owner] = agents as [Agent]
  owner.group = burnt(owner.group, owner.key, MAX_STEPS + 1)
  const ann = new NewAgent('ann')
  await addAll(owner, [ann])
  assert.equal(ann.read(owner.send('welcome')), 'welcome')
})

test('a commit beyond the bound is undecryptable, to everybody alike', async () => {
  const { agents } = await channelOf('owner', 'ann', 'bob')
  const [owner, ann, bob] = agents as [Agent, Agent, Agent]
  for (const [generation, kind] of [
    [MAX_STEPS, 'accepted'],
    [MAX_STEPS + 1, 'undecryptable'],
    [0xffff_ffff, 'undecryptable'],
  ] as const) {
    const { state } = inside(burnt(ann.group, ann.key, Math.min(generation, MAX_STEPS + 1)))
    const node = 2 * state.privatePath.leafIndex
    const own = state.secretTree[node] ?? assert.fail()
    const secretTree = state.secretTree.with(node, { ...own, handshake: { ...own.handshake, generation } })
    const made = await createCommit({ state: { ...state, secretTree }, cipherSuite: crypto.provider })
    const commit = encodeMlsMessage(made.commit)
    for (const other of [owner, bob]) {
      const result = await other.judge(commit, { adds: [], removes: [], leaveNotices: [], vouches: [] }, ann.agentId)
      assert.equal(result.kind, kind)
      if (result.kind === 'undecryptable') assert.match(String(result.cause), /generations ahead .* at most 2048/)
    }
  }
})
