/**
 * Commits that the relay refuses: each uses up a key of the epoch, and the other members allow only so many. So an agent
 * makes them less and less often, whatever the reason, and none that the others might not follow.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StaticError } from '@static/protocol'
import { burnt } from '../mls/burnt.ts'
import { Apart } from '../support/apart.ts'
import { type Player, Stage } from '../support/stage.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE

const fate = (task: Promise<unknown>): Promise<string> =>
  task.then(
    () => 'ok',
    ({ code }: StaticError) => code,
  )

/** As if the relay had refused so many commits of this epoch. */
function burn({ channel, key }: Player, commits: number): void {
  const group = channel.group ?? assert.fail()
  group.use(burnt(group.group, key, commits))
}

async function commit(stage: Stage, { channel }: Player): Promise<string> {
  const done = fate(channel.committer.commit(() => ({})))
  await stage.settle()
  return await done
}

test('after hundreds of refused commits in one epoch, the others follow the next one', async () => {
  const stage = await Stage.start(['ann', 'bob', 'cy'])
  let ann = stage.player('ann')
  assert.equal(await commit(stage, ann), 'ok')
  burn(ann, 1500)
  stage.refuse = (_, body) => (body.case === 'sendCommit' ? { code: 'queue_full' } : undefined)
  assert.equal(await commit(stage, ann), 'queue_full')
  stage.refuse = () => undefined
  ann = ann.restart()
  await stage.settle()
  assert.equal(await commit(stage, ann), 'ok')
  const sent = ann.send('hello')
  await stage.settle()
  await sent
  for (const player of [stage.player('bob'), stage.player('cy')]) {
    assert.deepEqual([player.told('commit_skipped'), player.view, await player.take()], [[], ann.view, ['hello']])
  }
  assert.deepEqual(stage.votes, [])
})

test('a member whose commits were refused too often says so, and can commit once another member has', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  burn(ann, 1536)
  const made = ann.channel.committer.commit(() => ({}))
  const failing = assert.rejects(made, { code: 'unavailable', message: /`rotate`/ })
  await stage.settle()
  await failing
  assert.deepEqual([stage.log.length, ann.channel.failure], [0, undefined])
  for (const player of [bob, ann]) assert.equal(await commit(stage, player), 'ok')
  assert.equal(ann.view, bob.view)
})

test('a member that is barred for half an hour when its keys are due tries a few times, and re-keys after that', async () => {
  const stage = await Stage.start(['ann', 'bob', 'cy'])
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  assert.equal(await commit(stage, ann), 'ok')
  let tries = 0
  let isBarred = true
  stage.refuse = (player, body) => {
    if (body.case !== 'sendCommit' || (player === bob && !isBarred)) return undefined
    if (player !== bob) return { code: 'rate_limited', retryAfterMs: 600_000 }
    tries++
    return { code: 'not_allowed' }
  }
  stage.now += 27 * HOUR
  await stage.advance(30 * MINUTE, 5000)
  // At once, and 1, 2, 4, 8 and 16 minutes later.
  assert.equal(tries, 6)
  isBarred = false
  await stage.advance(16 * MINUTE, 5000)
  assert.deepEqual([bob.told('rekeyed').length, ann.told('commit_skipped'), ann.view], [1, [], bob.view])
})

test('commits that the relay keeps refusing become rare, no matter which call asks for them', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const ann = stage.player('ann')
  let tries = 0
  stage.refuse = (player, body) => {
    if (player !== ann || body.case !== 'sendCommit') return undefined
    tries++
    return { code: 'not_allowed' }
  }
  // The first ones are not held back.
  burn(ann, 120)
  for (let n = 0; n < 9; n++) assert.equal(await commit(stage, ann), 'not_allowed')
  let isOver = false
  const again = (): void => {
    if (!isOver) ann.channel.committer.commit(() => ({})).catch(again)
  }
  again()
  await stage.settle()
  assert.equal(tries, 9)
  await stage.advance(10 * MINUTE, 1000)
  // After 1 s, 2 s, 3 s and so on.
  assert.ok(tries > 35 && tries < 50, `${tries} commits`)
  assert.ok(ann.told('throttled').length > 20)
  // The wait ends with the epoch.
  isOver = true
  const waiting = fate(ann.channel.committer.commit(() => ({})))
  await stage.settle()
  stage.refuse = () => undefined
  assert.equal(await commit(stage, stage.player('bob')), 'ok')
  assert.deepEqual([await waiting, ann.view], ['ok', stage.player('bob').view])
})

test('a relay that says that the slot is taken, when it is not, gets a few commits and no more', async () => {
  for (const retryAfterMs of [undefined, 1]) {
    const stage = await Stage.start(['ann', 'bob'])
    const ann = stage.player('ann')
    let tries = 0
    stage.refuse = (_, body) =>
      body.case === 'sendCommit' && ++tries < 1000
        ? { code: 'epoch_mismatch', head: BigInt(stage.position.slot), ...(retryAfterMs && { retryAfterMs }) }
        : undefined
    const done = fate(ann.channel.committer.commit(() => ({})))
    await stage.settle()
    assert.equal(tries, 1)
    await stage.advance(3 * MINUTE, 500)
    assert.equal(await done, 'epoch_mismatch')
    assert.ok(tries >= 4 && tries <= 10, `${tries} commits`)
    stage.refuse = () => undefined
    assert.equal(await commit(stage, ann), 'ok')
  }
})

test('a change that waits while a fork is found is not committed, except the removal of the one that caused it', async () => {
  const stage = await Stage.start(['ann', 'bob', 'mal'], { apart: ['mal'] })
  const [ann, bob, mal] = [stage.player('ann'), stage.player('bob'), new Apart(stage, 'mal')]
  const { committer } = ann.channel
  const { slot } = stage.position
  // Two that wait: one to be created again, and one behind it.
  stage.refuse = (_, body) => (body.case === 'sendCommit' ? { code: 'epoch_mismatch', retryAfterMs: 1000 } : undefined)
  const removal = fate(committer.commit(() => ({ removes: [Buffer.from(bob.agentId, 'hex')] })))
  await stage.settle()
  const rekey = fate(committer.commit(() => ({})))
  mal.say(mal.frame('I saw another log', { seen: { index: stage.position.index, hash: Buffer.alloc(32, 7) } }))
  await stage.settle()
  assert.equal(ann.told('fork_detected').length, 1)
  stage.refuse = () => undefined
  await stage.advance(2000, 1000)
  assert.deepEqual([await removal, await rekey, stage.position.slot], ['fork_detected', 'fork_detected', slot])
  const expelled = fate(committer.commit(() => ({ removes: [Buffer.from(mal.agentId, 'hex')] }), { isRemoval: true }))
  await stage.settle()
  assert.deepEqual([await expelled, stage.position.slot], ['ok', slot + 1])
  assert.equal(await commit(stage, ann), 'ok')
})
