import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sha256 } from '#platform/crypto'
import { create } from '@bufbuild/protobuf'
import { declarationBytes, type StaticError } from '@static/protocol'
import {
  DeclarationSchema,
  DeliverCommitSchema,
  type SendCommitRequest,
  SendCommitRequestSchema,
  SendMessageRequestSchema,
} from '@static/protocol/relay'
import { makePending, type Pending } from '../../src/channel/members/commits.ts'
import { GroupState } from '../../src/channel/group-state.ts'
import { outsider, type Player, Stage } from '../support/stage.ts'
import { randomNumbers, SEED } from '@static/testkit/random'

const MINUTE = 60_000
/** More of them with STATIC_LONG=1. */
const [ROUNDS, LIVES] = process.env['STATIC_LONG'] === '1' ? [50, 10] : [8, 3]
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

const views = (stage: Stage): number => new Set(stage.players.map(({ view }) => view)).size

/** The commits in the log, by the names of their senders. */
function commits(stage: Stage): string[] {
  return stage.log.filter(({ kind }) => kind === 'commit').map(({ sender }) => nameOf(stage, sender))
}

/** The heartbeats in the log, by the names of their senders. */
function heartbeats(stage: Stage): string[] {
  return stage.log
    .filter((entry) => entry.kind === 'message' && entry.request.control)
    .map(({ sender }) => nameOf(stage, sender))
}

function nameOf({ players }: Stage, agent: string): string {
  return players.find(({ agentId }) => agentId === agent)?.name ?? agent
}

/** Sends, and lets everything happen that comes of it. */
async function say(stage: Stage, player: Player, words: string): Promise<void> {
  const sent = player.send(words)
  await stage.settle()
  await sent
}

async function rotate(stage: Stage, player: Player): Promise<void> {
  const rotated = player.channel.upkeep.rekey()
  await stage.settle()
  await rotated
}

/** A commit that its member makes and does not adopt. */
async function commitOf(player: Player): Promise<SendCommitRequest> {
  const { group, history, id } = player.channel
  const job = { change: () => ({}), done: () => {}, failed: () => {} }
  return (await makePending(player, id, group ?? assert.fail(), job, {}, history.position.slot)).request
}

test('a commit whose adds the relay would not count in full is not sent, unless the owner makes it', async () => {
  const stage = await Stage.start(['owner', 'ann'])
  const adds = await Promise.all(
    Array.from({ length: 20 }, async (_, at) => (await outsider(stage, `${at}`)).keyPackage),
  )
  const by = async (name: string, count: number): Promise<Pending> => {
    const player = stage.player(name)
    const { group, history, id } = player.channel
    const job = { change: () => ({}), done: () => {}, failed: () => {} }
    const change = { adds: adds.slice(0, count) }
    return await makePending(player, id, group ?? assert.fail(), job, change, history.position.slot)
  }
  await assert.rejects(by('ann', 20), { code: 'too_large' })
  assert.equal((await by('ann', 10)).welcomes.length, 10)
  assert.equal((await by('owner', 20)).welcomes.length, 20)
})

// ---- Re-key ----

test('the first add to a single-member group is followed by a re-key before anything else', async () => {
  const stage = await Stage.start(['ann'])
  const ann = stage.player('ann')
  const before = ann.epoch
  const bob = await outsider(stage, 'bob')
  const added = ann.channel.committer.commit(() => ({ adds: [bob.keyPackage] }))
  const sent = ann.send('in the epoch after the re-key')
  await stage.settle()
  const { welcomes } = await added
  await sent
  assert.equal(ann.channel.upkeep.isRekeyDue, false)
  assert.equal(ann.epoch, before + 2)
  assert.deepEqual(
    stage.log.map(({ kind, slot }) => `${kind} ${slot}`),
    ['commit 0', 'commit 1', 'message 2'],
  )
  const joined = await bob.join(welcomes[0]!.welcome)
  await stage.settle()
  assert.deepEqual(await joined.take(), ['in the epoch after the re-key'])
  // The next one is added to a group that was not alone.
  const cid = await outsider(stage, 'cid')
  const second = ann.channel.committer.commit(() => ({ adds: [cid.keyPackage] }))
  await stage.settle()
  await second
  assert.equal(ann.epoch, before + 3)
})

