/** How far a message may move its sender's ratchet, and how honest senders stay within that. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StaticError } from '@static/protocol'
import type { ExpectedSender } from '../../src/mls/index.ts'
import { nextSecret } from '../../src/mls/ratchet.ts'
import { engine } from '../mls/support.ts'
import { Apart } from '../support/apart.ts'
import { type Player, Stage } from '../support/stage.ts'

function fate(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => 'ok',
    ({ code }: StaticError) => code,
  )
}

/** Sends one message; its fate. */
async function say(stage: Stage, player: Player, words: string): Promise<string> {
  const sent = fate(player.send(words))
  await stage.settle()
  return sent
}

/** What messages are allowed, as `open` is asked. */
async function watching<Result>(run: (allowed: ExpectedSender[]) => Promise<Result>): Promise<Result> {
  const allowed: ExpectedSender[] = []
  const open = engine.open.bind(engine)
  engine.open = (group, ratchets, ciphertext, expected) => {
    allowed.push(expected)
    return open(group, ratchets, ciphertext, expected)
  }
  try {
    return await run(allowed)
  } finally {
    engine.open = open
  }
}

/** Its own ratchet moves on without a message. */
function burn({ mls }: Apart, generations: number): void {
  const { leaf } = engine.facts(mls.group).own
  let { generation, secret, ...row } = mls.rows.get(leaf)!
  for (let step = 0; step < generations; step++) secret = nextSecret(secret, generation++)
  mls.rows.set(leaf, { ...row, generation, secret })
}

test('a message that claims to be far ahead costs no more than its counter allows, and almost nothing after eight failures', async () => {
  const stage = await Stage.start(['ann', 'bob', 'mal'], { apart: ['mal'] })
  const ann = stage.player('ann')
  const mal = new Apart(stage, 'mal')
  mal.say(mal.frame('hello'))
  await stage.settle()
  await watching(async (allowed) => {
    for (let n = 0; n < 20; n++) mal.put(mal.claim(30_000))
    await stage.settle()
    const { leaf } = engine.facts(mal.mls.group).own
    const expected = [...Array.from({ length: 8 }, (_, n) => 1025 + n), ...Array.from({ length: 12 }, () => 16)]
    // Each of the two members.
    assert.deepEqual(
      allowed.map(({ steps }) => steps).toSorted((a, b) => a - b),
      [...expected, ...expected].toSorted((a, b) => a - b),
    )
    assert.deepEqual(new Set(allowed.map((sender) => sender.leaf)), new Set([leaf]))
  })
  assert.equal(ann.told('decryption_failure').length, 20)
  assert.deepEqual(ann.told('sender_unreadable'), [
    { type: 'sender_unreadable', channel: ann.channel.name, sender: mal.agentId },
  ])
  // Its next ones are still tried.
  const { counter, previous } = mal
  mal.counter = 1
  const frame = mal.frame('here again')
  mal.counter = counter
  mal.previous = previous
  mal.say(frame)
  await stage.settle()
  assert.equal(ann.told('decryption_failure').length, 20)
})

test('an unknown sender may have sent everything since the epoch began', async () => {
  const stage = await Stage.start(['ann', 'bob', 'mal'], { apart: ['mal'] })
  const [ann, mal] = [stage.player('ann'), new Apart(stage, 'mal')]
  for (let n = 0; n < 5; n++) assert.equal(await say(stage, ann, `${n}`), 'ok')
  mal.counter = 100_000
  await watching(async (allowed) => {
    mal.put(mal.claim(30_000))
    await stage.settle()
    assert.deepEqual(new Set(allowed.map(({ steps }) => steps)), new Set([6 + 1024]))
  })
})

test('no message costs more than 32,768 steps, whatever counters the relay reports', async () => {
  const stage = await Stage.start(['ann', 'mal'], { apart: ['mal'] })
  const mal = new Apart(stage, 'mal')
  mal.say(mal.frame('hello'))
  await stage.settle()
  mal.counter = 1_000_000
  await watching(async (allowed) => {
    mal.put(mal.claim(40_000))
    await stage.settle()
    assert.deepEqual(
      allowed.map(({ steps }) => steps),
      [32_768],
    )
  })
})

test('decrypted messages may use 1,024 extra steps per epoch in total, not each', async () => {
  const stage = await Stage.start(['ann', 'mal'], { apart: ['mal'] })
  const [ann, mal] = [stage.player('ann'), new Apart(stage, 'mal')]
  for (const [generations, failures] of [
    [600, 0],
    [400, 0],
    [30, 1],
  ] as const) {
    burn(mal, generations)
    mal.say(mal.frame('far'))
    await stage.settle()
    assert.equal(ann.told('decryption_failure').length, failures, `${generations}`)
  }
})

test("a message in another member's envelope does not touch that member’s ratchet", async () => {
  const stage = await Stage.start(['ann', 'bob', 'mal'], { apart: ['bob', 'mal'] })
  const [ann, bob, mal] = [stage.player('ann'), new Apart(stage, 'bob'), new Apart(stage, 'mal')]
  const frame = bob.frame('of bob')
  const ciphertext = bob.mls.send(frame)
  mal.put(ciphertext, frame.slice(2, 18))
  await stage.settle()
  assert.deepEqual(
    ann.told('decryption_failure').map(({ sender }) => sender),
    [mal.agentId],
  )
  bob.put(ciphertext, frame.slice(2, 18))
  await stage.settle()
  assert.deepEqual(await ann.take(), ['of bob'])
})

