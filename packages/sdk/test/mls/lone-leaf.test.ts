import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { createCommit, createGroup, encodeMlsMessage, type Proposal } from 'ts-mls'
import { generateSignatureKeyPair, type SignatureKeyPair } from '@static/node/ed25519'
import { FOUNDER_IDENTITY } from '../../src/mls/credential.ts'
import type { CommitChange, Group } from '../../src/mls/engine.ts'
import { CONFIG } from '../../src/mls/ts-mls/config.ts'
import { makeKeyPackage } from '../../src/mls/ts-mls/key-package.ts'
import { decodeMessage, encodeWelcome } from '../../src/mls/ts-mls/message.ts'
import { adopt, inside } from '../../src/mls/ts-mls/state.ts'
import { ownedBy } from '../../src/mls/channel-context.ts'
import { contextExtensions } from '../../src/mls/ts-mls/view.ts'
import { crypto, readsOn } from './attacker.ts'
import { bare, remove } from './forbidden-commits.ts'
import { Agent, channelOf, engine, makeChannel, NAME, text } from './support.ts'

/** Who commits what, and who must not read what follows. */
interface Scene {
  readonly committer: Agent
  readonly change: Omit<CommitChange, 'now'>
  readonly attacker: { readonly group: Group; readonly key: SignatureKeyPair }
}

async function removal(names: string[], removed: string[]): Promise<Scene> {
  const { agents } = await channelOf(...names)
  const [committer] = agents
  const gone = agents.filter((_, at) => removed.includes(names[at] ?? ''))
  assert.ok(committer && gone[0])
  return { committer, change: { removes: gone.map(({ agentId }) => agentId) }, attacker: gone[0] }
}

/** The engine forgets the founder, so this one is made by hand. */
async function founder(): Promise<Scene> {
  const owner = new Agent('owner')
  const key = generateSignatureKeyPair()
  const { publicPackage, privatePackage } = await makeKeyPackage(crypto, FOUNDER_IDENTITY, key, Date.now())
  const extensions = contextExtensions({ name: NAME, ...ownedBy(owner.agentId) })
  const state = await createGroup(randomBytes(16), publicPackage, privatePackage, extensions, crypto.provider, CONFIG)
  const own = await owner.keyPackage()
  const { keyPackage } = decodeMessage('mls_key_package', own.keyPackage)!
  const made = await createCommit(
    { state, cipherSuite: crypto.provider },
    { extraProposals: [{ proposalType: 'add', add: { keyPackage } }], ratchetTreeExtension: true },
  )
  await owner.join(encodeWelcome(made.welcome!), own, { founding: true })
  const { group } = adopt(crypto, made.newState, key)
  return { committer: owner, change: { removeFounder: true }, attacker: { group, key } }
}

/** Somebody has copied the database of an agent that is alone. */
async function theft(): Promise<Scene> {
  const owner = new Agent('owner')
  await makeChannel(owner)
  const group = engine.decodeGroup(engine.encodeGroup(owner.group), owner.key)
  return { committer: owner, change: {}, attacker: { group, key: owner.key } }
}

for (const [name, makeScene, holeWithoutCure] of [
  ['2 → 1', () => removal(['owner', 'ann'], ['ann']), true],
  ['3 → 1', () => removal(['owner', 'ann', 'bob'], ['ann', 'bob']), true],
  ['3 → 2', () => removal(['owner', 'ann', 'bob'], ['ann']), false],
  ["the founder's removal", founder, true],
  ['a rotate while alone', theft, true],
] as const) {
  test(`${name}: the next epoch cannot be computed from the last one`, async () => {
    const { committer, change, attacker } = await makeScene()
    const pending = await committer.commit(change)

    // The same commit without the PreSharedKey, by the library as it is: what the cure is for.
    const { state } = inside(committer.group)
    const gone = engine
      .facts(committer.group)
      .members.filter(
        ({ agentId, founder }) => founder || change.removes?.some((id) => Buffer.from(id).equals(agentId)),
      )
    const extraProposals = gone.map(({ leaf }): Proposal => ({ proposalType: 'remove', remove: { removed: leaf } }))
    const bare = await createCommit({ state, cipherSuite: crypto.provider }, { extraProposals })
    const careless = new Agent('careless')
    careless.enter(adopt(crypto, bare.newState, committer.key))
    const seen = await readsOn(attacker.group, attacker.key, encodeMlsMessage(bare.commit), careless.send('secret'))
    assert.equal(seen, holeWithoutCure ? 'secret' : undefined)

    committer.adopt(pending)
    assert.equal(await readsOn(attacker.group, attacker.key, pending.commit, committer.send('secret')), undefined)
  })
}

for (const removed of [['ann'], ['ann', 'bob']]) {
  test(`a removed member cannot read the next epoch (${removed.length} of 4 removed)`, async () => {
    const { committer, change, attacker } = await removal(['owner', 'ann', 'bob', 'cid'], removed)
    const pending = await committer.commit(change)
    committer.adopt(pending)
    const ciphertext = committer.send('secret')
    assert.throws(() => engine.open(attacker.group, (attacker as Agent).rows, ciphertext, { steps: 1024 }), {
      code: 'epoch_mismatch',
    })
    assert.equal(await readsOn(attacker.group, attacker.key, pending.commit, ciphertext), undefined)
  })
}

test('the removed member learns of its removal, whatever id the other client gave its PreSharedKey', async () => {
  const { agents } = await channelOf('owner', 'ann')
  const [owner, ann] = agents as [Agent, Agent]
  for (const pskId of [text('static lone leaf'), text('of another client'), new Uint8Array()]) {
    const psk: Proposal = {
      proposalType: 'psk',
      psk: { preSharedKeyId: { psktype: 'external', pskId, pskNonce: randomBytes(32) } },
    }
    const commit = await bare(owner, [remove(owner, ann), psk])
    const declaration = { adds: [], removes: [ann.agentId], leaveNotices: [], vouches: [] }
    const result = await ann.judge(commit, declaration, owner.agentId)
    assert.ok(result.kind === 'accepted')
    assert.equal(result.next, undefined)
    assert.deepEqual(
      result.removed.map(({ agentId }) => agentId),
      [ann.agentId],
    )
  }
})

test('the first Add after being alone requires a re-key, and no other commit does', async () => {
  const owner = new Agent('owner')
  await makeChannel(owner)
  const [ann, bob] = [await new Agent('ann').keyPackage(), await new Agent('bob').keyPackage()]
  assert.equal((await owner.commit()).rekeyDue, false)
  const first = await owner.commit({ adds: [ann.keyPackage] })
  assert.equal(first.rekeyDue, true)
  owner.adopt(first)
  assert.equal((await owner.commit({ adds: [bob.keyPackage] })).rekeyDue, false)
})
