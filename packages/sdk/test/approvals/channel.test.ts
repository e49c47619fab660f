/** Approvals in a channel: who may ask and decide, what counts, and what a restart keeps. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { ed25519 } from '#platform/crypto'
import { fromHex, toHex } from '@static/protocol'
import { decodeDecision, makeDecision } from '../../src/approvals/decision.ts'
import { checkRecord, encodeRecord } from '../../src/approvals/record.ts'
import { type ApprovalRequest, approvalHash, encodeApproval } from '../../src/approvals/request.ts'
import type { NewApproval } from '../../src/channel/approving/approvals.ts'
import type { FinalState, HeldApproval } from '../../src/channel/approving/held-approval.ts'
import { encodeFrame, type FrameKind } from '../../src/channel/sending/message-frame.ts'
import { packIdOf } from '../../src/channel/sending/pack.ts'
import { Apart } from '../support/apart.ts'
import { type Player, Stage } from '../support/stage.ts'

const MINUTE = 60_000
const DAY = 24 * 60 * MINUTE
const ACTION = new TextEncoder().encode('{"deploy":"1.4.2"}')
const NAMES = ['ann', 'ada', 'ben', 'cy', 'dan']

interface Scene {
  readonly stage: Stage
  readonly mallory: Apart
}

async function scene(): Promise<Scene> {
  const stage = await Stage.start([...NAMES, 'mallory'], { apart: ['mallory'] })
  return { stage, mallory: new Apart(stage, 'mallory') }
}

/** Ann asks ada, ben and cy, two of whom must approve. */
async function asked(stage: Stage, change: Partial<NewApproval> = {}): Promise<HeldApproval> {
  const from = ['ada', 'ben', 'cy'].map((name) => stage.player(name).agentId).toSorted()
  const wish = { title: 'Deploy', text: '', risk: '', action: ACTION, from, need: 2, waitMs: 15 * MINUTE, ...change }
  const made = stage.player('ann').channel.approvals.request(wish, {})
  made.catch(() => {})
  await stage.settleWithPrograms()
  return await made
}

/** The approval as a player has it. */
const seen = (player: Player, { id }: HeldApproval): HeldApproval | undefined =>
  player.channel.approvals.list().find((held) => held.id === id)

async function decide(stage: Stage, name: string, held: HeldApproval, choice: 'approve' | 'deny'): Promise<void> {
  const player = stage.player(name)
  const done = player.channel.approvals.decide(seen(player, held) ?? assert.fail(`${name} has none`), choice, false)
  done.catch(() => {})
  await stage.settleWithPrograms()
  await done
}

const stateOf = (player: Player, held: HeldApproval): string | undefined =>
  seen(player, held)?.outcome(player.channel.approvals.clockOf(held)).state

/** What the asker is told. */
async function toldTo(stage: Stage, held: HeldApproval): Promise<FinalState> {
  const { approvals } = stage.player('ann').channel
  const told = approvals.outcome(seen(stage.player('ann'), held) ?? assert.fail(), {})
  await stage.settleWithPrograms()
  return await told
}

async function spent(stage: Stage, held: HeldApproval): Promise<string> {
  const spending = stage.player('ann').channel.approvals.spend(seen(stage.player('ann'), held) ?? assert.fail(), {})
  const settled = spending.then((action) => Buffer.from(action).toString())
  settled.catch(() => {})
  await stage.settleWithPrograms()
  return await settled
}

function say(mallory: Apart, kind: FrameKind, payload: Uint8Array): void {
  const { counter, previous, stage } = mallory
  const messageId = packIdOf(randomBytes(16))
  mallory.say(encodeFrame({ kind, messageId, counter: counter + 1, previous, seen: stage.position, payload }))
}

const ignored = (player: Player): string[] => player.told('approval_ignored').map(({ reason }) => reason)

