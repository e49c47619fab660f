/** Members with valid keys that lie about requests and answers. Nobody believes them, and the channel lives on. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { fromHex } from '@static/protocol'
import type { AgentEvent } from '../../src/agent/events.ts'
import {
  encodeAnswer,
  encodeAnswerEnd,
  encodeCancel,
  encodeMore,
  encodeRequest,
} from '../../src/channel/asking/ask-frame.ts'
import type { FrameKind } from '../../src/channel/sending/message-frame.ts'
import { Insider } from '../support/insider.ts'
import { goOn } from '../support/lying-system.ts'
import { event } from '../support/test-system.ts'
import { scene } from '../lies/scene.ts'

type Ignored = Extract<AgentEvent, { type: 'answer_ignored' }>

const bytes = (text: string): Uint8Array => Buffer.from(text)

test('only the member that was asked is believed, each answer once and none after the end', async (t) => {
  const { world, clients, channels } = await scene(t)
  const [alice, bob] = clients
  const [a, b] = channels
  const mallory = await Insider.join(world.relay, a)
  const say = async (kind: FrameKind, payload: Uint8Array): Promise<void> => {
    await mallory.follow()
    mallory.say(mallory.frame('', { kind, payload }))
  }
  const ignored = async (reason: Ignored['reason'], kind: FrameKind, payload: Uint8Array): Promise<void> => {
    const reported = event(alice, 'answer_ignored', ({ sender }) => sender === mallory.agentId)
    await say(kind, payload)
    assert.equal((await reported).reason, reason)
  }
  const asked = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  void b.serve(async () => {
    asked.resolve()
    await go.promise
    return 'from bob'
  })

  // In place of the one that was asked.
  const ask = a.ask('who?', { to: bob.agentId })
  const requestId = fromHex(ask.id)
  await asked.promise
  const lie = { requestId, number: 0, content: { payload: bytes('from mallory') } }
  await ignored('not_asked', 'answer', encodeAnswer(requestId, 0, bytes('from mallory')))
  await ignored('not_asked', 'answer_end', encodeAnswerEnd(lie))
  // Nor does its word about another's request count.
  await say('cancel', encodeCancel(requestId))
  await say('more', encodeMore(requestId, 1000))
  go.resolve()
  assert.deepEqual(await Array.fromAsync(ask, (answer) => answer.text()), ['from bob'])

  // Twice, out of order, beyond what is read, and after the end.
  const second = a.ask('and you?', { to: mallory.agentId })
  const id = fromHex(second.id)
  const first = second.next()
  await say('answer', encodeAnswer(id, 0, bytes('one')))
  assert.equal((await first).value?.text(), 'one')
  await ignored('repeated', 'answer', encodeAnswer(id, 0, bytes('one, differently')))
  await ignored('out_of_order', 'answer', encodeAnswer(id, 2, bytes('three')))
  await say('answer', encodeAnswer(id, 1, new Uint8Array(200_000)))
  await ignored('too_many', 'answer', encodeAnswer(id, 2, new Uint8Array(200_000)))
  assert.equal((await second.next()).value?.payload.length, 200_000)
  await say('answer_end', encodeAnswerEnd({ requestId: id, number: 2, content: undefined }))
  assert.equal((await second.next()).done, true)
  await ignored('not_open', 'answer', encodeAnswer(id, 2, bytes('late')))

  // To all: its end is one of several, and it cannot answer again.
  const all = a.ask('all?')
  await ignored('malformed', 'answer_end', Buffer.concat([fromHex(all.id), new Uint8Array(8)]))
  const end = encodeAnswerEnd({ requestId: fromHex(all.id), number: 0, content: undefined })
  await say('answer_end', end)
  await ignored('ended', 'answer_end', end)
  // To nothing, which is no one's business, and to a request that was cancelled.
  await say('answer', encodeAnswer(new Uint8Array(randomBytes(16)), 0, bytes('hm')))
  all.cancel()
  await ignored('not_open', 'answer', encodeAnswer(fromHex(all.id), 0, bytes('hm')))
  await goOn(a, b)
})

test('a member that asks without end gets no more than its share, and others are served', async (t) => {
  const { world, clients, channels } = await scene(t)
  const [, bob] = clients
  const [a, b] = channels
  const mallory = await Insider.join(world.relay, a)
  await mallory.follow()
  const request = (payload: Uint8Array): void => mallory.say(mallory.frame('', { kind: 'request', payload }))
  const question = encodeRequest({ to: bob.agentId, lifetimeMs: 60_000, payload: bytes('q') })
  const malformed = event(bob, 'request_ignored', ({ reason }) => reason === 'malformed')
  request(new Uint8Array(3))
  assert.equal((await malformed).sender, mallory.agentId)

  const tooMany = event(bob, 'request_ignored', ({ reason }) => reason === 'too_many')
  for (let n = 0; n < 257; n++) request(question)
  assert.equal((await tooMany).sender, mallory.agentId)
  // The one too many was refused at once; the others wait, and Alice's request goes past them.
  let served = 0
  const handler = async (): Promise<string> => `served ${++served}`
  const handled = b.serve(handler, { perAsker: 1, concurrency: 2 })
  assert.match((await a.ask('q', { to: bob.agentId }).next()).value?.text() ?? '', /^served \d+$/)
  assert.ok(served < 257, `${served} were served before`)
  b.close()
  await handled
  await goOn(a, b)
})

test('an asker that reads nothing holds back only its own answers', async (t) => {
  const { clients, channels } = await scene(t)
  const [, bob] = clients
  const [a, b, c] = channels
  const part = new Uint8Array(100_000)
  let yielded = 0
  void b.serve(
    async function* (request) {
      if (request.text() === 'small') return 'done'
      for (let n = 0; n < 20; n++) {
        yield part
        yielded++
      }
      return 'end'
    },
    { concurrency: 1, perAsker: 2 },
  )
  const stream = a.ask('stream', { to: bob.agentId })
  await stream.next()
  // The others get their answers over the same server of one place, and Alice the rest of the channel.
  for (const asker of [c, a, c]) {
    assert.equal((await asker.ask('small', { to: bob.agentId }).next()).value?.text(), 'done')
  }
  await goOn(a, b, c)
  assert.ok(yielded < 6, `${yielded} answers left the server`)
  let bytesRead = part.length
  for await (const answer of stream) bytesRead += answer.payload.length
  assert.equal(bytesRead, 20 * part.length + 3)
})