for (const made of [true, false]) {
  test(`a program that ends after the first add re-keys when it starts again, with the re-key ${made ? 'created' : 'not created'} before`, async () => {
    const stage = await Stage.start(['ann'])
    let ann = stage.player('ann')
    const bob = await outsider(stage, 'bob')
    // The relay takes the first commit and nothing after it.
    stage.refuse = (_, body) =>
      body.case === 'sendCommit' && stage.log.length > 0 ? { code: 'unavailable', retryAfterMs: HOUR } : undefined
    const added = ann.channel.committer.commit(() => ({ adds: [bob.keyPackage] }))
    await stage.settle()
    const { welcomes } = await added
    assert.equal(ann.channel.upkeep.isRekeyDue, true)
    if (!made) ann.store.write([{ type: 'putPending', id: ann.channel.id, pending: undefined }])
    stage.refuse = () => undefined
    ann = ann.restart()
    const before = ann.epoch
    // The relay has deferred it until the program gave up, so it is not due again at once.
    await stage.advance(MINUTE)
    await say(stage, ann, 'after')
    assert.equal(ann.channel.upkeep.isRekeyDue, false)
    assert.ok(ann.epoch > before)
    assert.equal(stage.log.at(-1)?.kind, 'message')
    assert.equal(stage.log.at(-2)?.kind, 'commit')
    const joined = await bob.join(welcomes[0]!.welcome)
    await stage.settle()
    assert.deepEqual(await joined.take(), ['after'])
  })
}

test('a program that ends before its add was answered sends it again, followed by the re-key', async () => {
  const stage = await Stage.start(['ann'])
  let ann = stage.player('ann')
  const bob = await outsider(stage, 'bob')
  ann.channel.committer.commit(() => ({ adds: [bob.keyPackage] })).catch(() => {})
  await ann.channel.idle()
  ann.journal.flush()
  // Stored, perhaps sent: nobody knows.
  ann = ann.restart()
  await stage.settle()
  assert.equal(ann.channel.upkeep.isRekeyDue, false)
  assert.equal(ann.channel.group?.members.size, 2)
  assert.ok(commits(stage).length >= 2)
})

test('after a day each member replaces its keys once, not all at the same moment', async () => {
  const stage = await Stage.start(['ann', 'bob'], {
    players: { ann: { chance: () => 0 }, bob: { chance: () => 0.9 } },
  })
  await stage.advance(DAY, HOUR)
  assert.deepEqual(commits(stage), [])
  await stage.advance(HOUR, HOUR)
  assert.deepEqual(commits(stage), ['ann'])
  assert.equal(stage.player('ann').told('rekeyed').length, 1)
  // Another member's commit makes this agent's keys no newer.
  await stage.advance(2 * HOUR, HOUR)
  assert.deepEqual(commits(stage), ['ann', 'bob'])
  await stage.advance(20 * HOUR, HOUR)
  assert.equal(commits(stage).length, 2)
  assert.equal(views(stage), 1)
})

test('after 10,000 messages the keys are replaced and the count starts over, even across a restart', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  let ann = stage.player('ann')
  ann.channel.sender.sentSinceRekey = 9998
  await say(stage, ann, 'one')
  ann = ann.restart()
  await stage.settle()
  assert.deepEqual(commits(stage), [])
  await say(stage, ann, 'two')
  assert.deepEqual(commits(stage), ['ann'])
  // The one that met the re-key was encrypted once more.
  assert.ok(ann.channel.sender.sentSinceRekey <= 1)
  await say(stage, ann, 'three')
  assert.deepEqual(commits(stage), ['ann'])
  assert.deepEqual(await stage.player('bob').take(), ['one', 'two', 'three'])
})

test('a re-key that becomes due while commits must wait is requested once', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const ann = stage.player('ann')
  stage.refuse = (_, body) =>
    body.case === 'sendCommit' ? { code: 'epoch_mismatch', head: 0n, retryAfterMs: MINUTE } : undefined
  const added = ann.channel.committer.commit(() => ({ adds: [] }))
  await stage.settle()
  ann.channel.sender.sentSinceRekey = 9999
  await say(stage, ann, 'the last one')
  await say(stage, ann, 'one more')
  stage.refuse = () => undefined
  await stage.advance(2 * MINUTE)
  await added
  // The one that waited, and the re-key.
  assert.deepEqual(commits(stage), ['ann', 'ann'])
})

