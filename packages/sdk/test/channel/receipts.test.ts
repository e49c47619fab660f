/** Receipts in a channel: what is signed, what is believed, and who is waited for. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  decodeReceipt,
  encodeReceipt,
  type ReceiptClaim,
  type ReceiptMode,
  receiptBytes,
  type SignedReceipt,
  StaticError,
  toHex,
} from '@static/protocol'
import { MOST_LIFETIME_MS } from '../../src/channel/asking/ask-frame.ts'
import type { OpenAsk } from '../../src/channel/asking/open-ask.ts'
import { serveRequests } from '../../src/channel/asking/serving.ts'
import type { Judgement, ReceiptLevel } from '../../src/channel/receipts/reached.ts'
import type { SentMessage } from '../../src/channel/sending/outbox.ts'
import { engine } from '../mls/support.ts'
import { Player, Stage } from '../support/stage.ts'

/** A second, in which everything due is done and nothing is missed. */
const A_MOMENT = 1000

async function stageOf(...names: readonly string[]): Promise<Stage> {
  return await Stage.start(names, { receipts: 'settled' })
}

async function sent(stage: Stage, player: Player, words = 'hello'): Promise<SentMessage> {
  const sending = player.send(words)
  await stage.settle()
  return await sending
}

/** Starts to wait; `done` is set once the wait is over. */
function waiting(
  player: Player,
  message: SentMessage,
  level: ReceiptLevel = 'settled',
  by?: readonly string[],
): { done: Judgement | undefined; error: unknown } {
  const state: { done: Judgement | undefined; error: unknown } = { done: undefined, error: undefined }
  player.channel.receipts.reached({ sent: message, level, by }, {}).then(
    (done) => (state.done = done),
    (error: unknown) => (state.error = error),
  )
  return state
}

async function moment(stage: Stage): Promise<void> {
  await stage.advance(A_MOMENT, 250)
  await new Promise((resolve) => setImmediate(resolve))
}

function names(stage: Stage, judgement: Judgement | undefined): unknown {
  if (!judgement) return undefined
  const nameOf = (agent: string): string => stage.players.find(({ agentId }) => agentId === agent)?.name ?? agent
  return {
    reached: [...judgement.reached].map(nameOf).sort(),
    unreached: Object.fromEntries([...judgement.unreached].map(([agent, reason]) => [nameOf(agent), reason])),
  }
}

/** What a player's last receipt at the relay says. */
function claimOf(stage: Stage, player: Player): SignedReceipt {
  return decodeReceipt(stage.receipts.get(player.agentId) ?? assert.fail('no receipt')) ?? assert.fail('malformed')
}

/** A receipt with a player's signature, whatever it says. */
function signed(stage: Stage, player: Player, claim: ReceiptClaim, channelId = stage.channelId): Uint8Array {
  return encodeReceipt({ ...claim, signature: player.sign(receiptBytes(channelId, claim)) })
}

/** The relay gives a receipt in an agent's name. */
async function give(stage: Stage, to: Player, from: Player, receipt: Uint8Array): Promise<void> {
  to.mail.set(from.agentId, receipt)
  await stage.settle()
}

test('a message is delivered when it is on disk, and settled when the application has asked for the next one', async () => {
  const stage = await stageOf('ann', 'bob', 'cy')
  const [ann, bob, cy] = [stage.player('ann'), stage.player('bob'), stage.player('cy')]
  const message = await sent(stage, ann)
  const delivered = waiting(ann, message, 'delivered')
  const settled = waiting(ann, message)
  await moment(stage)
  assert.deepEqual(names(stage, delivered.done), { reached: ['bob', 'cy'], unreached: {} })
  assert.equal(settled.done, undefined)
  assert.deepEqual(await bob.take(), ['hello'])
  await moment(stage)
  assert.equal(settled.done, undefined, 'one is not all')
  assert.deepEqual(
    names(stage, await ann.channel.receipts.reached({ sent: message, level: 'settled', by: [bob.agentId] }, {})),
    {
      reached: ['bob'],
      unreached: {},
    },
  )
  assert.deepEqual(await cy.take(), ['hello'])
  await moment(stage)
  assert.deepEqual(names(stage, settled.done), { reached: ['bob', 'cy'], unreached: {} })
  assert.equal(stage.log.length, 1, 'nothing but the message is in the log')
  assert.ok(ann.told('receipt').some(({ member, settled: upTo }) => member === cy.agentId && upTo === message.index))
  assert.deepEqual(bob.told('receipt'), [], 'who does not ask is not told')
})

