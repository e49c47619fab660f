/** Messages that the relay refuses, and entries that an agent does not take. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { ErrorSchema, GapNoticeSchema } from '@static/protocol/relay'
import { fromHex, StaticError, toHex } from '@static/protocol'
import type { RequestBody } from '../../src/ports/index.ts'
import { Apart } from '../support/apart.ts'
import { type Player, type Refusal, Stage } from '../support/stage.ts'

/** What becomes of a promise: `ok`, or the code of its error. */
function fate(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => 'ok',
    ({ code }: StaticError) => code,
  )
}

/** What a relay says by the contract, which looks at the counter first. */
function inTurn(stage: Stage, player: Player, body: RequestBody, refusal: Refusal): Refusal | undefined {
  if (body.case !== 'sendMessage') return undefined
  const { lastCounter } = stage.stateOf(player)
  return body.value.counter === lastCounter + 1n ? refusal : { code: 'out_of_order', lastCounter }
}

/** The counters of the messages that are on the wire. */
function onTheWire({ requests }: Player): number[] {
  return requests.flatMap(({ body }) => (body.case === 'sendMessage' ? [Number(body.value.counter)] : []))
}

/** The counters of the messages that are on disk. */
function onDisk({ store }: Player): number[] {
  return store.load().channels.flatMap(({ outbox }) => outbox.map(({ counter }) => counter))
}

/** Everything is encrypted and written, and nothing is answered. */
async function written({ channel, journal }: Player): Promise<void> {
  await channel.idle()
  journal.flush()
}

test('64 sends at once without quota: all are refused, and messages sent with new quota are readable', async () => {
  const stage = await Stage.start(['alice', 'bob', 'carol'])
  const [alice, bob, carol] = [stage.player('alice'), stage.player('bob'), stage.player('carol')]
  let asked = 0
  stage.refuse = (player, body) => {
    asked++
    return inTurn(stage, player, body, { code: 'quota_exceeded' })
  }
  const burst = Array.from({ length: 64 }, (_, n) => fate(alice.sendAlone(`x${n}`)))
  await stage.settle()
  assert.deepEqual(new Set(await Promise.all(burst)), new Set(['quota_exceeded']))
  // None of them was encrypted anew, only to be refused again.
  assert.equal(asked, 64)
  stage.refuse = () => undefined
  for (const words of ['important', 'and the next']) {
    const sending = alice.send(words)
    await stage.settle()
    await sending
    assert.deepEqual([await bob.take(), await carol.take()], [[words], [words]])
  }
  assert.deepEqual(
    [bob, carol].flatMap((player) => player.told('decryption_failure')),
    [],
  )
  assert.deepEqual([bob.view, carol.view], [alice.view, alice.view])
})

test('after a gap of 1,100 messages of one sender, its next messages are readable', async () => {
  const stage = await Stage.start(['alice', 'bob'])
  const [alice, bob] = [stage.player('alice'), stage.player('bob')]
  bob.online = false
  const { index: before } = bob.channel.history.position
  for (let round = 0; round < 22; round++) {
    const burst = Promise.all(Array.from({ length: 50 }, (_, n) => alice.sendAlone(`${round} ${n}`)))
    await stage.settle()
    await burst
  }
  const { index, hash, slot } = stage.position
  assert.equal(index, before + 1100)
  const position = { index: BigInt(index), hash, slot: BigInt(slot) }
  const gap = { channelId: stage.channelId, firstIndex: BigInt(before + 1), commitLost: false, position }
  bob.channel.intake.deliver({ case: 'gap', value: create(GapNoticeSchema, gap) })
  bob.delivered = index
  bob.online = true
  for (const words of ['after', 'and after']) {
    const sending = alice.send(words)
    await stage.settle()
    await sending
  }
  assert.deepEqual(await bob.take(), ['after', 'and after'])
  assert.deepEqual(bob.told('decryption_failure'), [])
  assert.equal(bob.view, alice.view)
})

test('a gap that hides the end of a membership ends it, with or without a commit', async () => {
  const stage = await Stage.start(['alice', 'bob'])
  const bob = stage.player('bob')
  const { index, slot } = bob.channel.history.position
  const position = { index: BigInt(index + 1), hash: new Uint8Array(32), slot: BigInt(slot) }
  const gap = { channelId: stage.channelId, firstIndex: BigInt(index + 1), position, ended: true, last: true }
  bob.channel.intake.deliver({ case: 'gap', value: create(GapNoticeSchema, gap) })
  assert.equal(bob.channel.failure?.code, 'removed')
})