test('a re-key that the relay refuses is retried after a while, not at once', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const ann = stage.player('ann')
  let tries = 0
  stage.refuse = (_, body) => {
    if (body.case !== 'sendCommit' || ++tries > 50) return undefined
    return { code: 'not_allowed' }
  }
  ann.channel.sender.sentSinceRekey = 9999
  await say(stage, ann, 'the last one')
  assert.equal(tries, 1)
  await stage.advance(59_000)
  assert.equal(tries, 1)
  await stage.advance(2 * MINUTE)
  assert.equal(tries, 3)
  assert.deepEqual(commits(stage), [])
})

// ---- Waiting ----

test('a timer that fires a little early by the clock still ends the wait', async () => {
  const stage = await Stage.start(['ann', 'bob'], { players: { ann: { early: 1 } } })
  const ann = stage.player('ann')
  let refusals = 2
  stage.refuse = (_, { case: name }) => {
    if (refusals === 0 || (name !== 'sendMessage' && name !== 'sendCommit')) return undefined
    refusals--
    return name === 'sendCommit'
      ? { code: 'epoch_mismatch', head: 0n, retryAfterMs: 100 }
      : { code: 'unavailable', retryAfterMs: 100 }
  }
  const rekeyed = ann.channel.upkeep.rekey()
  await stage.settle()
  const sent = ann.send('words')
  await stage.settle()
  assert.equal(refusals, 0)
  assert.equal(stage.log.length, 0)
  // Nothing else happens that would wake it.
  await stage.advance(99, 99)
  await Promise.all([rekeyed, sent])
  assert.deepEqual(await stage.player('bob').take(), ['words'])
})

// ---- Heartbeat ----

test('a member that only reads reports what it has seen after a minute, once', async () => {
  const stage = await Stage.start(['ann', 'bob'], { players: { bob: { chance: () => 0 } } })
  await say(stage, stage.player('ann'), 'hello')
  await stage.advance(55_000)
  assert.deepEqual(heartbeats(stage), [])
  await stage.advance(10_000)
  assert.deepEqual(heartbeats(stage), ['bob'])
  // Nobody answers a heartbeat.
  await stage.advance(HOUR)
  assert.deepEqual(heartbeats(stage), ['bob'])
  assert.deepEqual(await stage.player('ann').take(), [])
  // It covers the message.
  assert.equal(stage.player('ann').channel.history.confirmed, 1)
  await say(stage, stage.player('ann'), 'again')
  await stage.advance(2 * MINUTE)
  assert.deepEqual(heartbeats(stage), ['bob', 'bob'])
})

test('one heartbeat is enough for all members that only read', async () => {
  const stage = await Stage.start(['ann', 'bob', 'cid', 'dan'], {
    players: { bob: { chance: () => 0.9 }, cid: { chance: () => 0 }, dan: { chance: () => 0.5 } },
  })
  await say(stage, stage.player('ann'), 'hello')
  await stage.advance(HOUR)
  assert.deepEqual(heartbeats(stage), ['cid'])
})

test("a member that has sent since, got another member's report, or is alone sends no heartbeat", async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  await say(stage, ann, 'hello')
  await stage.advance(30_000)
  await say(stage, bob, 'answer')
  // The answer has told what bob saw, and ann must tell that she saw it.
  await stage.advance(50_000)
  assert.deepEqual(heartbeats(stage), [])
  await say(stage, ann, 'thanks')
  await stage.advance(30_000)
  await say(stage, bob, 'bye')
  await stage.advance(HOUR)
  assert.deepEqual(heartbeats(stage), ['ann'])
  const alone = await Stage.start(['ann'])
  await say(alone, alone.player('ann'), 'hello')
  await alone.advance(HOUR)
  assert.deepEqual(heartbeats(alone), [])
})

test('a commit by another member is also reported as seen', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  await rotate(stage, stage.player('ann'))
  await stage.advance(5 * MINUTE)
  assert.deepEqual(heartbeats(stage), ['bob'])
})

// ---- Lies ----