test('at most four receipts a second and channel are signed, and the last one always', async () => {
  const stage = await stageOf('ann', 'bob')
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  await moment(stage)
  let signatures = 0
  const { sign } = bob
  Object.assign(bob, {
    sign: (bytes: Uint8Array) => {
      signatures++
      return sign(bytes)
    },
  })
  for (let second = 0; second < 3; second++) {
    for (let tenth = 0; tenth < 10; tenth++) {
      await sent(stage, ann, String(tenth))
      await stage.advance(100, 100)
    }
  }
  await moment(stage)
  assert.ok(signatures >= 11 && signatures <= 13, `${signatures} in three seconds`)
  assert.equal(claimOf(stage, bob).index, stage.position.index)
  assert.equal(claimOf(stage, bob).settled, 0)
})

test('sender and receiver are never online together: the receipt is there when the sender returns', async () => {
  const stage = await stageOf('ann', 'bob')
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  bob.lose()
  const message = await sent(stage, ann)
  ann.lose()
  bob.resume()
  await stage.settleOnly(bob)
  assert.deepEqual(await bob.take(), ['hello'])
  bob.journal.flush()
  await stage.settleOnly(bob)
  stage.now += A_MOMENT
  bob.awake()
  bob.lose()
  const again = ann.restart()
  const done = waiting(again, message)
  await moment(stage)
  assert.deepEqual(names(stage, done.done), { reached: ['bob'], unreached: {} })
})

test('members that left, were removed, missed it or send no receipts are reported, not waited for', async () => {
  const stage = await Stage.start(['ann', 'bob', 'cy', 'dan', 'eve', 'fay'], {
    receipts: 'settled',
    players: { dan: { receipts: 'off' }, eve: { receipts: 'delivered' } },
  })
  const [ann, bob, cy, fay] = ['ann', 'bob', 'cy', 'fay'].map((name) => stage.player(name)) as [
    Player,
    Player,
    Player,
    Player,
  ]
  for (const player of [bob, cy]) player.lose()
  const message = await sent(stage, ann)
  const done = waiting(ann, message)
  await moment(stage)
  assert.equal(done.done, undefined)
  // One that could not open an entry has missed what came before it, as far as it can say.
  fay.channel.receipts.missed(message.index)
  fay.channel.receipts.putAside(0)
  await sent(stage, ann, 'again')
  await moment(stage)
  assert.equal(done.done, undefined)
  stage.leave(bob)
  await moment(stage)
  const removing = ann.channel.committer.commit(() => ({ removes: [Buffer.from(cy.agentId, 'hex')] }))
  await stage.settle()
  await removing
  await stage.advance(10_000)
  await moment(stage)
  assert.deepEqual(names(stage, done.done), {
    reached: [],
    unreached: { bob: 'left', cy: 'removed', dan: 'off', eve: 'off', fay: 'missed' },
  })
  const others = await ann.channel.receipts.reached(
    { sent: message, level: 'delivered', by: [stage.player('eve').agentId, 'ab'.repeat(32)] },
    {},
  )
  assert.deepEqual(names(stage, others), { reached: ['eve'], unreached: { ['ab'.repeat(32)]: 'not_member' } })
})

test('a message put aside is reported and never settled; later ones are', async () => {
  const stage = await stageOf('ann', 'bob')
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  const first = await sent(stage, ann, 'bad')
  const { inbox, poison } = bob.channel
  const reader = inbox.read((entry) => entry)
  const { value: entry } = await reader.next()
  assert.ok(entry)
  assert.equal(poison.put(entry, 'cannot'), true)
  await reader.return?.()
  const bad = waiting(ann, first)
  await moment(stage)
  assert.deepEqual(names(stage, bad.done), { reached: [], unreached: { bob: 'aside' } })
  const second = await sent(stage, ann, 'good')
  assert.deepEqual(await bob.take(), ['good'])
  await moment(stage)
  const good = waiting(ann, second)
  await moment(stage)
  assert.deepEqual(names(stage, good.done), { reached: ['bob'], unreached: {} })
  // Retried and read in the end: it was put aside all the same.
  const again = bob.restart()
  await moment(stage)
  const retrying = again.channel.poison.retry(first.messageId)
  again.journal.flush()
  await retrying
  assert.deepEqual(await again.take(), ['bad'])
  await moment(stage)
  const still = waiting(ann, first)
  await moment(stage)
  assert.deepEqual(names(stage, still.done), { reached: [], unreached: { bob: 'aside' } })
})