test("a gap that begins before this agent's position counts only beyond it", async () => {
  const stage = await Stage.start(['alice', 'bob'])
  const [alice, bob] = [stage.player('alice'), stage.player('bob')]
  const say = async (...words: readonly string[]): Promise<void> => {
    const sending = Promise.all(words.map((payload) => alice.sendAlone(payload)))
    await stage.settle()
    await sending
  }
  const gapOf = (first: number, commitLost: boolean): void => {
    const { index, hash, slot } = stage.position
    const position = { index: BigInt(index), hash, slot: BigInt(slot) }
    const gap = { channelId: stage.channelId, firstIndex: BigInt(first), commitLost, position }
    bob.channel.intake.deliver({ case: 'gap', value: create(GapNoticeSchema, gap) })
    bob.delivered = index
  }
  // Bob has read a commit and two messages; the relay has not heard of it.
  const { index: cursor } = bob.channel.history.position
  const rekeying = alice.channel.upkeep.rekey()
  await stage.settle()
  await rekeying
  await say('one', 'two')
  assert.deepEqual(await bob.take(), ['one', 'two'])
  const { index: read } = bob.channel.history.position
  // Nothing of it is beyond what bob has.
  gapOf(cursor + 1, true)
  assert.deepEqual(bob.told('gap'), [])
  bob.online = false
  await say('missed', 'and missed')
  gapOf(cursor + 1, true)
  assert.deepEqual(
    bob.told('gap').map(({ first, last }) => [first, last]),
    [[read + 1, read + 2]],
  )
  bob.online = true
  await say('after')
  assert.deepEqual(await bob.take(), ['after'])
  assert.equal(bob.view, alice.view)
  // A commit beyond the agent's own position is lost, whatever the relay's cursor is.
  bob.online = false
  const again = alice.channel.upkeep.rekey()
  await stage.settle()
  await again
  gapOf(cursor + 1, true)
  assert.equal(bob.channel.failure?.code, 'mls_error')
})

for (const refusal of ['too_large', 'invalid_request']) {
  test(`one message that is ${refusal} fails alone: those behind it are renumbered, in order`, async () => {
    const stage = await Stage.start(['alice', 'bob'])
    const [alice, bob] = [stage.player('alice'), stage.player('bob')]
    const large = 'x'.repeat(20_000)
    stage.refuse = (_player, body) =>
      body.case === 'sendMessage' && body.value.ciphertext.length > large.length ? { code: refusal } : undefined
    const words = ['one', large, 'two', large, large, 'three', 'four']
    const burst = words.map((payload) => fate(alice.sendAlone(payload)))
    await stage.settle()
    const expected = words.map((payload) => (payload === large ? refusal : 'ok'))
    assert.deepEqual(await Promise.all(burst), expected)
    assert.deepEqual(await bob.take(), ['one', 'two', 'three', 'four'])
    assert.deepEqual([bob.view, alice.channel.sender.counter], [alice.view, 4])
    assert.deepEqual(onDisk(alice), [])
  })
}

for (const error of [{ code: 'out_of_order', lastCounter: 0n }, { code: 'too_large' }]) {
  test(`a message that is encrypted but not on disk is not sent when another is refused: ${error.code}`, async () => {
    const stage = await Stage.start(['alice', 'bob'])
    const [alice, bob] = [stage.player('alice'), stage.player('bob')]
    const one = fate(alice.send('one'))
    await written(alice)
    assert.deepEqual([onTheWire(alice), onDisk(alice)], [[1], [1]])
    const two = fate(alice.send('two'))
    // As before a commit of its own.
    alice.channel.sender.encrypt(alice.channel.group!, undefined)
    assert.equal(alice.channel.sender.counter, 2)
    assert.deepEqual(onDisk(alice), [1])
    alice.requests.shift()!.done({ type: 'refused', error: create(ErrorSchema, error) })
    // Were it killed now, what it has sent is what it knows of.
    const kept = onDisk(alice)
    assert.deepEqual(
      onTheWire(alice).filter((counter) => !kept.includes(counter)),
      [],
    )
    await stage.settle()
    assert.deepEqual([await one, await two], [error.code === 'too_large' ? 'too_large' : 'ok', 'ok'])
    assert.deepEqual(await bob.take(), error.code === 'too_large' ? ['two'] : ['one', 'two'])
    assert.equal(bob.view, alice.view)
  })
}