test('a declaration that its sender has not signed is a lie of the relay: the channel stops', async () => {
  const stage = await Stage.start(['ann', 'bob', 'cid'])
  const [ann, bob, cid] = [stage.player('ann'), stage.player('bob'), stage.player('cid')]
  const request = await commitOf(bob)
  const { declaration } = request
  assert.ok(declaration)
  const { slot } = stage.position
  const forged = create(SendCommitRequestSchema, {
    ...request,
    declaration: { ...declaration, adds: [new Uint8Array(32)] },
  })
  stage.append({ kind: 'commit', sender: bob.agentId, slot, request: forged })
  bob.online = false
  await stage.settle()
  for (const player of [ann, cid]) {
    assert.deepEqual(player.told('commit_skipped'), [])
    assert.equal(player.channel.failure?.code, 'mls_error')
    assert.match(
      player.told('channel_failed')[0]?.error.message ?? '',
      /declaration of a commit has an invalid signature/,
    )
    await assert.rejects(player.send('x'), { code: 'mls_error' })
  }
  assert.deepEqual(stage.votes, [])
})

test('so is a declaration for another slot, another commit or another channel', async () => {
  for (const change of ['slot', 'commit', 'messageId'] as const) {
    const stage = await Stage.start(['ann', 'bob'])
    const [ann, bob] = [stage.player('ann'), stage.player('bob')]
    const request = await commitOf(bob)
    const { slot } = stage.position
    if (change === 'commit') request.commit = (await commitOf(bob)).commit
    if (change === 'messageId') request.messageId = new Uint8Array(16)
    stage.append({ kind: 'commit', sender: bob.agentId, slot: change === 'slot' ? slot + 1 : slot, request })
    bob.online = false
    await stage.settle()
    assert.equal(ann.channel.failure?.code, 'mls_error', change)
  }
})

test('a message of a higher epoch after a skipped commit shows that others have followed it', async () => {
  const stage = await Stage.start(['ann', 'bob', 'cid'])
  const [ann, bob, cid] = [stage.player('ann'), stage.player('bob'), stage.player('cid')]
  // Ann is given bytes that nobody made, bob and cid follow the real commit: MLS has no cure for that.
  const real = await commitOf(bob)
  const { slot } = stage.position
  const result = await cid.engine.process(cid.channel.group!.group, real.commit, {
    declaration: { adds: [], removes: [], leaveNotices: [], vouches: [] },
    declarer: Buffer.from(bob.agentId, 'hex'),
  })
  assert.ok(result.kind === 'accepted' && result.next)
  cid.online = false
  bob.online = false
  const garbage = create(SendCommitRequestSchema, { ...(await commitOf(bob)), commit: new Uint8Array(200).fill(1) })
  stage.append({ kind: 'commit', sender: bob.agentId, slot, request: signed(stage, bob, garbage) })
  await stage.settle()
  assert.equal(ann.told('commit_skipped').length, 1)
  const before = ann.view
  const { ciphertext } = new GroupState(cid.engine, result.next, cid.channel.group!.place).seal(new Uint8Array(100))
  const request = create(SendMessageRequestSchema, { messageId: new Uint8Array(16), counter: 1n, ciphertext })
  stage.append({ kind: 'message', sender: cid.agentId, slot: stage.position.slot, request })
  await stage.settle()
  assert.notEqual(ann.view, before)
  assert.equal(ann.view, 'mls_error')
  assert.match(ann.told('channel_failed')[0]?.error.message ?? '', /could not follow/)
  await assert.rejects(
    ann.channel.committer.commit(() => ({})),
    { code: 'mls_error' },
  )
})

function signed(stage: Stage, player: Player, request: SendCommitRequest): SendCommitRequest {
  const { channelId } = stage
  const { slot, messageId, commit } = request
  const place = { channelId, slot, messageId, commitHash: sha256(commit) }
  const declaration = create(DeclarationSchema)
  declaration.signature = player.sign(declarationBytes(place, declaration))
  return create(SendCommitRequestSchema, { ...request, declaration })
}

// ---- The end ----