test('an agent that is killed signs again what the disk says, and never more', async () => {
  const stage = await stageOf('ann', 'bob')
  const ann = stage.player('ann')
  let bob = stage.player('bob')
  await sent(stage, ann, 'one')
  await moment(stage)
  const before = claimOf(stage, bob)
  assert.deepEqual([before.index, before.settled], [1, 0])
  // Settled in memory, killed before it was written.
  assert.deepEqual(await bob.take(), ['one'])
  bob = bob.restart()
  await moment(stage)
  assert.deepEqual([claimOf(stage, bob).index, claimOf(stage, bob).settled], [1, 0])
  bob.lose()
  assert.deepEqual(await bob.take(), ['one'], 'it is delivered again')
  bob.journal.flush()
  // Written, killed before the receipt was sent: the relay's is the old one.
  assert.equal(claimOf(stage, bob).settled, 0)
  bob = bob.restart()
  await moment(stage)
  assert.deepEqual([claimOf(stage, bob).index, claimOf(stage, bob).settled], [1, 1])
})

test('an agent that joins signs nothing before its membership is on disk', async () => {
  const stage = await Stage.start(['ann', 'bob'], { receipts: 'settled', apart: ['bob'] })
  const agent = stage.apart.get('bob') ?? assert.fail()
  const signer = engine.facts(agent.group).members[0] ?? assert.fail()
  const bob = new Player(stage, agent, { receipts: 'settled' })
  bob.enter({ group: agent.group, rows: [...agent.rows.values()], signer })
  bob.channel.intake.answered(stage.stateOf(bob))
  assert.equal(stage.receipts.get(bob.agentId), undefined, 'a killed joiner would have lost its Welcome')
  await stage.settle()
  assert.equal(claimOf(stage, bob).since, stage.position.index)
})

test('the last hashes survive a restart, so that a fork from before it is found', async () => {
  const stage = await stageOf('ann', 'bob')
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  for (let count = 0; count < 30; count++) await sent(stage, ann, String(count))
  await moment(stage)
  const again = bob.restart()
  await moment(stage)
  const { history } = again.channel
  for (let index = 1; index <= 30; index++) {
    assert.equal(history.compare(index, stage.positions[index]?.hash ?? assert.fail()), true, String(index))
    assert.equal(history.compare(index, new Uint8Array(32)), false)
  }
  assert.equal(history.compare(31, new Uint8Array(32)), undefined)
  const claim: ReceiptClaim = { mode: 'delivered', since: 0, index: 12, hash: new Uint8Array(32), aside: 0, settled: 0 }
  await give(stage, again, ann, signed(stage, ann, claim))
  assert.deepEqual(
    again.told('fork_detected').map(({ member, detail }) => [member, detail.includes('receipt')]),
    [[ann.agentId, true]],
  )
})

for (const [lie, make] of Object.entries<(stage: Stage, claim: ReceiptClaim) => Uint8Array>({
  'that nobody signed': (_stage, claim) => encodeReceipt({ ...claim, signature: new Uint8Array(64) }),
  'of another channel': (stage, claim) => signed(stage, stage.player('bob'), claim, new Uint8Array(16)),
  'of another member': (stage, claim) => signed(stage, stage.player('cy'), claim),
  'of an entry that does not exist': (stage, claim) =>
    signed(stage, stage.player('bob'), { ...claim, index: 99, settled: 99 }),
  'that says more than was signed': (stage, claim) => {
    const bytes = signed(stage, stage.player('bob'), { ...claim, settled: 0 })
    bytes.set(encodeReceipt({ ...claim, signature: new Uint8Array(64) }).subarray(0, 65))
    return bytes
  },
  'that is cut short': (stage, claim) => signed(stage, stage.player('bob'), claim).subarray(0, 128),
})) {
  test(`a receipt ${lie} counts for nothing`, async () => {
    const stage = await stageOf('ann', 'bob', 'cy')
    const [ann, bob] = [stage.player('ann'), stage.player('bob')]
    bob.lose()
    const message = await sent(stage, ann)
    const done = waiting(ann, message, 'settled', [bob.agentId])
    await moment(stage)
    const { index, hash } = stage.position
    const claim: ReceiptClaim = { mode: 'settled', since: 0, index, hash, aside: 0, settled: index }
    await give(stage, ann, bob, make(stage, claim))
    await moment(stage)
    assert.equal(done.done, undefined)
    assert.deepEqual(ann.told('fork_detected'), [])
    // The true one still counts.
    await give(stage, ann, bob, signed(stage, bob, claim))
    await moment(stage)
    assert.deepEqual(names(stage, done.done), { reached: ['bob'], unreached: {} })
  })
}