test('a refused message and a lost session: messages that may have arrived are not encrypted again, and there is no fork', async () => {
  const stage = await Stage.start(['alice', 'bob'])
  const [alice, bob] = [stage.player('alice'), stage.player('bob')]
  const one = fate(alice.sendAlone('one'))
  const two = fate(alice.send('two'))
  await written(alice)
  const [first, second] = alice.requests.splice(0)
  assert.ok(first && second?.body.case === 'sendMessage')
  const refusedId = toHex(second.body.value.messageId)
  stage.refuse = (player, body) => {
    const isIt = body.case === 'sendMessage' && toHex(body.value.messageId) === refusedId
    return isIt ? inTurn(stage, player, body, { code: 'too_large' }) : undefined
  }
  // The relay takes the first and refuses the second; only its word on the second arrives.
  assert.equal(stage.handle(alice, first.body).type, 'answered')
  second.done(stage.handle(alice, second.body))
  alice.lose()
  alice.resume()
  await stage.settle()
  const three = fate(alice.send('three'))
  await stage.settle()
  assert.deepEqual([await one, await two, await three], ['ok', 'too_large', 'ok'])
  assert.deepEqual(await bob.take(), ['one', 'three'])
  assert.deepEqual(bob.told('fork_detected'), [])
  assert.deepEqual([bob.channel.failure, bob.view], [undefined, alice.view])
})

for (const [first, second] of [
  ['unavailable', 'quota_exceeded'],
  ['unavailable', 'too_large'],
  ['rate_limited', 'quota_exceeded'],
] as const) {
  test(`a message that is stored, and answered with ${first}, is not given up because the next one is ${second}`, async () => {
    const stage = await Stage.start(['alice', 'bob'])
    const [alice, bob] = [stage.player('alice'), stage.player('bob')]
    const one = fate(alice.sendAlone('one'))
    const two = fate(alice.send('two'))
    await written(alice)
    const [stored, refused] = alice.requests.splice(0)
    assert.ok(stored && refused?.body.case === 'sendMessage')
    const refusedId = toHex(refused.body.value.messageId)
    stage.refuse = (player, body) => {
      const isIt = body.case === 'sendMessage' && toHex(body.value.messageId) === refusedId
      return isIt ? inTurn(stage, player, body, { code: second }) : undefined
    }
    // The entry comes later than both answers.
    alice.online = false
    assert.equal(stage.handle(alice, stored.body).type, 'answered')
    stored.done({ type: 'refused', error: create(ErrorSchema, { code: first, retryAfterMs: 1000 }) })
    refused.done(stage.handle(alice, refused.body))
    await stage.advance(5000, 1000)
    alice.online = true
    await stage.settle()
    assert.deepEqual([await one, await two], ['ok', second])
    assert.deepEqual(await bob.take(), ['one'])
    assert.deepEqual([alice.channel.failure, bob.view], [undefined, alice.view])
  })
}

test('a full inbox is reported; calls that need more entries fail with queue_full; after reading, everything continues', async () => {
  const stage = await Stage.start(['alice', 'bob'])
  const [alice, bob] = [stage.player('alice'), stage.player('bob')]
  const large = 'x'.repeat(262_000)
  let sent = 0
  for (; bob.told('inbox_full').length === 0; sent += 20) {
    assert.ok(sent < 300, 'it takes everything')
    const burst = Promise.all(Array.from({ length: 20 }, () => alice.send(large)))
    await stage.settle()
    await burst
  }
  assert.equal(await fate(bob.channel.intake.catchUp()), 'queue_full')
  // It needs nothing of what it does not take.
  const before = fate(bob.send('full'))
  await stage.settle()
  assert.equal(await before, 'ok')
  const rekeying = alice.channel.upkeep.rekey()
  await stage.settle()
  await rekeying
  const late = [fate(bob.send('a metric')), fate(bob.channel.upkeep.rekey())]
  await stage.settle()
  assert.deepEqual(await Promise.all(late), ['queue_full', 'queue_full'])
  assert.deepEqual(await alice.take(), ['full'])
  let read = 0
  for (let taken = await bob.take(); taken.length > 0; taken = await bob.take()) {
    read += taken.length
    await stage.settle()
  }
  assert.equal(read, sent)
  const caughtUp = fate(bob.channel.intake.catchUp())
  await stage.settle()
  assert.equal(await caughtUp, 'ok')
  assert.equal(bob.told('inbox_full').length, 1)
  const again = fate(bob.send('read'))
  await stage.settle()
  assert.equal(await again, 'ok')
  assert.deepEqual([await alice.take(), bob.view], [['read'], alice.view])
})