test('a channel that ends while a commit is created or followed stays ended and keeps no group', async () => {
  const stage = await Stage.start(['ann', 'bob', 'cid'])
  const [ann, bob, cid] = [stage.player('ann'), stage.player('bob'), stage.player('cid')]
  const request = await commitOf(ann)
  const made = bob.channel.committer.commit(() => ({}))
  bob.channel.over('not_found')
  await assert.rejects(made, { code: 'not_found' })
  const { channelId } = stage
  const { messageId, slot, commit, declaration } = request
  const sender = Buffer.from(ann.agentId, 'hex')
  const fields = { channelId, index: 1n, slot, sender, messageId, commit, declaration: declaration! }
  cid.channel.intake.deliver({ case: 'deliverCommit', value: create(DeliverCommitSchema, fields) })
  cid.channel.over('not_found')
  for (const { channel, journal, store } of [bob, cid]) {
    await channel.idle()
    journal.flush()
    assert.equal(channel.group, undefined)
    const [stored] = store.load().channels
    assert.equal(stored?.record.state, 'ended')
    assert.equal(stored?.epoch, undefined)
    assert.equal(stored?.pending, undefined)
  }
  // Of a group that is gone nothing is told, least of all that somebody broke the rules.
  assert.deepEqual(cid.told('commit_skipped'), [])
})

// ---- Everything at once ----

test(`three members commit at the same time for ${ROUNDS} rounds`, async (t) => {
  t.diagnostic(`seed ${SEED}`)
  const stage = await Stage.start(['a', 'b', 'c'], { seed: SEED })
  const before = stage.players[0]!.epoch
  for (let round = 1; round <= ROUNDS; round++) {
    const rotated = Promise.all(stage.players.map(({ channel }) => channel.upkeep.rekey()))
    while (stage.position.slot < 3 * round) await stage.advance(10, 1)
    await rotated
    assert.equal(views(stage), 1)
  }
  assert.equal(stage.players[0]!.epoch, before + 3 * ROUNDS)
  await Promise.all([...stage.players.map((player) => player.send(player.name)), stage.settle()])
  assert.deepEqual((await stage.players[0]!.take()).sort(), ['b', 'c'])
})

test('members commit, send, lose sessions and are killed: all agree, and nothing sent is lost or duplicated', async (t) => {
  for (const seed of Array.from({ length: LIVES }, (_, n) => SEED + n)) {
    t.diagnostic(`seed ${seed}`)
    await life(seed)
  }
})

async function life(seed: number): Promise<void> {
  const chance = randomNumbers(seed)
  const stage = await Stage.start(['ann', 'bob', 'cid', 'dan'], { seed })
  const names = stage.players.map(({ name }) => name)
  const sent = new Map<string, string[]>(names.map((name) => [name, []]))
  const taken = new Set<string>()
  stage.refuse = (_, { case: name }) => {
    if (name !== 'sendMessage' && name !== 'sendCommit') return undefined
    const what = chance()
    if (what < 0.05) return { code: 'unavailable', retryAfterMs: 500 }
    return what < 0.07 && name === 'sendMessage' ? { code: 'quota_exceeded' } : undefined
  }
  for (let step = 0; step < 60; step++) {
    const name = names[Math.floor(chance() * names.length)]!
    const player = stage.player(name)
    const what = chance()
    if (what < 0.6) {
      const words = `${name} ${step}`
      sent.get(name)!.push(words)
      player.send(words).then(
        () => taken.add(words),
        // Given up, and said so.
        (error: unknown) => assert.equal((error as StaticError).code, 'quota_exceeded'),
      )
    } else if (what < 0.8) player.channel.upkeep.rekey().catch((error: unknown) => assert.fail(String(error)))
    else if (what < 0.9) {
      player.lose(Math.floor(3 * chance()))
      player.resume()
    } else player.restart(Math.floor(3 * chance()))
    // Mostly the next step meets what is under way.
    if (chance() < 0.3) await stage.settle()
    else if (chance() < 0.5) for (const { journal } of stage.players) journal.flush()
  }
  stage.refuse = () => undefined
  await stage.advance(10_000, 1000)
  assert.equal(views(stage), 1)
  for (const player of stage.players) {
    const got = await player.take()
    for (const [name, words] of sent) {
      if (name === player.name) continue
      const from = got.filter((text) => text.startsWith(`${name} `))
      // What a killed program had not stored is not sent; all that is, once and in order.
      assert.deepEqual(
        from,
        words.filter((text) => from.includes(text)),
      )
      for (const text of words) if (taken.has(text)) assert.ok(from.includes(text), text)
    }
  }
}
