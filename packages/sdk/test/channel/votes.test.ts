/** Who votes against which commits, and what a commit does that only some can follow. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CiphersuiteImpl } from 'ts-mls'
import { concat } from '../../src/platform/bytes.ts'
import { inside } from '../../src/mls/ts-mls/state.ts'
import { crypto } from '../mls/attacker.ts'
import { add, bare } from '../mls/forbidden-commits.ts'
import { engine, hex } from '../mls/support.ts'
import { Apart } from '../support/apart.ts'
import { outsider, type Player, Stage } from '../support/stage.ts'

const { provider } = crypto
const GARBAGE = new Uint8Array(200).fill(1)

interface Scene {
  readonly stage: Stage
  readonly ann: Player
  readonly bob: Player
  readonly cid: Player
  readonly mal: Apart
}

/** Ann owns the channel; mal is a guest. */
async function scene(): Promise<Scene> {
  const stage = await Stage.start(['ann', 'bob', 'cid', 'mal'], { apart: ['mal'] })
  const [ann, bob, cid] = ['ann', 'bob', 'cid'].map((name) => stage.player(name)) as [Player, Player, Player]
  return { stage, ann, bob, cid, mal: new Apart(stage, 'mal') }
}

/** A commit without change by an honest player, which mal follows, and others do. */
async function rekey({ stage, mal }: Scene, player: Player, ...others: readonly Apart[]): Promise<void> {
  const rotated = player.channel.upkeep.rekey()
  await stage.settle()
  await rotated
  const entry = stage.log.at(-1)
  assert.ok(entry?.kind === 'commit' && entry.request.declaration)
  const { commit, declaration } = entry.request
  const maker = { agentId: Buffer.from(entry.sender, 'hex') } as unknown as typeof mal.mls
  for (const { mls } of [mal, ...others]) await mls.take(maker, { commit, declaration })
}

/** A commit without change by mal. */
async function rekeyMal({ stage, mal }: Scene): Promise<void> {
  const pending = await mal.mls.commit()
  mal.commit(pending.commit, pending.declaration)
  mal.mls.adopt(pending)
  await stage.settle()
}

/** A valid commit of mal whose path secrets these cannot read. Returns what mal would make of it. */
async function unreadableBy(mal: Apart, victims: readonly Player[]): Promise<Uint8Array> {
  const { ratchetTree } = inside(mal.mls.group).state
  const keys = victims.flatMap(({ channel }) => {
    const node = ratchetTree[2 * engine.facts(channel.group!.group).own.leaf]
    return node?.nodeType === 'leaf' ? [hex(node.leaf.hpkePublicKey)] : []
  })
  const seal: CiphersuiteImpl['hpke']['seal'] = async (key, ...rest) => {
    const sealed = await provider.hpke.seal(key, ...rest)
    if (victims.length === 3 || keys.includes(hex(await provider.hpke.exportPublicKey(key)))) sealed.ct.fill(7)
    return sealed
  }
  return bare(mal.mls, [], { provider: { ...provider, hpke: { ...provider.hpke, seal } } })
}

/** Who has sent heartbeats. */
function heartbeats({ log }: Stage): string[] {
  return log.filter((entry) => entry.kind === 'message' && entry.request.control).map(({ sender }) => sender)
}

/** Bytes that look like a message of another epoch. */
function ofEpoch(mal: Apart, epoch: bigint): Uint8Array {
  const bytes = Buffer.from(concat(mal.mls.send(mal.frame('x'))))
  const head = 4 + 1 + engine.facts(mal.mls.group).groupId.length
  bytes.writeBigUInt64BE(epoch, head)
  return bytes
}

/** A commit that could be one of another epoch. */
async function numbered(mal: Apart, epoch: bigint): Promise<Uint8Array> {
  const bytes = Buffer.from((await mal.mls.commit()).commit)
  bytes.writeBigUInt64BE(epoch, 4 + 1 + engine.facts(mal.mls.group).groupId.length)
  return bytes
}

async function say({ stage }: Scene, player: Player, words: string): Promise<void> {
  const sent = player.send(words)
  await stage.settle()
  await sent
}

const failures = (...players: Player[]): (string | undefined)[] => players.map(({ channel }) => channel.failure?.code)

test('an agent that joined with a Welcome does not know whose epoch it is in, and does not vote in it', async () => {
  const { stage, ann, mal } = await scene()
  mal.commit(GARBAGE)
  await stage.settle()
  assert.equal(ann.told('commit_skipped')[0]?.reason, 'not_a_commit')
  assert.deepEqual(stage.votes, [])
})