test('catching up in a session ends when everything the relay has by then is processed', async () => {
  const stage = await Stage.start(['alice', 'bob', 'carol'])
  const [alice, bob, carol] = [stage.player('alice'), stage.player('bob'), stage.player('carol')]
  const sees = (): number => bob.channel.history.position.index
  const said = alice.send('on its way')
  await stage.settleOnly(alice)
  await said
  const last = stage.position.index
  assert.ok(sees() < last)
  let seen = 0
  const one = bob.channel.intake.catchUp().then(() => (seen = sees()))
  await stage.settle()
  await one
  assert.equal(seen, last)

  // The commit is here, and MLS works on it.
  const removal = alice.channel.committer.commit(() => ({ removes: [fromHex(carol.agentId)] }))
  let members: number | undefined
  bob.hearing = ({ case: kind }) => {
    if (kind !== 'deliverCommit') return undefined
    bob.hearing = () => undefined
    // Right after it was delivered.
    queueMicrotask(() => void bob.channel.intake.catchUp().then(() => (members = bob.channel.group?.members.size)))
    return undefined
  }
  await stage.settle()
  await removal
  await stage.settle()
  assert.equal(members, 2)
})

test('catching up does not end while missing entries are requested again', async () => {
  const stage = await Stage.start(['alice', 'bob'])
  const [alice, bob] = [stage.player('alice'), stage.player('bob')]
  let seen = 0
  let left = 1
  bob.hearing = () => {
    if (left-- > 0) return 'lost'
    if (left === -1) void bob.channel.intake.catchUp().then(() => (seen = bob.channel.history.position.index))
    return undefined
  }
  const said = Promise.all([alice.sendAlone('1'), alice.sendAlone('2')])
  await stage.settle()
  await said
  await stage.settle()
  assert.equal(seen, stage.position.index)
  assert.deepEqual(await bob.take(), ['1', '2'])
})

test('an agent that fails to leave while it catches up receives entries again', async () => {
  const stage = await Stage.start(['alice', 'bob'])
  const [alice, bob] = [stage.player('alice'), stage.player('bob')]
  void bob.channel.intake.catchUp()
  bob.channel.become('leaving')
  await stage.settle()
  // The relay has refused.
  bob.channel.become('joined')
  bob.channel.intake.resume()
  const said = [alice.send('still here?'), bob.send('yes')]
  await stage.settle()
  await Promise.all(said)
  assert.deepEqual(await bob.take(), ['still here?'])
  const caughtUp = bob.channel.intake.catchUp()
  await stage.settle()
  await caughtUp
})

test('a send that waits because the relay gets no quota is reported after 5 s, once per wait', async () => {
  const stage = await Stage.start(['alice', 'bob'])
  const [alice, bob] = [stage.player('alice'), stage.player('bob')]
  const noQuota: Stage['refuse'] = (player, body) =>
    inTurn(stage, player, body, { code: 'unavailable', retryAfterMs: 1000 })
  const since: number[] = []
  for (const words of ['one', 'two']) {
    stage.refuse = noQuota
    since.push(alice.now())
    const burst = [alice.send(words), alice.send(`${words} more`)]
    await stage.settle()
    await stage.advance(4000, 1000)
    assert.equal(alice.told('waiting').length, since.length - 1)
    await stage.advance(60_000, 1000)
    assert.deepEqual(
      alice.told('waiting').map((event) => [event.error.code, event.since]),
      since.map((at) => ['unavailable', at]),
    )
    stage.refuse = () => undefined
    await stage.advance(2000, 1000)
    await Promise.all(burst)
    assert.deepEqual(await bob.take(), [words, `${words} more`])
  }
  // What is taken in time is not told.
  stage.refuse = noQuota
  const sent = alice.send('three')
  await stage.settle()
  await stage.advance(3000, 1000)
  stage.refuse = () => undefined
  await stage.advance(60_000, 1000)
  await sent
  assert.equal(alice.told('waiting').length, 2)
})