/** A request by Mallory that Ada may decide on. */
function wanted({ stage, mallory }: Scene, change: Partial<ApprovalRequest> = {}): Uint8Array {
  return encodeApproval({
    channelId: stage.channelId,
    asker: mallory.agentId,
    requestId: new Uint8Array(randomBytes(16)),
    deadline: stage.now + 15 * MINUTE,
    need: 1,
    from: [stage.player('ada').agentId],
    title: 'Deploy',
    text: '',
    risk: '',
    action: ACTION,
    ...change,
  })
}

test('two of three approve: everybody asked sees it, readers of messages see nothing', async () => {
  const { stage } = await scene()
  const held = await asked(stage)
  const [ann, ada, ben, dan] = ['ann', 'ada', 'ben', 'dan'].map((name) => stage.player(name)) as [
    Player,
    Player,
    Player,
    Player,
  ]
  assert.deepEqual(
    ada.told('approval_requested').map(({ asker, approval }) => [asker, approval]),
    [[ann.agentId, held.id]],
  )
  assert.equal(seen(dan, held), undefined)
  await decide(stage, 'ada', held, 'approve')
  assert.equal(stateOf(ann, held), 'pending')
  await decide(stage, 'ben', held, 'approve')
  assert.equal(await toldTo(stage, held), 'approved')
  for (const player of [ann, ada, ben]) assert.equal(stateOf(player, held), 'approved', player.name)
  assert.deepEqual(
    ann.told('approval_over').map(({ decision }) => decision),
    ['approved'],
  )
  assert.equal(await spent(stage, held), '{"deploy":"1.4.2"}')
  for (const player of stage.players) {
    assert.deepEqual(await player.take(), [], player.name)
    assert.equal(player.channel.requests.inbox.isEmpty, true)
    assert.deepEqual(ignored(player), [])
  }
})

test('an approval permits one execution, and nothing before it is approved', async () => {
  const { stage } = await scene()
  const held = await asked(stage)
  await assert.rejects(spent(stage, held), { code: 'not_allowed', message: /it is pending/ })
  await decide(stage, 'ada', held, 'approve')
  await decide(stage, 'ben', held, 'approve')
  const { approvals } = stage.player('ann').channel
  const own = seen(stage.player('ann'), held) ?? assert.fail()
  const twice = [approvals.spend(own, {}), approvals.spend(own, {})]
  for (const each of twice) each.catch(() => {})
  await stage.settleWithPrograms()
  const states = (await Promise.allSettled(twice)).map(({ status }) => status)
  assert.deepEqual(states, ['fulfilled', 'rejected'])
  await assert.rejects(spent(stage, held), { code: 'not_allowed', message: /ask again/ })
  stage.player('ann').restart()
  await stage.settleWithPrograms()
  await assert.rejects(spent(stage, held), { code: 'not_allowed', message: /ask again/ })
  // Those who were asked cannot use it.
  const ada = stage.player('ada')
  await assert.rejects(ada.channel.approvals.spend(seen(ada, held) ?? assert.fail(), {}), { code: 'not_allowed' })
})

test('what is forgotten is neither used nor decided', async () => {
  const { stage } = await scene()
  const held = await asked(stage)
  await decide(stage, 'ada', held, 'approve')
  await decide(stage, 'ben', held, 'approve')
  const { approvals } = stage.player('ann').channel
  const own = seen(stage.player('ann'), held) ?? assert.fail()
  const cy = stage.player('cy')
  const others = seen(cy, held) ?? assert.fail()
  const ann = stage.player('ann')
  // The asker forgets it a week after the deadline, and Cy at the deadline, by a clock that is then put right.
  ann.skew = 8 * DAY
  cy.skew = 15 * MINUTE
  for (const { channel } of [ann, cy]) channel.approvals.tick()
  cy.skew = 0
  assert.deepEqual([seen(ann, held), seen(cy, held)], [undefined, undefined])
  for (let time = 0; time < 2; time++) {
    const using = approvals.spend(own, {})
    using.catch(() => {})
    const deciding = cy.channel.approvals.decide(others, 'deny', false)
    deciding.catch(() => {})
    await stage.settleWithPrograms()
    await assert.rejects(using, { code: 'not_allowed', message: /is forgotten/ })
    await assert.rejects(deciding, { code: 'not_allowed', message: /is forgotten/ })
  }
})

