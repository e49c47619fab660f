import assert from 'node:assert/strict'
import { test } from 'node:test'
import { leaveBytes } from '@static/protocol'
import { ed25519 } from '@static/node/ed25519'
import type { CommitChange, NewKeyPackage } from '../../src/mls/engine.ts'
import { inside } from '../../src/mls/ts-mls/state.ts'
import { faultOf } from '../../src/mls/ts-mls/tree.ts'
import { randomBelow, SEED } from '@static/testkit/random'
import { crypto } from './attacker.ts'
import { Agent, engine, hex, makeChannel } from './support.ts'

const STEPS = 50
const AGENTS = 9

test('a long life: members join, leave, rotate, restart and send, and all agree at every step', async (context) => {
  context.diagnostic(`STATIC_SEED=${SEED}`)
  const below = randomBelow(SEED)
  const pick = <Item>(items: readonly Item[]): Item => items[below(items.length)]!
  const agents = Array.from({ length: AGENTS }, (_, at) => new Agent(`agent ${at}`))
  const owner = agents[0]!
  const channelId = await makeChannel(owner)
  let members = [owner]

  /** What one member does, by the dice. */
  const decide = async (sender: Agent): Promise<[Omit<CommitChange, 'now'>, Agent[], [Agent, NewKeyPackage][]]> => {
    const others = members.filter((member) => member !== sender && member !== owner)
    const leaving = others.filter(() => below(3) === 0)
    const dice = below(4)
    const removed = dice === 0 ? leaving : dice === 1 && below(8) === 0 ? others : []
    const outside = agents.filter((agent) => !members.includes(agent))
    // Sometimes a member that is removed comes back in the same commit.
    const joiners = dice === 2 ? outside.filter(() => below(2) === 0) : removed.slice(0, below(2))
    const made = await Promise.all(
      joiners.map(async (joiner): Promise<[Agent, NewKeyPackage]> => [joiner, await joiner.keyPackage()]),
    )
    const change = {
      adds: made.map(([, own]) => own.keyPackage),
      removes: removed.map(({ agentId }) => agentId),
      leaveNotices: removed.map(({ key, group }) => {
        const leafKeys = [engine.facts(group).own.encryptionKey]
        const signature = ed25519.signer(key)(leaveBytes(channelId, { slot: 7n, leafKeys }))
        return { publicKey: key.publicKey, slot: 7n, leafKeys, signature }
      }),
    }
    return [change, removed, made]
  }

  for (let step = 0; step < STEPS; step++) {
    const sender = pick(members)
    const [change, removed, made] = await decide(sender)
    const pending = await sender.commit(change)
    for (const member of members.filter((member) => member !== sender)) {
      const result = await member.take(sender, pending)
      assert.ok(result.kind === 'accepted', `step ${step}: ${result.kind}`)
      assert.equal(result.next === undefined, removed.includes(member))
    }
    sender.adopt(pending)
    members = members.filter((member) => !removed.includes(member))
    for (const [at, [joiner, own]] of made.entries()) {
      await joiner.join(pending.welcomes[at]!.welcome, own, { signer: sender.agentId, owner: owner.agentId })
      members.push(joiner)
    }
    if (below(3) === 0) pick(members).restart()

    const [first, ...rest] = members.map(({ group }) => hex(engine.facts(group).epochAuthenticator))
    for (const other of rest) assert.equal(other, first, `step ${step}`)
    const speaker = pick(members)
    const ciphertext = speaker.send(`step ${step}`)
    for (const member of members) if (member !== speaker) assert.equal(member.read(ciphertext), `step ${step}`)
    const { ratchetTree, groupContext } = inside(owner.group).state
    assert.equal(await faultOf(crypto, ratchetTree, groupContext), undefined, `step ${step}`)
    for (const { group } of members) {
      const { privatePath, ratchetTree, historicalReceiverData } = inside(group).state
      for (const node of Object.keys(privatePath.privateKeys)) assert.ok(ratchetTree[Number(node)], 'a stale key')
      assert.equal(historicalReceiverData.size, 0)
    }
  }
})