test('members that send bad receipts do not silence others', async () => {
  const bad = Array.from({ length: 9 }, (_, at) => `m${at}`)
  const stage = await Stage.start(['ann', 'bob', ...bad], { receipts: 'settled', apart: bad })
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  bob.lose()
  const message = await sent(stage, ann)
  const done = waiting(ann, message, 'settled', [bob.agentId])
  await moment(stage)
  const { index, hash } = stage.position
  const claim: ReceiptClaim = { mode: 'settled', since: 0, index, hash, aside: 0, settled: index }
  // As often as a relay passes them on.
  for (let round = 0; round < 4; round++) {
    for (const { agentId } of stage.apart.values()) {
      ann.mail.set(toHex(agentId), encodeReceipt({ ...claim, signature: new Uint8Array(64) }))
    }
    await stage.settle()
  }
  await give(stage, ann, bob, signed(stage, bob, claim))
  await moment(stage)
  assert.deepEqual(names(stage, done.done), { reached: ['bob'], unreached: {} })
})

test('a receipt of a removed member, or of an earlier stay, counts for nothing', async () => {
  const stage = await stageOf('ann', 'bob', 'cy')
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  const message = await sent(stage, ann)
  await moment(stage)
  const removing = ann.channel.committer.commit(() => ({ removes: [Buffer.from(bob.agentId, 'hex')] }))
  await stage.settle()
  await removing
  const { index, hash } = stage.positions[1] ?? assert.fail()
  const claim: ReceiptClaim = { mode: 'settled', since: 0, index, hash, aside: 0, settled: index }
  const done = waiting(ann, message, 'settled', [bob.agentId])
  await give(stage, ann, bob, signed(stage, bob, claim))
  await moment(stage)
  assert.deepEqual(names(stage, done.done), { reached: [], unreached: { bob: 'removed' } })
  // As if it were back: what it signed before is of another stay.
  const { receipts } = ann.channel
  receipts.change({ by: ann.agentId, added: [bob.agentId], removed: [], left: 0, vouched: [] })
  const [stay] = (await receipts.current()).filter(({ agent }) => agent === bob.agentId)
  assert.equal(stay?.receipt, undefined)
})

test('an older receipt changes nothing, and a withheld one is waited for', async () => {
  const stage = await stageOf('ann', 'bob')
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  const first = await sent(stage, ann, 'one')
  await ann.channel.receipts.reached({ sent: first, level: 'delivered', by: [] }, {})
  assert.deepEqual(await bob.take(), ['one'])
  await moment(stage)
  const old = stage.receipts.get(bob.agentId) ?? assert.fail()
  const second = await sent(stage, ann, 'two')
  assert.deepEqual(await bob.take(), ['two'])
  await moment(stage)
  const done = waiting(ann, second)
  await moment(stage)
  assert.deepEqual(names(stage, done.done), { reached: ['bob'], unreached: {} })
  await give(stage, ann, bob, old)
  const [known] = (await ann.channel.receipts.current()).map(({ receipt }) => receipt)
  assert.equal(known?.settled, second.index)
  // The relay keeps the next one to itself.
  const third = await sent(stage, ann, 'three')
  assert.deepEqual(await bob.take(), ['three'])
  const held = waiting(ann, third)
  for (let round = 0; round < 8; round++) {
    stage.now += 250
    for (const player of stage.players) player.awake()
    ann.mail.clear()
    for (const { journal } of stage.players) journal.flush()
    ann.mail.clear()
  }
  await new Promise((resolve) => setImmediate(resolve))
  assert.equal(held.done, undefined)
  await give(stage, ann, bob, stage.receipts.get(bob.agentId) ?? assert.fail())
  await moment(stage)
  assert.deepEqual(names(stage, held.done), { reached: ['bob'], unreached: {} })
})