test('two deny: it is denied; the first decision of each is final', async () => {
  const { stage } = await scene()
  const held = await asked(stage)
  await decide(stage, 'ada', held, 'deny')
  await assert.rejects(decide(stage, 'ada', held, 'approve'), {
    code: 'not_allowed',
    message: /first decision is final/,
  })
  await decide(stage, 'cy', held, 'deny')
  assert.equal(await toldTo(stage, held), 'denied')
  await decide(stage, 'ben', held, 'approve')
  await assert.rejects(spent(stage, held), { code: 'not_allowed', message: /it is denied/ })
})

test('two decide at once, and one of them again before the first is stored: each counts once', async () => {
  const { stage } = await scene()
  const held = await asked(stage)
  const [ada, ben] = [stage.player('ada'), stage.player('ben')]
  const deciding = [
    ada.channel.approvals.decide(seen(ada, held) ?? assert.fail(), 'approve', false),
    ben.channel.approvals.decide(seen(ben, held) ?? assert.fail(), 'approve', false),
    ada.channel.approvals.decide(seen(ada, held) ?? assert.fail(), 'deny', false),
  ]
  for (const each of deciding) each.catch(() => {})
  await stage.settleWithPrograms()
  assert.deepEqual(
    (await Promise.allSettled(deciding)).map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'rejected'],
  )
  assert.equal(await toldTo(stage, held), 'approved')
})

test('asking checks who is asked: not oneself, no stranger, and at most eight at once', async () => {
  const { stage } = await scene()
  const { agentId } = stage.player('ann')
  await assert.rejects(asked(stage, { from: [agentId], need: 1 }), {
    code: 'invalid_request',
    message: /cannot decide/,
  })
  await assert.rejects(asked(stage, { from: ['ff'.repeat(32)], need: 1 }), { code: 'not_found' })
  const wish = {
    title: 'x',
    text: '',
    risk: '',
    action: ACTION,
    from: [stage.player('ada').agentId],
    need: 1,
    waitMs: MINUTE,
  }
  const all = Array.from({ length: 9 }, () => stage.player('ann').channel.approvals.request(wish, {}))
  for (const each of all) each.catch(() => {})
  await stage.settleWithPrograms()
  const failed = (await Promise.allSettled(all)).filter(({ status }) => status === 'rejected')
  assert.deepEqual(
    failed.map((each) => (each as PromiseRejectedResult).reason.code),
    ['queue_full'],
  )
  assert.equal(stage.player('ada').channel.approvals.list().length, 8)
})

test('a member can ask for itself alone, here, with a deadline within a week, eight times at once', async () => {
  const all = await scene()
  const { stage, mallory } = all
  const ada = stage.player('ada')
  say(mallory, 'approval', wanted(all, { asker: stage.player('ann').agentId }))
  say(mallory, 'approval', wanted(all, { channelId: new Uint8Array(16) }))
  say(mallory, 'approval', wanted(all, { deadline: stage.now }))
  say(mallory, 'approval', wanted(all, { deadline: stage.now + 8 * DAY }))
  const good = wanted(all)
  say(mallory, 'approval', good)
  say(mallory, 'approval', good)
  say(mallory, 'approval', wanted(all, { from: [stage.player('ben').agentId] }))
  await stage.settle()
  assert.deepEqual(ignored(ada), ['not_asker', 'elsewhere', 'late', 'late', 'repeated'])
  assert.deepEqual(
    ada.channel.approvals.list().map(({ id }) => id),
    [toHex(approvalHash(good))],
  )
  for (let number = 0; number < 10; number++) say(mallory, 'approval', wanted(all))
  await stage.settle()
  assert.equal(ada.channel.approvals.list().length, 8)
  assert.deepEqual(ignored(ada).slice(5), ['too_many', 'too_many', 'too_many'])
  // Those that are over do not count.
  const [first = assert.fail()] = ada.channel.approvals.list()
  await decide(stage, 'ada', first, 'deny')
  say(mallory, 'approval', wanted(all))
  await stage.settle()
  assert.equal(ada.channel.approvals.list().length, 9)
  // The rules of the frame: one that names its asker among the deciders is no frame at all.
  say(mallory, 'approval', wanted(all, { from: [mallory.agentId] }))
  await stage.settle()
  assert.equal(ada.told('decryption_failure').length, 1)
})

