/** Requests on a relay that is a list: it refuses what the test says, and members say what the test says. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeAnswer, encodeAnswerEnd, encodeCancel } from '../../src/channel/asking/ask-frame.ts'
import type { OpenAsk } from '../../src/channel/asking/open-ask.ts'
import { serveRequests } from '../../src/channel/asking/serving.ts'
import { type Player, Stage } from '../support/stage.ts'

function asked(player: Player, to: string | undefined): OpenAsk {
  const question = { payload: Buffer.from('?'), to, lifetimeMs: 60_000, signal: undefined }
  return player.channel.asks.ask(question)
}

async function texts(ask: OpenAsk): Promise<string[]> {
  const found: string[] = []
  for (let entry = await ask.next(); entry; entry = await ask.next())
    found.push('payload' in entry.content ? Buffer.from(entry.content.payload).toString() : entry.content.error.code)
  return found
}

test('a request whose last answer the relay refuses is not settled, and is served again', async () => {
  const stage = await Stage.start(['ann', 'bob'], { receipts: 'settled' })
  const [ann, bob] = [stage.player('ann'), stage.player('bob')]
  const runs: boolean[] = []
  const handler = async function* ({ redelivered }: { readonly redelivered: boolean }): AsyncGenerator<string> {
    runs.push(redelivered)
    yield 'one'
    yield 'two'
  }
  let refusals = 0
  // The first answer is accepted, the last one is not.
  stage.refuse = (player, body) => {
    if (player !== bob || body.case !== 'sendMessage' || stage.log.length < 2 || refusals > 0) return undefined
    refusals++
    return { code: 'quota_exceeded' }
  }
  const stop = new AbortController()
  const serving = serveRequests(bob, bob.channel, handler, { signal: stop.signal })
  const answers = texts(asked(ann, bob.agentId))
  await stage.advance(500)
  assert.equal(refusals, 1)
  assert.deepEqual(runs, [false])
  assert.equal(bob.channel.requests.inbox.isEmpty, false)
  await stage.advance(2000)
  assert.deepEqual(runs, [false, true])
  assert.deepEqual(await answers, ['one', 'two'])
  await stage.advance(1000)
  assert.equal(bob.channel.requests.inbox.isEmpty, true)
  stop.abort()
  await serving
})

test('a member that has ended its answer to all cannot answer again', async () => {
  const stage = await Stage.start(['ann', 'bob', 'mal'])
  const [ann, bob, mal] = [stage.player('ann'), stage.player('bob'), stage.player('mal')]
  const ask = asked(ann, undefined)
  const answers = texts(ask)
  await stage.settle()
  const { messageId: requestId } = ask
  for (const [player, words] of [
    [mal, 'once'],
    [bob, 'of bob'],
  ] as const) {
    const content = { payload: Buffer.from(words) }
    void player.channel.sender.send('answer_end', encodeAnswerEnd({ requestId, number: 0, content }))
    void player.channel.sender.send('answer', encodeAnswer(requestId, 1, Buffer.from('once more')))
    await stage.settle()
  }
  assert.deepEqual(ann.channel.asks.list(), [])
  assert.deepEqual(await answers, ['once', 'of bob'])
  assert.deepEqual(
    ann.told('answer_ignored').map(({ sender, reason }) => [sender, reason]),
    [
      [mal.agentId, 'ended'],
      [bob.agentId, 'not_open'],
    ],
  )
})

test('answers concern the member that asked: only it hears of ignored ones', async () => {
  const stage = await Stage.start(['ann', 'bob', 'cy'])
  const [ann, bob, cy] = [stage.player('ann'), stage.player('bob'), stage.player('cy')]
  const ask = asked(ann, bob.agentId)
  const answers = texts(ask)
  await stage.settle()
  const { messageId: requestId } = ask
  void bob.channel.sender.send('answer', encodeAnswer(requestId, 0, Buffer.from('one')))
  void bob.channel.sender.send('answer_end', Buffer.concat([requestId, Buffer.alloc(8)]))
  await stage.settle()
  void bob.channel.sender.send('answer_end', encodeAnswerEnd({ requestId, number: 1, content: undefined }))
  await stage.settle()
  assert.deepEqual(await answers, ['one'])
  void bob.channel.sender.send('answer', encodeAnswer(requestId, 1, Buffer.from('late')))
  // Of no request, and to one that nobody made.
  void bob.channel.sender.send('answer', new Uint8Array(3))
  void bob.channel.sender.send('answer', encodeAnswer(Buffer.alloc(16, 1), 0, Buffer.from('?')))
  await stage.settle()
  assert.deepEqual(
    ann.told('answer_ignored').map(({ reason }) => reason),
    ['malformed', 'not_open'],
  )
  assert.deepEqual(cy.told('answer_ignored'), [])
})

test('a member cannot cancel the request of another', async () => {
  const stage = await Stage.start(['ann', 'bob', 'mal'])
  const [ann, bob, mal] = [stage.player('ann'), stage.player('bob'), stage.player('mal')]
  const go = Promise.withResolvers<string>()
  const stop = new AbortController()
  const serving = serveRequests(bob, bob.channel, () => go.promise, { signal: stop.signal })
  const ask = asked(ann, bob.agentId)
  const answers = texts(ask)
  await stage.settle()
  void mal.channel.sender.send('cancel', encodeCancel(ask.messageId))
  await stage.settle()
  go.resolve('done')
  stop.abort()
  // Whatever the answer: it has ended.
  await stage.advance(1000)
  ask.cancel()
  assert.deepEqual(await answers, ['done'])
  await stage.settle()
  await serving
})