test('a send cancelled before encryption is not sent; later it may arrive, and the error says which', async () => {
  const stage = await Stage.start(['alice', 'bob'])
  const [alice, bob] = [stage.player('alice'), stage.player('bob')]
  const first = alice.send('first')
  await stage.settle()
  assert.deepEqual(await first, { messageId: (await first).messageId, index: stage.position.index })
  // Encrypted and stored, and the relay does not answer.
  const stored = alice.send('stored', { timeoutMs: 3000 })
  await written(alice)
  alice.online = false
  const [request] = alice.requests.splice(0)
  const pending = assert.rejects(stored, { code: 'send_pending', message: /may still arrive.*Do not send it again/ })
  stage.now += 3000
  alice.awake()
  await pending
  // Without a session nothing is encrypted.
  request!.done({ type: 'lost', error: StaticError.of('connection_error', 'The line is cut.') })
  alice.channel.lose()
  const stop = new AbortController()
  const waiting = alice.send('never', { signal: stop.signal })
  await written(alice)
  const cancelled = assert.rejects(waiting, { code: 'cancelled', message: /not sent and will not be/ })
  stop.abort()
  await cancelled
  await assert.rejects(alice.send('never', { signal: AbortSignal.abort() }), { code: 'cancelled' })
  alice.resume()
  await stage.settle()
  await assert.rejects(alice.send('never', { signal: AbortSignal.abort() }), { code: 'cancelled' })
  await stage.settle()
  assert.deepEqual(await bob.take(), ['first', 'stored'])
})

test('a send that waits because of a fork is reported with that reason, and goes out once the fork is accepted', async () => {
  const stage = await Stage.start(['alice', 'bob', 'mal'], { apart: ['mal'] })
  const [alice, bob, mal] = [stage.player('alice'), stage.player('bob'), new Apart(stage, 'mal')]
  // It must be sent again, which waits then.
  stage.refuse = (player, body) =>
    player === alice && body.case === 'sendMessage'
      ? { code: 'epoch_mismatch', head: BigInt(stage.position.slot) }
      : undefined
  const sending = alice.send('later')
  await written(alice)
  mal.say(mal.frame('a lie', { seen: { ...stage.position, hash: new Uint8Array(32) } }))
  await stage.settle()
  assert.equal(alice.channel.standing.record.fork, mal.agentId)
  stage.now += 5000
  alice.awake()
  assert.deepEqual(
    alice.told('waiting').map(({ error }) => error.code),
    ['fork_detected'],
  )
  stage.refuse = () => undefined
  for (const player of [alice, bob]) player.channel.acceptFork()
  await stage.settle()
  await sending
  assert.deepEqual(await bob.take(), ['a lie', 'later'])
})

test('an agent that leaves during a fork is removed once the member that has seen another history is', async () => {
  const stage = await Stage.start(['alice', 'bob', 'carol', 'mal'], { apart: ['mal'] })
  const [alice, carol, mal] = [stage.player('alice'), stage.player('carol'), new Apart(stage, 'mal')]
  mal.say(mal.frame('a lie', { seen: { ...stage.position, hash: new Uint8Array(32) } }))
  await stage.settle()
  stage.leave(carol)
  await stage.advance(10_000)
  assert.equal(alice.channel.group?.members.has(carol.agentId), true, 'nobody may commit during the fork')
  const change = { removes: [fromHex(mal.agentId)] }
  const removing = alice.channel.committer.commit(() => change, { isRemoval: true })
  await stage.settle()
  await removing
  await stage.advance(10_000)
  assert.equal(alice.channel.group?.members.has(carol.agentId), false)
})

test('an agent that leaves during a fork is removed once one member accepts the fork', async () => {
  const stage = await Stage.start(['alice', 'bob', 'carol', 'mal'], { apart: ['mal'] })
  const [alice, bob, carol] = [stage.player('alice'), stage.player('bob'), stage.player('carol')]
  const mal = new Apart(stage, 'mal')
  mal.say(mal.frame('a lie', { seen: { ...stage.position, hash: new Uint8Array(32) } }))
  await stage.settle()
  stage.leave(carol)
  await stage.advance(10_000)
  assert.equal(bob.channel.group?.members.has(carol.agentId), true, 'nobody may commit during the fork')
  bob.channel.acceptFork()
  await stage.advance(10_000)
  assert.equal(bob.channel.group?.members.has(carol.agentId), false)
  assert.equal(bob.view, alice.view)
})

test('a send that waits for a session is reported after 5 s, with the reason', async () => {
  const stage = await Stage.start(['alice', 'bob'])
  const alice = stage.player('alice')
  alice.lose()
  const sending = alice.send('later')
  alice.online = false
  stage.now += 5000
  alice.awake()
  assert.deepEqual(
    alice.told('waiting').map(({ channel, error }) => [channel, error.code]),
    [[alice.channel.name, 'connection_error']],
  )
  alice.resume()
  await stage.settle()
  await sending
})