test('right after its own re-key the owner automatically rejects garbage, and so do members that followed it', async () => {
  const all = await scene()
  const { stage, ann, mal } = all
  await rekey(all, ann)
  const slot = mal.commit(GARBAGE)
  await stage.settle()
  assert.deepEqual(new Set(stage.votes), new Set([`ann ${slot}`, `bob ${slot}`, `cid ${slot}`]))
})

test('the re-key of a guest does not disable votes', async () => {
  const all = await scene()
  const { stage, ann, mal } = all
  await rekey(all, ann)
  for (let round = 0; round < 3; round++) {
    await rekeyMal(all)
    const commit = await bare(mal.mls, [])
    const slots = [
      mal.commit(GARBAGE),
      mal.commit(commit.with(commit.length - 1, commit.at(-1)! ^ 1)),
      mal.commit(await bare(mal.mls, []), { adds: [new Uint8Array(32).fill(9)] }),
      mal.commit(ofEpoch(mal, 1n)),
    ]
    stage.votes.length = 0
    await stage.settle()
    const expected = slots.flatMap((slot) => ['ann', 'bob', 'cid'].map((name) => `${name} ${slot}`))
    assert.deepEqual(stage.votes.toSorted(), expected.toSorted())
  }
  // What was voted against has changed nothing.
  await say(all, stage.player('bob'), 'on')
  assert.deepEqual(await ann.take(), ['on'])
})

test('votes continue after a restart', async () => {
  const all = await scene()
  const { stage, ann, bob, mal } = all
  await rekey(all, ann)
  for (const player of [ann, bob]) player.restart()
  await stage.settle()
  const slot = mal.commit(GARBAGE)
  await stage.settle()
  assert.deepEqual(new Set(stage.votes), new Set([`ann ${slot}`, `bob ${slot}`, `cid ${slot}`]))
})

test('a commit that only members cannot follow: no one votes, and they stop when the owner shows the next epoch', async () => {
  const all = await scene()
  const { stage, ann, bob, cid, mal } = all
  await rekey(all, ann)
  const slot = mal.commit(await unreadableBy(mal, [cid]))
  await stage.settle()
  assert.deepEqual(cid.told('commit_skipped'), [
    { type: 'commit_skipped', channel: cid.channel.name, sender: mal.agentId, slot, reason: 'unfollowable' },
  ])
  assert.equal(ann.view, bob.view)
  assert.notEqual(ann.view, cid.view)
  // What cid cannot open now may be what the others can.
  mal.commit(ofEpoch(mal, BigInt(cid.epoch) + 1n))
  await stage.settle()
  assert.deepEqual(
    stage.votes.filter((vote) => vote.startsWith('cid')),
    [],
  )
  assert.deepEqual(failures(ann, bob, cid), [undefined, undefined, undefined])
  const again = cid.restart()
  await stage.settle()
  await say(all, ann, 'in the next epoch')
  assert.deepEqual(await bob.take(), ['in the next epoch'])
  assert.deepEqual(failures(ann, again, bob), [undefined, 'mls_error', undefined])
})

test('a commit that no one can follow: the owner rejects it, and its next message settles it for all', async () => {
  const all = await scene()
  const { stage, ann, bob, cid, mal } = all
  await rekey(all, ann)
  const epoch = BigInt(ann.epoch)
  const slot = mal.commit(await unreadableBy(mal, [ann, bob, cid]))
  // As if it had gone on by itself.
  mal.put(ofEpoch(mal, epoch + 1n))
  const next = mal.commit(ofEpoch(mal, epoch + 1n))
  await stage.settleOnly(bob, cid)
  assert.deepEqual([stage.votes, failures(ann, bob, cid)], [[], [undefined, undefined, undefined]])
  await say(all, bob, 'in the old epoch')
  assert.deepEqual([await ann.take(), await cid.take()], [['in the old epoch'], ['in the old epoch']])
  assert.deepEqual([stage.votes, stage.lifted], [[`ann ${slot}`, `ann ${next}`], []])
  assert.deepEqual(heartbeats(stage).toSorted(), [ann, bob, cid].map(({ agentId }) => agentId).toSorted())
  const last = mal.commit(GARBAGE)
  await stage.settle()
  assert.deepEqual(new Set(stage.votes.slice(2)), new Set([`ann ${last}`, `bob ${last}`, `cid ${last}`]))
  await rekey(all, cid)
  assert.deepEqual([ann.view, bob.view], [cid.view, cid.view])
})