test('a receipt from before a change of mode changes nothing, and settled messages stay settled', async () => {
  const stage = await stageOf('ann', 'bob')
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  bob.lose()
  const asked = async (message: SentMessage, level: ReceiptLevel): Promise<unknown> => {
    const state = waiting(ann, message, level)
    await moment(stage)
    return names(stage, state.done)
  }
  const has = { reached: ['bob'], unreached: {} }
  const off = { reached: [], unreached: { bob: 'off' } }
  const said = async (mode: ReceiptMode): Promise<Uint8Array> => {
    const { index, hash } = stage.position
    const settled = mode === 'settled' ? first.index : 0
    const claim: ReceiptClaim = { mode, since: 0, index, hash, aside: 0, settled }
    const receipt = signed(stage, bob, claim)
    await give(stage, ann, bob, receipt)
    return receipt
  }
  const first = await sent(stage, ann, 'one')
  const second = await sent(stage, ann, 'two')
  await ann.channel.receipts.reached({ sent: first, level: 'delivered', by: [] }, {})
  const older = [await said('off'), await said('delivered')]
  assert.deepEqual(await asked(first, 'settled'), off)
  // At the same entry, it starts to tell more.
  older.push(await said('settled'))
  for (const receipt of older) {
    await give(stage, ann, bob, receipt)
    assert.deepEqual(await asked(first, 'settled'), has)
    assert.equal(await asked(second, 'settled'), undefined, 'it is waited for')
  }
  // It tells less from now on.
  for (const mode of ['delivered', 'off'] as const) {
    const message = await sent(stage, ann, mode)
    older.push(await said(mode))
    for (const receipt of older) {
      await give(stage, ann, bob, receipt)
      assert.deepEqual(await asked(message, 'settled'), off)
      assert.deepEqual(await asked(message, 'delivered'), mode === 'off' ? off : has)
      for (const level of ['delivered', 'settled'] as const) assert.deepEqual(await asked(first, level), has)
    }
  }
})

test('an agent whose receipts are off says so twice in a session, the second time after another entry', async () => {
  const stage = await Stage.start(['ann', 'bob'], { receipts: 'settled', players: { bob: { receipts: 'off' } } })
  const bob = stage.player('bob')
  await moment(stage)
  const said: number[] = []
  const look = (): void => {
    const { mode, index } = claimOf(stage, bob)
    assert.equal(mode, 'off')
    if (said.at(-1) !== index) said.push(index)
  }
  look()
  for (let count = 0; count < 3; count++) {
    await sent(stage, stage.player('ann'))
    await moment(stage)
    look()
  }
  assert.deepEqual(said, [0, 1])
})

test('an agent that is removed while it begins to wait is told so, not that no one is left to wait for', async () => {
  const stage = await stageOf('ann', 'bob')
  const bob = stage.player('bob')
  const message = await sent(stage, bob)
  const state = waiting(bob, message)
  const removed = StaticError.of('removed')
  bob.channel.end(removed, removed)
  await moment(stage)
  assert.equal(state.error, removed)
})

test('two histories are detected although no one sends, even by an agent that does not use receipts', async () => {
  const stage = await stageOf('ann', 'bob')
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  await sent(stage, ann)
  await moment(stage)
  const claim: ReceiptClaim = {
    mode: 'settled',
    since: 0,
    index: 1,
    hash: new Uint8Array(32).fill(7),
    aside: 0,
    settled: 1,
  }
  await give(stage, ann, bob, encodeReceipt({ ...claim, signature: new Uint8Array(64) }))
  assert.deepEqual(ann.told('fork_detected'), [], 'the relay alone cannot make one up')
  // Ahead of its own log it waits until it gets there.
  bob.lose()
  const ahead = { ...claim, index: 2 }
  await give(stage, ann, bob, signed(stage, bob, ahead))
  assert.deepEqual(ann.told('fork_detected'), [])
  const sending = ann.send('next')
  await stage.settle()
  await sending
  assert.deepEqual(
    ann.told('fork_detected').map(({ member }) => member),
    [bob.agentId],
  )
  await assert.rejects(ann.send('no'), { code: 'fork_detected' })
  assert.deepEqual(ann.told('receipt'), [])
  ann.channel.acceptFork()
  await give(stage, ann, bob, signed(stage, bob, { ...ahead, settled: 2 }))
  assert.equal(ann.told('fork_detected').length, 1, 'what was accepted is not reported again')
})

test('a relay that names a wrong index for a message does not make it count as received', async () => {
  const stage = await stageOf('ann', 'bob')
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  await sent(stage, ann, 'one')
  await moment(stage)
  bob.lose()
  stage.pressing = () => ({ index: 1n })
  const message = await sent(stage, ann, 'two')
  assert.equal(message.index, 1)
  const done = waiting(ann, message, 'delivered')
  await moment(stage)
  assert.equal(done.done, undefined)
  await assert.rejects(
    ann.channel.receipts.reached(
      { sent: { messageId: 'ab'.repeat(16), index: 1 }, level: 'delivered', by: undefined },
      {},
    ),
    { code: 'not_found' },
  )
})