test('after eight failures only the next 16 generations are tried, until a message is decrypted', async () => {
  for (const [burnt, isRead] of [
    [16, true],
    [17, false],
  ] as const) {
    const stage = await Stage.start(['ann', 'mal'], { apart: ['mal'] })
    const [ann, mal] = [stage.player('ann'), new Apart(stage, 'mal')]
    for (let n = 0; n < 8; n++) mal.put(mal.claim(5))
    await stage.settle()
    burn(mal, burnt)
    mal.say(mal.frame('again'))
    await stage.settle()
    assert.deepEqual(await ann.take(), isRead ? ['again'] : [])
    burn(mal, 100)
    mal.say(mal.frame('far'))
    await stage.settle()
    assert.deepEqual(await ann.take(), isRead ? ['far'] : [])
  }
})

test('while the quota is used up, one message at a time is tried, and those behind it fail with it', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  let asked = 0
  stage.refuse = (_, { case: name }) => {
    if (name !== 'sendMessage') return undefined
    asked++
    return { code: 'quota_exceeded' }
  }
  const burst = async (): Promise<Set<string>> => {
    // 200 packs.
    const sent = Array.from({ length: 16 * 200 }, (_, n) => fate(ann.send(`${n}`)))
    await stage.settle()
    return new Set(await Promise.all(sent))
  }
  assert.deepEqual(await burst(), new Set(['quota_exceeded']))
  // The first are under way before anybody knows.
  assert.equal(asked, 65)
  asked = 0
  assert.deepEqual(await burst(), new Set(['quota_exceeded']))
  assert.equal(asked, 1)
  assert.equal(ann.channel.sender.burnt, 66)
  stage.refuse = () => undefined
  assert.deepEqual(await burst(), new Set(['ok']))
  assert.equal((await bob.take()).length, 16 * 200)
  assert.deepEqual(bob.told('decryption_failure'), [])
})

test('a sender whose messages are refused replaces its keys before others stop reading it, even across restarts', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  let ann = stage.player('ann')
  const bob = stage.player('bob')
  stage.refuse = (_, { case: name }) => (name === 'sendMessage' ? { code: 'quota_exceeded' } : undefined)
  let most = 0
  for (let n = 0; n < 600; n++) {
    if (n % 250 === 100) {
      ann = ann.restart()
      await stage.settle()
    }
    assert.equal(await say(stage, ann, `${n}`), 'quota_exceeded')
    most = Math.max(most, ann.channel.sender.burnt)
  }
  const commits = stage.log.filter(({ kind }) => kind === 'commit')
  assert.deepEqual([commits.length, most], [1, 511])
  assert.equal(ann.told('rekeyed').length, 1)
  stage.refuse = () => undefined
  assert.equal(await say(stage, ann, 'at last'), 'ok')
  assert.deepEqual(await bob.take(), ['at last'])
  assert.deepEqual([bob.told('decryption_failure'), bob.view], [[], ann.view])
})

test('if the keys cannot be replaced, sending fails before others stop reading the sender, and continues with new keys', async () => {
  const stage = await Stage.start(['ann', 'bob'])
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  let asked = 0
  stage.refuse = (_, { case: name }) => {
    if (name === 'sendCommit') return { code: 'not_allowed' }
    if (name !== 'sendMessage') return undefined
    asked++
    return { code: 'quota_exceeded' }
  }
  while (asked < 768) assert.equal(await say(stage, ann, 'x'), 'quota_exceeded')
  const failing = ann.send('one more')
  const [failed] = await Promise.all([
    failing.then(
      () => assert.fail(),
      (error: StaticError) => error,
    ),
    stage.settle(),
  ])
  assert.equal(failed.code, 'not_allowed')
  assert.match(
    failed.message,
    /refused 768 messages since the keys were last replaced, and the keys cannot be replaced/,
  )
  assert.equal(asked, 768)
  // Only the quota is back: nothing is sent that the others might not open.
  stage.refuse = (_, { case: name }) => (name === 'sendCommit' ? { code: 'not_allowed' } : undefined)
  assert.equal(await say(stage, ann, 'not yet'), 'not_allowed')
  stage.refuse = () => undefined
  await stage.advance(60_000)
  assert.equal(await say(stage, ann, 'with new keys'), 'ok')
  assert.deepEqual(await bob.take(), ['with new keys'])
  assert.deepEqual(bob.told('decryption_failure'), [])
})

test('messages overtaken by commits are encrypted again, and count as burnt only in their own epoch', async () => {
  const stage = await Stage.start(['ann', 'bob', 'mal'], { apart: ['mal'] })
  const [ann, bob, mal] = [stage.player('ann'), stage.player('bob'), new Apart(stage, 'mal')]
  // Garbage takes a slot while 50 messages are under way: they are of the same epoch and another slot then.
  for (let round = 0; round < 14; round++) {
    const sent = Promise.all(Array.from({ length: 50 }, (_, n) => ann.sendAlone(`${round} ${n}`)))
    await ann.channel.idle()
    ann.journal.flush()
    mal.commit(new Uint8Array(200).fill(round))
    await stage.settle()
    await sent
  }
  const rekeys = stage.log.filter(({ kind, sender }) => kind === 'commit' && sender === ann.agentId)
  assert.equal(rekeys.length, 1)
  assert.ok(ann.channel.sender.burnt < 512)
  assert.equal((await bob.take()).length, 14 * 50)
  assert.deepEqual([bob.told('decryption_failure'), bob.told('fork_detected'), bob.view], [[], [], ann.view])
})