/** A commit without change that its maker alone has heard of so far. */
async function rekeyApart(stage: Stage, player: Player): Promise<number> {
  const { slot } = stage.position
  player.channel.upkeep.rekey().catch(() => {})
  await stage.settleOnly(player)
  return slot
}

test('a commit that the owner cannot follow: it rejects it at once, and members that followed it stop at its next message', async () => {
  const all = await scene()
  const { stage, ann, bob, cid, mal } = all
  // Then ann and bob have no node in common.
  await rekey(all, cid)
  const slot = mal.commit(await unreadableBy(mal, [ann, cid]))
  await stage.settleOnly(bob)
  // Bob does not know better, and neither votes nor is barred for what it does in its epoch.
  const next = await rekeyApart(stage, bob)
  await stage.settle()
  assert.deepEqual([stage.votes, stage.lifted], [[`ann ${slot}`, `ann ${next}`], [`ann ${bob.agentId}`]])
  assert.deepEqual(failures(ann, bob, cid), [undefined, 'mls_error', undefined])
  assert.match(bob.channel.failure?.message ?? '', /The owner has followed different commits/)
  assert.equal(ann.view, cid.view)
  await say(all, cid, 'on')
  assert.deepEqual(await ann.take(), ['on'])
})

test('a commit that the owner can follow: members that could not are not barred, and stop at the owner’s next message', async () => {
  const all = await scene()
  const { stage, ann, bob, cid, mal } = all
  await rekey(all, cid)
  mal.commit(await unreadableBy(mal, [cid]))
  await stage.settleOnly(cid)
  const next = await rekeyApart(stage, cid)
  // Bob is where the owner is, but cannot know.
  await stage.settleOnly(bob)
  assert.deepEqual(stage.votes, [])
  await stage.settle()
  assert.deepEqual([stage.votes, stage.lifted], [[`ann ${next}`], [`ann ${cid.agentId}`]])
  // Its own commit has brought cid to an epoch of the same number.
  assert.deepEqual([cid.epoch, failures(ann, bob, cid)], [ann.epoch, [undefined, undefined, undefined]])
  await say(all, ann, 'the second word')
  assert.deepEqual(failures(ann, bob, cid), [undefined, undefined, 'mls_error'])
  assert.equal(ann.view, bob.view)
})

test('a commit that only the owner can follow: the members show it, and the owner learns who made it', async () => {
  const all = await scene()
  const { stage, ann, bob, cid, mal } = all
  // Then bob has no node in common with cid or ann.
  await rekey(all, cid)
  const slot = mal.commit(await unreadableBy(mal, [bob, cid]))
  const before = ann.epoch
  await stage.settle()
  assert.equal(ann.epoch, before + 1)
  assert.deepEqual(new Set(heartbeats(stage)), new Set([bob.agentId, cid.agentId]))
  const disputes = ann.told('commit_disputed')
  assert.deepEqual(
    disputes.map(({ sender, identity, slot: at, members }) => [
      sender,
      String(Buffer.from(identity)),
      at,
      members.length,
    ]),
    [
      [mal.agentId, 'mal', slot, 1],
      [mal.agentId, 'mal', slot, 2],
    ],
  )
  assert.deepEqual(new Set(disputes[1]?.members), new Set([bob.agentId, cid.agentId]))
  // It is a claim: no one is barred for it.
  assert.deepEqual([stage.votes, bob.told('commit_disputed')], [[], []])
})

test('a member that was heard after a commit cannot dispute it, and repeating a claim reports nothing', async () => {
  const all = await scene()
  const { stage, ann, bob, mal } = all
  const epoch = BigInt(ann.epoch)
  await rekey(all, bob)
  mal.say(mal.frame('followed'))
  mal.put(ofEpoch(mal, epoch))
  await stage.settle()
  assert.deepEqual(ann.told('commit_disputed'), [])
  await rekey(all, bob)
  for (let round = 0; round < 3; round++) mal.put(ofEpoch(mal, epoch + 1n))
  await stage.settle()
  assert.deepEqual(
    ann.told('commit_disputed').map(({ sender, members }) => [sender, members]),
    [[bob.agentId, [mal.agentId]]],
  )
  assert.deepEqual([stage.votes, stage.lifted], [[], []])
})