test('beyond 64 requests, the asker with the most loses its oldest', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const { channel } = stage.player('ann')
  const record = {
    part: 0,
    epoch: 1,
    receivedAt: 0,
    attempts: 0,
    ciphertext: ACTION,
    messageKey: ACTION,
    identity: ACTION,
  }
  const ask = (asker: string, number: number): void => {
    const bytes = encodeApproval({
      asker,
      need: 1,
      from: [stage.player('ann').agentId],
      title: `${number}`,
      text: '',
      risk: '',
      action: ACTION,
      channelId: stage.channelId,
      requestId: new Uint8Array(16).fill(number),
      deadline: stage.now + MINUTE,
    })
    channel.approvals.arrive('approval', { ...record, index: number, messageId: ACTION, sender: asker }, bytes)
  }
  for (let asker = 0; asker < 16; asker++)
    for (let number = 0; number < 4; number++) ask(asker.toString(16).repeat(64), number)
  ask('0'.repeat(64), 4)
  const before = channel.approvals.list().map(({ request }) => `${request.asker[0]}${request.title}`)
  assert.equal(before.length, 64)
  assert.deepEqual([before[0], before.at(-1)], ['01', '04'])
  ask('f'.repeat(64), 4)
  ask('f'.repeat(64), 5)
  const after = channel.approvals.list().map(({ request }) => `${request.asker[0]}${request.title}`)
  assert.equal(after.length, 64)
  assert.deepEqual(
    after.filter((name) => name.startsWith('f')),
    ['f2', 'f3', 'f4', 'f5'],
  )
})

test('decisions of strangers, of others, repeated, late or changed do not count', async () => {
  const { stage, mallory } = await scene()
  const held = await asked(stage)
  const ann = stage.player('ann')
  const sign = ed25519.signer(mallory.mls.key)
  const { hash } = held.record
  const decision = { hash, choice: 'approve', time: stage.now, attended: true } as const
  // Mallory was not asked.
  say(mallory, 'decision', makeDecision(decision, mallory.agentId, sign))
  await decide(stage, 'ada', held, 'approve')
  // Ada's own words, repeated by Mallory.
  const [event] = seen(ann, held)?.events ?? []
  say(mallory, 'decision', event?.decision ?? assert.fail())
  // On a request that nobody knows.
  say(mallory, 'decision', makeDecision({ ...decision, hash: new Uint8Array(32) }, mallory.agentId, sign))
  await stage.settle()
  assert.deepEqual(ignored(ann), ['not_asked', 'not_asked'])
  assert.equal(stateOf(ann, held), 'pending')

  const other = await asked(stage, { from: [stage.player('ada').agentId, mallory.agentId].toSorted(), need: 2 })
  const good = { ...decision, hash: other.record.hash }
  say(mallory, 'decision', makeDecision(good, stage.player('ada').agentId, sign))
  say(mallory, 'decision', makeDecision(decision, mallory.agentId, sign).with(0, other.record.hash[0] ?? 0))
  const changed = makeDecision(good, mallory.agentId, sign)
  say(mallory, 'decision', changed.with(41, 0))
  say(mallory, 'decision', makeDecision({ ...good, time: other.request.deadline }, mallory.agentId, sign))
  await stage.settle()
  assert.deepEqual(ignored(ann).slice(2), ['invalid', 'invalid', 'late'])
  say(mallory, 'decision', changed)
  say(mallory, 'decision', changed)
  await stage.settle()
  assert.deepEqual(ignored(ann).slice(5), ['repeated'])
  await decide(stage, 'ada', other, 'approve')
  assert.equal(await toldTo(stage, other), 'approved')
})