test('a commit that the relay defers for long is reported once', async () => {
  const stage = await Stage.start(['alice', 'bob'])
  const alice = stage.player('alice')
  let waitMs = 1000
  stage.refuse = (_, body) => (body.case === 'sendCommit' ? { code: 'rate_limited', retryAfterMs: waitMs } : undefined)
  const short = alice.channel.upkeep.rekey()
  await stage.settle()
  assert.deepEqual(alice.told('throttled'), [], 'a second is no news')
  stage.refuse = () => undefined
  await stage.advance(1000, 1000)
  await short

  waitMs = 3000
  stage.refuse = (_, body) => (body.case === 'sendCommit' ? { code: 'rate_limited', retryAfterMs: waitMs } : undefined)
  const long = alice.channel.upkeep.rekey()
  await stage.settle()
  const told = (): object[] => alice.told('throttled').map(({ error, waitMs: wait }) => ({ code: error.code, wait }))
  assert.deepEqual(told(), [{ code: 'rate_limited', wait: 3000 }])
  await stage.advance(6000, 1000)
  stage.refuse = () => undefined
  await stage.advance(3000, 1000)
  await long
  assert.equal(told().length, 1)
})

for (const code of ['rate_limited', 'unavailable']) {
  test(`a commit that the relay keeps refusing (${code}) fails after 60 s, and the channel continues, even after a restart`, async () => {
    const stage = await Stage.start(['alice', 'bob'])
    const bob = stage.player('bob')
    let alice = stage.player('alice')
    const isPending = (): boolean => alice.store.load().channels.some(({ pending }) => pending !== undefined)
    stage.refuse = (_, body) => (body.case === 'sendCommit' ? { code } : undefined)
    const rekeyed = fate(alice.channel.upkeep.rekey())
    await stage.settle()
    const sent = fate(alice.send('behind it'))
    await stage.advance(59_000, 1000)
    assert.deepEqual([isPending(), await bob.take()], [true, []])
    await stage.advance(2000, 1000)
    assert.deepEqual([await rekeyed, await sent, isPending()], [code, 'ok', false])
    assert.deepEqual([await bob.take(), bob.view === alice.view], [['behind it'], true])

    // Nobody waits for it any more, but it is on disk.
    void fate(alice.channel.upkeep.rekey())
    await stage.settle()
    alice = alice.restart()
    await stage.settle()
    assert.ok(isPending())
    const after = fate(alice.send('after the restart'))
    await stage.advance(61_000, 1000)
    assert.deepEqual([await after, isPending(), await bob.take()], ['ok', false, ['after the restart']])
    stage.refuse = () => undefined
    const last = fate(alice.channel.upkeep.rekey())
    await stage.settle()
    assert.deepEqual([await last, alice.view], ['ok', bob.view])
  })
}

test('a re-key that the relay defers until it is given up is started again less and less often, also after restarts', async () => {
  const stage = await Stage.start(['alice', 'bob'])
  let alice = stage.player('alice')
  const bob = stage.player('bob')
  const attempts = new Map<string, number>()
  const began = stage.now
  stage.refuse = (_, body) => {
    if (body.case !== 'sendCommit') return undefined
    const id = Buffer.from(body.value.messageId).toString('hex')
    if (!attempts.has(id)) attempts.set(id, Math.round((stage.now - began) / 60_000))
    return { code: 'rate_limited' }
  }
  assert.equal(await tryRekey(stage, alice), 'rate_limited')
  // As after a day: it is due.
  alice.channel.become('joined', true)
  await stage.advance(20 * 60_000, 10_000)
  assert.deepEqual([...attempts.values()], [0, 2, 5, 9, 17])
  for (let restarts = 0; restarts < 8; restarts++) {
    alice = alice.restart()
    await stage.advance(4 * 60_000, 10_000)
  }
  assert.deepEqual([...attempts.values()], [0, 2, 5, 9, 17, 33, 49])
  // Messages wait for an attempt only while it lasts.
  const sent = fate(alice.send('on'))
  await stage.settle()
  assert.deepEqual([await sent, await bob.take()], ['ok', ['on']])
  stage.refuse = () => undefined
  await stage.advance(20 * 60_000, 10_000)
  assert.equal(alice.store.load().channels[0]?.record.rekeyDeferredAt, 0)
  assert.deepEqual([alice.told('rekeyed').length, alice.view], [1, bob.view])
})

async function tryRekey(stage: Stage, player: Player): Promise<string> {
  const rekeyed = fate(player.channel.upkeep.rekey())
  await stage.advance(61_000, 1000)
  return rekeyed
}