test('after the owner’s message a commit of another epoch is a lie, and its committer stays barred', async () => {
  const all = await scene()
  const { stage, ann, bob, cid, mal } = all
  const before = await mal.mls.commit()
  await rekeyMal(all)
  await say(all, ann, 'here I am')
  const slot = mal.commit(before.commit, before.declaration)
  await stage.settle()
  const votes = [ann, bob, cid].map(({ name }) => `${name} ${slot}`)
  assert.deepEqual([new Set(stage.votes), stage.lifted], [new Set(votes), []])
})

for (const seed of [1, 2, 3, 4, 5, 6]) {
  test(`a divided group ends in the owner’s epoch, seed ${seed}`, async () => {
    const stage = await Stage.start(['ann', 'bob', 'cid', 'mal'], { apart: ['mal'], seed })
    const [ann, bob, cid] = ['ann', 'bob', 'cid'].map((name) => stage.player(name)) as [Player, Player, Player]
    const mal = new Apart(stage, 'mal')
    await rekey({ stage, ann, bob, cid, mal }, cid)
    const victims = [ann, bob, cid].filter((_, at) => (seed & (1 << at)) !== 0)
    mal.commit(await unreadableBy(mal, victims))
    for (const player of [bob, cid]) player.send(`by ${player.name}`).catch(() => {})
    for (const player of [cid, bob]) player.channel.upkeep.rekey().catch(() => {})
    await stage.settle()
    for (const words of ['the last', 'word']) {
      ann.send(words).catch(() => {})
      await stage.settle()
    }
    for (const player of [bob, cid]) assert.ok([ann.view, 'mls_error'].includes(player.view), player.name)
    const isWithOwner = (player: Player): boolean => victims.includes(player) === victims.includes(ann)
    assert.deepEqual(
      failures(bob, cid),
      [bob, cid].map((player) => (isWithOwner(player) ? undefined : 'mls_error')),
    )
    assert.equal(ann.channel.failure, undefined)
  })
}

test('an epoch number is no proof: one guest cannot stop a channel by naming a higher epoch', async () => {
  const all = await scene()
  const { stage, ann, bob, cid, mal } = all
  await rekey(all, ann)
  const epoch = BigInt(ann.epoch)
  mal.put(ofEpoch(mal, epoch + 1n))
  mal.commit(ofEpoch(mal, epoch + 5n))
  // Nor after garbage of its own, nor by somebody whom nobody has added.
  mal.commit(GARBAGE)
  mal.put(ofEpoch(mal, epoch + 1n))
  await stage.settle()
  assert.deepEqual(failures(ann, bob, cid), [undefined, undefined, undefined])
  await say(all, bob, 'on')
  assert.deepEqual([await ann.take(), await cid.take()], [['on'], ['on']])
})

test('an agent that joined with a Welcome is not stopped by a number either, unless it is the owner’s', async () => {
  const all = await scene()
  const { stage, ann, bob, cid, mal } = all
  await say(all, ann, 'welcome')
  mal.put(ofEpoch(mal, BigInt(ann.epoch) + 1n))
  await stage.settle()
  // Ann, who owns the channel, hears nobody but mal.
  assert.deepEqual(failures(bob, cid), [undefined, undefined])
  const fresh = await scene()
  fresh.mal.put(ofEpoch(fresh.mal, BigInt(fresh.bob.epoch) + 1n))
  await fresh.stage.settle()
  assert.deepEqual(failures(fresh.bob), [undefined])
  // The owner's number counts.
  const entry = fresh.stage.log.at(-1)
  assert.ok(entry?.kind === 'message')
  fresh.stage.append({ ...entry, sender: hex(fresh.ann.channel.group!.facts.own.agentId) })
  await fresh.stage.settle()
  assert.deepEqual(failures(fresh.bob), ['mls_error'])
})

test('an agent added only by the commit in doubt does not count as another member', async () => {
  const all = await scene()
  const { stage, ann, bob, cid, mal } = all
  await rekey(all, ann)
  const [, agentId] = await add('eve')
  mal.commit(await unreadableBy(mal, [ann, bob, cid]))
  const message = ofEpoch(mal, BigInt(ann.epoch) + 1n)
  mal.put(message)
  const entry = stage.log.at(-1)
  assert.ok(entry?.kind === 'message')
  const { slot } = stage.position
  stage.append({ ...entry, sender: hex(agentId), slot })
  await stage.settle()
  assert.deepEqual(failures(ann, bob, cid), [undefined, undefined, undefined])
})