test('a decider refuses after the deadline by its own clock, the asker counts by its own', async () => {
  const { stage } = await scene()
  const held = await asked(stage)
  const [ada, ben] = [stage.player('ada'), stage.player('ben')]
  const adas = seen(ada, held) ?? assert.fail()
  const bens = seen(ben, held) ?? assert.fail()
  ada.skew = 16 * MINUTE
  const tooLate = ada.channel.approvals.decide(adas, 'approve', false)
  tooLate.catch(() => {})
  await stage.settleWithPrograms()
  await assert.rejects(tooLate, { code: 'not_allowed', message: /deadline has passed/ })
  ada.skew = 0
  await decide(stage, 'ada', held, 'approve')
  await stage.advance(15 * MINUTE)
  // Ben's clock is late: what he decides arrives after the asker's deadline.
  ben.skew = -MINUTE
  const late = ben.channel.approvals.decide(bens, 'approve', false)
  await stage.settleWithPrograms()
  await late
  assert.equal(await toldTo(stage, held), 'expired')
  assert.deepEqual(ignored(stage.player('ann')), ['late'])
  await assert.rejects(spent(stage, held), { code: 'not_allowed', message: /it is expired/ })
  // Nobody keeps a request that can no longer be decided.
  ada.channel.approvals.tick()
  assert.equal(seen(ada, held), undefined)
})

test('an asker that was down at the deadline has no permission, whatever has arrived meanwhile', async () => {
  const { stage } = await scene()
  const held = await asked(stage)
  stage.player('ann').lose()
  const others = NAMES.slice(1).map((name) => stage.player(name))
  for (const name of ['ada', 'ben']) {
    const player = stage.player(name)
    const done = player.channel.approvals.decide(seen(player, held) ?? assert.fail(), 'approve', false)
    for (let round = 0; round < 8; round++) {
      await stage.settleOnly(...others)
      await new Promise((resolve) => setImmediate(resolve))
    }
    await done
  }
  stage.now += 15 * MINUTE
  stage.player('ann').restart()
  await stage.settleWithPrograms()
  assert.equal(await toldTo(stage, held), 'expired')
})

test('a clock that is set back opens nothing again', async () => {
  const { stage } = await scene()
  const held = await asked(stage)
  await stage.advance(14 * MINUTE)
  stage.player('ann').channel.approvals.tick()
  await stage.settle()
  const ann = stage.player('ann').restart()
  ann.skew = -14 * MINUTE
  assert.equal(ann.channel.approvals.clockOf(seen(ann, held) ?? assert.fail()), stage.now)
  await stage.settle()
  // One minute is left, not fifteen.
  ann.skew = MINUTE
  await decide(stage, 'ada', held, 'approve')
  await decide(stage, 'ben', held, 'approve')
  assert.equal(await toldTo(stage, held), 'expired')
})

test('a restart of anyone at any point loses nothing and decides once', async () => {
  const { stage } = await scene()
  const held = await asked(stage)
  const restart = async (...names: readonly string[]): Promise<void> => {
    for (const name of names) stage.player(name).restart()
    await stage.settleWithPrograms()
  }
  await restart('ann', 'ada', 'ben', 'cy')
  await decide(stage, 'ada', held, 'approve')
  await restart('ann', 'ada', 'ben', 'cy')
  await assert.rejects(decide(stage, 'ada', held, 'deny'), { code: 'not_allowed' })
  // Encrypted and on disk, but the program is killed before it is sent.
  const ben = stage.player('ben')
  ben.channel.approvals.decide(seen(ben, held) ?? assert.fail(), 'approve', true).catch(() => {})
  ben.journal.flush()
  await restart('ben')
  await assert.rejects(decide(stage, 'ben', held, 'deny'), { code: 'not_allowed' })
  await restart('ann')
  assert.equal(await toldTo(stage, held), 'approved')
  const [, event] = seen(stage.player('ann'), held)?.events ?? []
  assert.equal(decodeDecision(event?.decision ?? assert.fail())?.attended, true)
  assert.equal(await spent(stage, held), '{"deploy":"1.4.2"}')
})