test('heartbeats are sent only by members without receipts', async () => {
  const stage = await Stage.start(['ann', 'bob', 'cy'], { receipts: 'settled', players: { cy: { receipts: 'off' } } })
  await sent(stage, stage.player('ann'))
  await stage.advance(120_000)
  const heartbeats = stage.log.filter((entry) => entry.kind === 'message' && entry.request.control)
  assert.deepEqual(
    heartbeats.map(({ sender }) => sender),
    [stage.player('cy').agentId],
  )
})

test('a wait ends with its signal, its time, or the channel', async () => {
  const stage = await stageOf('ann', 'bob')
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  bob.lose()
  const message = await sent(stage, ann)
  const question = { sent: message, level: 'settled', by: undefined } as const
  const controller = new AbortController()
  const aborted = ann.channel.receipts.reached(question, { signal: controller.signal })
  const late = ann.channel.receipts.reached(question, { timeoutMs: 3000 })
  const over = ann.channel.receipts.reached(question, {})
  const checks = [
    assert.rejects(aborted, { code: 'cancelled' }),
    assert.rejects(late, ({ code, message, details }: StaticError) => {
      assert.deepEqual([code, details.missing], ['cancelled', [bob.agentId]])
      assert.match(
        message,
        /^Not every member has confirmed message \w+\. Missing: bob \(.+\)\. The timeout of 3 s expired\.$/,
      )
      return true
    }),
    assert.rejects(over, { code: 'removed' }),
    assert.rejects(ann.channel.receipts.reached(question, { signal: AbortSignal.abort() }), { code: 'cancelled' }),
  ]
  controller.abort()
  await stage.advance(4000)
  ann.channel.over()
  await Promise.all(checks)
  await assert.rejects(ann.channel.receipts.reached(question, {}), { code: 'removed' })
})

/** Asks everybody, for as long as anybody may. */
async function asked(stage: Stage, player: Player): Promise<OpenAsk> {
  const question = { payload: Buffer.from('how?'), to: undefined, lifetimeMs: MOST_LIFETIME_MS, signal: undefined }
  const ask = player.channel.asks.ask(question)
  await stage.settle()
  return ask
}

test('neither a request that no one serves nor an answer that no one reads holds back what is settled', async () => {
  const stage = await stageOf('ann', 'bob')
  let [ann, bob] = [stage.player('ann'), stage.player('bob')]
  await asked(stage, ann)
  const message = await sent(stage, ann)
  const state = waiting(ann, message)
  assert.deepEqual(await bob.take(), ['hello'])
  await moment(stage)
  assert.deepEqual(names(stage, state.done), { reached: ['bob'], unreached: {} })
  bob = bob.restart()
  await moment(stage)
  assert.equal(claimOf(stage, bob).settled, 2, 'also after a restart')

  // Of a server, too: its asker reads nothing, so it cannot send all of its answers.
  const stop = new AbortController()
  const { channel } = bob
  const part = new Uint8Array(200_000)
  const serving = serveRequests(
    bob,
    channel,
    async function* () {
      for (;;) yield part
    },
    { signal: stop.signal },
  )
  await moment(stage)
  await moment(stage)
  assert.equal(channel.requests.inbox.isEmpty, false)
  assert.equal(claimOf(stage, bob).settled, claimOf(stage, bob).index)
  assert.equal(claimOf(stage, ann).settled, claimOf(stage, ann).index, 'its answers are not read')
  ann = ann.restart()
  await moment(stage)
  assert.equal(ann.channel.asks.list().length, 1)
  assert.equal(claimOf(stage, ann).settled, claimOf(stage, ann).index, 'also after a restart')
  stop.abort()
  await serving
})

test('a request that no one serves is dropped when it has expired', async () => {
  const stage = await stageOf('ann', 'bob', 'cy')
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  let cy = stage.player('cy')
  ann.channel.asks.ask({ payload: Buffer.from('how?'), to: undefined, lifetimeMs: 90_000, signal: undefined })
  await stage.advance(60_000)
  cy = cy.restart()
  assert.deepEqual([bob.channel.requests.inbox.isEmpty, cy.channel.requests.inbox.isEmpty], [false, false])
  await stage.advance(100_000)
  assert.equal(bob.channel.requests.inbox.isEmpty, true)
  assert.equal(cy.channel.requests.inbox.isEmpty, true, 'also after a restart')
})