for (const kind of ['garbage', 'unreadable'] as const) {
  test(`two agents of one guest cannot stop a channel: a commit by one (${kind}), a number by the other`, async () => {
    const all = await twoOfOne()
    const { stage, ann, bob, cid, mal, eve } = all
    await rekey(all, ann)
    mal.commit(kind === 'garbage' ? GARBAGE : await unreadableBy(mal, [ann, bob, cid]))
    eve.put(ofEpoch(eve, BigInt(ann.epoch) + 1n))
    await stage.settle()
    assert.deepEqual(failures(ann, bob, cid), [undefined, undefined, undefined])
  })
}

for (const first of ['garbage', 'another invalid commit'] as const) {
  test(`a barred member does not escape its bar by naming another epoch: ${first}, even after a restart`, async () => {
    for (const restarts of [false, true]) {
      const all = await scene()
      const { stage, ann, mal } = all
      await rekey(all, ann)
      await rekeyMal(all)
      const slots = [
        first === 'garbage'
          ? mal.commit(GARBAGE)
          : mal.commit(await bare(mal.mls, []), { adds: [GARBAGE.slice(0, 32)] }),
      ]
      await stage.settle()
      if (restarts) ann.restart()
      slots.push(mal.commit(await numbered(mal, 99n)))
      await stage.settle()
      const votes = stage.votes.filter((vote) => vote.startsWith('ann'))
      assert.deepEqual([votes, stage.lifted], [slots.map((slot) => `ann ${slot}`), []])
    }
  })
}

test('a bar is lifted once, until the owner has sent in a later epoch', async () => {
  const all = await scene()
  const { stage, ann, mal } = all
  await rekey(all, ann)
  for (let round = 0; round < 4; round++) {
    await rekeyMal(all)
    mal.commit(await numbered(mal, 99n))
    await stage.settle()
  }
  assert.deepEqual(stage.lifted, [`ann ${mal.agentId}`])
  await say(all, ann, 'here I am')
  await rekeyMal(all)
  mal.commit(await numbered(mal, 99n))
  await stage.settle()
  assert.deepEqual(stage.lifted.length, 1, 'the epoch of the last one is no later one')
  await rekeyMal(all)
  await say(all, ann, 'still here')
  await rekeyMal(all)
  mal.commit(await numbered(mal, 99n))
  await stage.settle()
  assert.equal(stage.lifted.length, 2)
})

/** Ann owns the channel; mal and eve are agents of one guest. */
async function twoOfOne(): Promise<Scene & { readonly eve: Apart }> {
  const stage = await Stage.start(['ann', 'bob', 'cid', 'mal', 'eve'], { apart: ['mal', 'eve'] })
  const [ann, bob, cid] = ['ann', 'bob', 'cid'].map((name) => stage.player(name)) as [Player, Player, Player]
  return { stage, ann, bob, cid, mal: new Apart(stage, 'mal'), eve: new Apart(stage, 'eve') }
}

test('two members whose commits are in doubt both stay barred, and neither settles the other’s commit', async () => {
  const all = await twoOfOne()
  const { stage, ann, bob, cid, mal, eve } = all
  await rekey(all, ann, eve)
  const slots = [mal.commit(await unreadableBy(mal, [ann, bob, cid]))]
  slots.push(eve.commit(await unreadableBy(eve, [ann, bob, cid])), mal.commit(await numbered(mal, 99n)))
  mal.say(mal.frame('in the old epoch'))
  slots.push(mal.commit(GARBAGE))
  await stage.settleOnly(bob, cid)
  assert.deepEqual(stage.votes, [])
  await stage.settle()
  assert.deepEqual([stage.votes, stage.lifted], [slots.map((slot) => `ann ${slot}`), []])
})

for (const who of ['a newcomer', 'a restarted member'] as const) {
  test(`two agents of one guest cannot stop ${who} with garbage and a number`, async () => {
    const all = await twoOfOne()
    const { stage, ann, bob, mal, eve } = all
    let victim = bob
    if (who === 'a newcomer') {
      const dan = await outsider(stage, 'dan')
      const added = ann.channel.committer.commit(() => ({ adds: [dan.keyPackage] }))
      await stage.settle()
      const { welcomes } = await added
      victim = await dan.join(welcomes[0]!.welcome)
    } else {
      await say(all, ann, 'hello')
      victim = bob.restart()
    }
    await stage.settle()
    mal.commit(GARBAGE)
    eve.put(ofEpoch(eve, 99n))
    await stage.settle()
    assert.deepEqual(failures(victim), [undefined])
    assert.equal(victim.told('commit_skipped').length, 1)
  })
}