test('killed before its decision is on disk, a decider may decide again; before its request is, an asker asks again', async () => {
  const { stage } = await scene()
  const held = await asked(stage)
  const ada = stage.player('ada')
  ada.channel.approvals.decide(seen(ada, held) ?? assert.fail(), 'approve', false).catch(() => {})
  ada.restart()
  await stage.settleWithPrograms()
  await decide(stage, 'ada', held, 'deny')
  const ann = stage.player('ann')
  const from = [ada.agentId]
  const wish = { title: 'x', text: '', risk: '', action: ACTION, from, need: 1, waitMs: MINUTE }
  ann.channel.approvals.request(wish, {}).catch(() => {})
  ann.restart()
  await stage.settleWithPrograms()
  assert.equal(stage.player('ann').channel.approvals.list().length, 1)
  // On disk, but killed before it is sent.
  stage
    .player('ann')
    .channel.approvals.request(wish, {})
    .catch(() => {})
  stage.player('ann').journal.flush()
  stage.player('ann').restart()
  await stage.settleWithPrograms()
  const second = stage
    .player('ann')
    .channel.approvals.list()
    .find(({ id }) => id !== held.id)
  await decide(stage, 'ada', second ?? assert.fail(), 'approve')
  assert.equal(await toldTo(stage, second ?? assert.fail()), 'approved')
})

test('killed after the permission was used, an asker has to ask again', async () => {
  const { stage } = await scene()
  const held = await asked(stage)
  await decide(stage, 'ada', held, 'approve')
  await decide(stage, 'ben', held, 'approve')
  const ann = stage.player('ann')
  ann.channel.approvals.spend(seen(ann, held) ?? assert.fail(), {}).catch(() => {})
  ann.journal.flush()
  ann.restart()
  await stage.settleWithPrograms()
  await assert.rejects(spent(stage, held), { code: 'not_allowed', message: /ask again/ })
})

test('the permission is not given before the relay has accepted that it is used', async () => {
  const { stage } = await scene()
  const held = await asked(stage)
  await decide(stage, 'ada', held, 'approve')
  await decide(stage, 'ben', held, 'approve')
  const ann = stage.player('ann')
  let isGiven = false
  ann.channel.approvals.spend(seen(ann, held) ?? assert.fail(), {}).then(
    () => (isGiven = true),
    () => {},
  )
  ann.journal.flush()
  await new Promise((resolve) => setImmediate(resolve))
  assert.equal(isGiven, false)
  await stage.settleWithPrograms()
  assert.equal(isGiven, true)
})

test('a decision that the relay refuses is not made, and neither is a request', async () => {
  const { stage } = await scene()
  const held = await asked(stage)
  const ada = stage.player('ada')
  stage.refuse = (_player, body) => (body.case === 'sendMessage' ? { code: 'quota_exceeded' } : undefined)
  await assert.rejects(decide(stage, 'ada', held, 'approve'), { code: 'quota_exceeded' })
  await assert.rejects(asked(stage), { code: 'quota_exceeded' })
  stage.refuse = () => undefined
  assert.equal(stage.player('ann').channel.approvals.list().length, 1)
  ada.restart()
  await stage.settleWithPrograms()
  await decide(stage, 'ada', held, 'deny')
})

test('a member that is removed before the outcome does not count, and what a removed asker wanted is forgotten', async () => {
  const { stage, mallory } = await scene()
  const held = await asked(stage)
  await decide(stage, 'ada', held, 'approve')
  const malicious = wanted({ stage, mallory }, { from: [stage.player('ben').agentId] })
  say(mallory, 'approval', malicious)
  await stage.settle()
  assert.equal(stage.player('ben').channel.approvals.list().length, 2)
  const remove = async (agent: string): Promise<void> => {
    const done = stage.player('ann').channel.committer.commit(() => ({ removes: [fromHex(agent)] }))
    await stage.settleWithPrograms()
    await done
  }
  await remove(stage.player('ada').agentId)
  await remove(mallory.agentId)
  assert.equal(stage.player('ben').channel.approvals.list().length, 1)
  await decide(stage, 'ben', held, 'approve')
  assert.equal(stateOf(stage.player('ann'), held), 'pending')
  assert.equal(stateOf(stage.player('cy'), held), 'pending')
  stage.player('ann').restart()
  await stage.settleWithPrograms()
  await decide(stage, 'cy', held, 'deny')
  assert.equal(await toldTo(stage, held), 'denied')
})

test('a record permits nothing by the approval of a member that was removed before the outcome', async () => {
  const { stage } = await scene()
  const held = await asked(stage)
  const ann = stage.player('ann')
  const check = (): unknown => {
    const own = seen(ann, held) ?? assert.fail()
    const { from, need, action } = own.request
    return checkRecord(encodeRecord(own.bytes, own.lasting(ann.channel.approvals.clockOf(own))), { from, need, action })
  }
  const remove = async (name: string): Promise<void> => {
    const removes = [fromHex(stage.player(name).agentId)]
    const done = ann.channel.committer.commit(() => ({ removes }))
    await stage.settleWithPrograms()
    await done
  }
  await decide(stage, 'ada', held, 'approve')
  await remove('ada')
  await decide(stage, 'ben', held, 'approve')
  assert.throws(check, { code: 'not_allowed' })
  await decide(stage, 'cy', held, 'deny')
  assert.equal(await toldTo(stage, held), 'denied')
  assert.throws(check, { code: 'not_allowed' })
})

test('a record has the approvals that made the outcome, also of a member that was removed after it', async () => {
  const { stage } = await scene()
  const held = await asked(stage)
  const ann = stage.player('ann')
  await decide(stage, 'ada', held, 'approve')
  await decide(stage, 'ben', held, 'approve')
  assert.equal(await toldTo(stage, held), 'approved')
  const done = ann.channel.committer.commit(() => ({ removes: [fromHex(stage.player('ada').agentId)] }))
  await stage.settleWithPrograms()
  await done
  const own = seen(ann, held) ?? assert.fail()
  const { from, need, action } = own.request
  const record = encodeRecord(own.bytes, own.lasting(ann.channel.approvals.clockOf(own)))
  assert.equal(checkRecord(record, { from, need, action }).approvals.length, 2)
})

test('a stored request that cannot be read permits nothing, and the channel goes on without it', async () => {
  const { stage } = await scene()
  const held = await asked(stage)
  const { store, channel } = stage.player('ann')
  const { hash } = held.record
  store.write([{ type: 'putApprovalRequest', id: channel.id, record: { hash, request: held.bytes.with(9, 0) } }])
  const ann = stage.player('ann').restart()
  await stage.settleWithPrograms()
  assert.deepEqual(ann.channel.approvals.list(), [])
  const next = await asked(stage)
  await decide(stage, 'ada', next, 'approve')
  await decide(stage, 'ben', next, 'approve')
  assert.equal(await toldTo(stage, next), 'approved')
})

test('a channel that ends ends the wait', async () => {
  const { stage } = await scene()
  const held = await asked(stage)
  const ann = stage.player('ann')
  const told = ann.channel.approvals.outcome(seen(ann, held) ?? assert.fail(), {})
  const failed = assert.rejects(told, { code: 'removed' })
  ann.channel.over()
  await stage.settleWithPrograms()
  await failed
})

test('nothing is told twice', async () => {
  const { stage } = await scene()
  const held = await asked(stage)
  await decide(stage, 'ada', held, 'approve')
  await decide(stage, 'ben', held, 'approve')
  await decide(stage, 'cy', held, 'deny')
  await stage.advance(20 * MINUTE)
  const ann = stage.player('ann')
  assert.deepEqual(
    ann.told('approval_decided').map(({ choice }) => choice),
    ['approve', 'approve', 'deny'],
  )
  assert.equal(ann.told('approval_over').length, 1)
})
