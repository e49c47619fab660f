/** A member with valid keys that lies about A2A: as a client, as the server that was asked, and as one that was not. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { GetTaskRequest, Message, SendMessageRequest, SubscribeToTaskRequest } from '@a2a-js/sdk'
import { A2AError } from '@a2a-js/sdk/errors'
import { StaticError } from '@static/protocol'
import type { AgentEvent, Answers, ChannelRequest } from '@static/sdk'
import { Liar } from '@static/testkit/agent/liar'
import { a2aTransport, pushNotifications, serveA2A } from '../src/index.ts'
import { channelOf, makeAgent, messageOf, openPlace } from './support.ts'

const NAME = 'acme/a2a/lies'
const PARAMETERS = { 'A2A-Version': '1.0' }
const OPTIONS = { serviceParameters: PARAMETERS }
// What the SDK logs about errors that these tests make on purpose.
console.error = () => {}

const place = await openPlace()
const ann = await place.agent('ann')
const bob = await place.agent('bob')
const mal = await place.agent('mal')
const [asking, serving, lying] = await channelOf(NAME, ann, bob, mal)
const liar = new Liar(mal, lying!)
const agent = makeAgent(NAME, bob.agentId)
const served = serveA2A(serving!, agent.handler, { push: agent.push })
/** What the liar answers when it is asked. */
let lie: (request: ChannelRequest) => Answers = async () => {}
const lied = lying!.serve((request) => lie(request), { perAsker: 8 })
after(async () => {
  serving!.close()
  lying!.close()
  await Promise.all([served, lied])
  await place[Symbol.asyncDispose]()
})
const toBob = await a2aTransport(asking!, { to: bob.agentId }).create('static:', agent.card)
const toLiar = await a2aTransport(asking!, { to: mal.agentId }).create('static:', agent.card)

const send = (text: string): SendMessageRequest =>
  SendMessageRequest.fromJSON({ message: { ...messageOf(text), parts: [{ text }], role: 'ROLE_USER' } })

/** An honest call has its honest answer, and nothing is left open. */
async function goOn(): Promise<void> {
  const answer = (await toBob.sendMessage(send('message'), OPTIONS)) as Message
  assert.deepEqual(answer.parts[0]?.content, { $case: 'text', value: 'you said message' })
  assert.deepEqual(asking!.asked(), [])
}

const isSentence = (text: string): boolean => text.length > 0 && text.length < 300 && !text.includes('\n')

const callOf = (call: object): string =>
  JSON.stringify({
    parameters: PARAMETERS,
    call: { jsonrpc: '2.0', id: 1, method: 'SendMessage', params: {}, ...call },
  })
const messageWith = (fields: object): string =>
  callOf({ params: { message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'message' }], ...fields } } })
const many = (length: number, part: object): object[] => Array.from({ length }, () => part)
const nested = (levels: number): unknown => JSON.parse('['.repeat(levels) + ']'.repeat(levels))

test('a client that lies gets an error of JSON-RPC in one sentence, and the agent is not bothered', async () => {
  const before = agent.executor.calls.length
  const lies: readonly (readonly [name: string, payload: string | Uint8Array, code: number, text?: RegExp])[] = [
    ['not UTF-8', Uint8Array.of(0x7b, 0xff, 0xfe), -32_700],
    ['nothing', '', -32_700],
    ['JSON that is none', '{"parameters":{},"call":{', -32_700],
    ['levels without end', '['.repeat(200_000), -32_700],
    ['null', 'null', -32_602],
    ['a list of calls', `[${callOf({})}]`, -32_602],
    ['levels', '['.repeat(100_000) + ']'.repeat(100_000), -32_602],
    ['no parameters', '{"call":{}}', -32_602],
    ['parameters that are numbers', '{"parameters":{"A2A-Version":1},"call":{}}', -32_602],
    ['another version of JSON-RPC', callOf({ jsonrpc: '3.0' }), -32_602],
    ['an id that is a list', callOf({ id: [1] }), -32_602],
    ['a method that is a number', callOf({ method: 7 }), -32_602],
    ['a method of all objects', callOf({ method: '__proto__' }), -32_601],
    ['a method of HTTP', callOf({ method: 'GET' }), -32_601],
    ['no version of A2A', JSON.stringify({ parameters: {}, call: JSON.parse(callOf({})).call }), -32_009],
    ['notifications of another JSON-RPC', callOf({ jsonrpc: '1.0', method: 'static/PushNotifications' }), -32_602],
    ['notifications of nothing', callOf({ method: 'static/PushNotifications', params: null }), -32_602],
    ['empty parts', messageWith({ parts: many(60_000, {}) }), -32_602, /more than 4096 list entries/],
    ['references', messageWith({ referenceTaskIds: Array(60_000).fill('') }), -32_602, /more than 4096 list entries/],
    ['values', messageWith({ metadata: { list: Array(40_000).fill(0) } }), -32_602, /more than 32768 values/],
    ['nested data', messageWith({ parts: [{ data: nested(97) }] }), -32_602, /more than 100 levels/],
    ['nested metadata', messageWith({ metadata: { deep: nested(5000) } }), -32_602, /more than 100 levels/],
  ]
  for (const [name, payload, code, text] of lies) {
    const answers = await Array.fromAsync(lying!.ask(payload, { to: bob.agentId }))
    assert.equal(answers.length, 1, name)
    const { jsonrpc, error } = answers[0]!.json() as { jsonrpc: string; error: { code: number; message: string } }
    assert.equal(jsonrpc, '2.0', name)
    assert.equal(error.code, code, `${name}: ${error.message}`)
    assert.ok(isSentence(error.message), `${name}: ${error.message}`)
    assert.match(error.message, text ?? /./, name)
  }
  assert.equal(agent.executor.calls.length, before)
  await goOn()
})

test('everything that a program may send is within the bounds', async () => {
  for (const message of [
    { parts: many(4000, { text: 'message' }) },
    { parts: [{ text: 'message' }, { data: Array(30_000).fill(0.5) }] },
    { parts: [{ text: 'message' }, { data: nested(90) }] },
  ]) {
    const [answer] = await Array.fromAsync(lying!.ask(messageWith(message), { to: bob.agentId }))
    assert.ok('result' in (answer!.json() as object), answer!.text().slice(0, 200))
  }
})

test('frames without sense have no answer, and those of a call that is over change nothing', async () => {
  const id = await liar.request(bob.agentId, Buffer.from(callOf({ method: 'NoSuchMethod' })))
  // Of a request that it does not have, of one that is answered, and of no form.
  await liar.cancel(id)
  await liar.cancel('ff'.repeat(16))
  await liar.answer(id, 0, 'to itself')
  await liar.say('request', new Uint8Array(3))
  await liar.say('answer_end', new Uint8Array(20))
  await liar.say('cancel', new Uint8Array(200))
  await liar.say('more', new Uint8Array(1))
  await goOn()
})

/** The next answers of the liar that Ann's agent reports to have ignored. */
async function ignored(events: AsyncIterator<AgentEvent>, count: number): Promise<string[]> {
  const reasons: string[] = []
  while (reasons.length < count) {
    const { value } = (await events.next()) as { value: AgentEvent }
    if (value.type === 'answer_ignored' && value.sender === mal.agentId) reasons.push(value.reason)
  }
  return reasons
}

test('a member that was not asked is not believed, and one that was asked only once', async () => {
  const events = ann.events()
  const response = (text: string): string =>
    JSON.stringify({ jsonrpc: '2.0', id: 1, result: { message: Message.toJSON(messageOf(text, 'ROLE_AGENT')) } })
  // In Bob's place, while Bob is at work.
  const stream = toBob.sendMessageStream(send('wait'), OPTIONS)
  const { value: first } = await stream.next()
  const taskId = first?.payload?.$case === 'task' ? first.payload.value.id : ''
  const [open] = asking!.asked()
  await liar.answer(open!.id, 1, response('in the place of Bob'))
  await liar.end(open!.id, 1, response('in the place of Bob'))
  await liar.cancel(open!.id)
  assert.deepEqual(await ignored(events, 2), ['not_asked', 'not_asked'])
  agent.executor.finish(taskId)
  const rest = (await Array.fromAsync(stream)).map(({ payload }) => payload?.$case)
  assert.deepEqual(rest, ['statusUpdate', 'statusUpdate'])
  // To nothing, and to a call that is over.
  await liar.answer('ff'.repeat(16), 0, response('to nothing'))
  await liar.answer(open!.id, 3, response('after the end'))
  assert.deepEqual(await ignored(events, 1), ['not_open'])

  // Asked, and it answers twice, out of order and after the end.
  const asked = Promise.withResolvers<void>()
  const over = Promise.withResolvers<void>()
  lie = async () => {
    asked.resolve()
    await over.promise
  }
  const ask = asking!.ask('?', { to: mal.agentId })
  await asked.promise
  const next = ask.next()
  await liar.answer(ask.id, 0, response('one'))
  await liar.answer(ask.id, 0, response('one, again'))
  await liar.answer(ask.id, 5, response('six'))
  await liar.end(ask.id, 1)
  await liar.end(ask.id, 1, response('the end, again'))
  assert.match((await next).value?.text() ?? '', /"one"/)
  assert.equal((await ask.next()).done, true)
  assert.deepEqual(await ignored(events, 3), ['repeated', 'out_of_order', 'not_open'])
  over.resolve()
  // The answer of its own handler is one more after the end.
  assert.deepEqual(await ignored(events, 1), ['not_open'])
  await events.return?.()
  await goOn()
})

const idOf = (request: ChannelRequest): unknown => (request.json() as { call: { id: unknown } }).call.id

test('a server that lies is an invalid agent response in one sentence', async () => {
  const task = { id: 't', contextId: 'c', status: { state: 'TASK_STATE_WORKING' } }
  const message = Message.toJSON(messageOf('hm', 'ROLE_AGENT'))
  const lies: Readonly<Record<string, (id: unknown) => unknown>> = {
    'JSON that is none': () => '{"jsonrpc":"2.0"',
    nothing: () => '',
    null: () => 'null',
    'a list': (id) => `[${JSON.stringify({ jsonrpc: '2.0', id, result: task })}]`,
    'another id': () => ({ jsonrpc: '2.0', id: 'another', result: task }),
    'another id of an error': () => ({ jsonrpc: '2.0', id: 'another', error: { code: -32_001, message: 'No.' } }),
    'no id': () => ({ jsonrpc: '2.0', result: task }),
    'another version': (id) => ({ jsonrpc: '1.0', id, result: task }),
    'neither result nor error': (id) => ({ jsonrpc: '2.0', id }),
    'both of them': (id) => ({ jsonrpc: '2.0', id, result: task, error: { code: 1, message: 'No.' } }),
    'a result that is a number': (id) => ({ jsonrpc: '2.0', id, result: 7 }),
    'a result that is null': (id) => ({ jsonrpc: '2.0', id, result: null }),
    'an error that is null': (id) => ({ jsonrpc: '2.0', id, error: null }),
    'an error without a code': (id) => ({ jsonrpc: '2.0', id, error: { message: 'No.' } }),
    levels: (id) => `{"jsonrpc":"2.0","id":${String(id)},"result":{"metadata":${'['.repeat(9000)}${']'.repeat(9000)}}}`,
  }
  const isInvalid = (error: unknown): boolean => {
    assert.ok(error instanceof A2AError, String(error))
    assert.equal(error.name, 'InvalidAgentResponseError', error.message)
    assert.match(error.message, /^The agent's response /)
    return isSentence(error.message)
  }
  for (const [name, make] of Object.entries(lies)) {
    const textOf = (id: unknown): string => {
      const made = make(id)
      return typeof made === 'string' ? made : JSON.stringify(made)
    }
    lie = async (request) => textOf(idOf(request))
    await assert.rejects(toLiar.getTask(GetTaskRequest.fromJSON({ id: 't' }), OPTIONS), isInvalid, name)
    const all = toLiar.resubscribeTask(SubscribeToTaskRequest.fromJSON({ id: 't' }), OPTIONS)
    await assert.rejects(all.next(), isInvalid, name)
    // In the middle of a stream.
    lie = async function* (request) {
      yield JSON.stringify({ jsonrpc: '2.0', id: idOf(request), result: { message } })
      yield textOf(idOf(request))
    }
    const stream = toLiar.sendMessageStream(send('?'), OPTIONS)
    assert.equal((await stream.next()).value?.payload?.$case, 'message')
    await assert.rejects(stream.next(), isInvalid, name)
    const pushed = pushNotifications(asking!, { to: mal.agentId, taskId: 't', id: 'i' })
    assert.equal((await pushed.next()).value?.payload?.$case, 'message')
    await assert.rejects(pushed.next(), isInvalid, name)
  }
  await goOn()
})

test('errors, parts and line breaks of a liar have the error or the result that they say', async () => {
  const errorOf = async (text: (id: unknown) => string): Promise<Error> => {
    lie = async (request) => text(idOf(request))
    const error = await toLiar.getTask(GetTaskRequest.fromJSON({ id: 't' }), OPTIONS).catch((error: unknown) => error)
    assert.ok(error instanceof Error)
    return error
  }
  const odd = { code: -32_001, message: 'No.', data: 7 }
  assert.equal((await errorOf((id) => JSON.stringify({ jsonrpc: '2.0', id, error: odd }))).name, 'TaskNotFoundError')
  lie = async () => {}
  const none = await toLiar.getTask(GetTaskRequest.fromJSON({ id: 't' }), OPTIONS).catch((error: unknown) => error)
  assert.ok(none instanceof StaticError && none.code === 'ask_failed' && isSentence(none.message), String(none))
  lie = async () => await Promise.reject(new Error('It fails.'))
  const failed = await toLiar.getTask(GetTaskRequest.fromJSON({ id: 't' }), OPTIONS).catch((error: unknown) => error)
  assert.ok(failed instanceof StaticError && failed.code === 'ask_failed' && isSentence(failed.message), String(failed))

  // White space in JSON may be a line break, which ends a line of an event.
  const message = { ...(Message.toJSON(messageOf('hm', 'ROLE_AGENT')) as object), parts: many(60_000, {}) }
  lie = async (request) =>
    JSON.stringify({ jsonrpc: '2.0', id: idOf(request), result: { message } }).replaceAll(/(?<=[,{])"/g, '\n\n"')
  const [event] = await Array.fromAsync(toLiar.sendMessageStream(send('?'), OPTIONS))
  assert.equal(event?.payload?.$case === 'message' && event.payload.value.parts.length, 60_000)
  await goOn()
})

test('a stream without end is read as far as the client wants', async () => {
  let sent = 0
  const ended = Promise.withResolvers<void>()
  lie = async function* (request) {
    const message = Message.toJSON(messageOf('more', 'ROLE_AGENT'))
    try {
      for (; !request.signal.aborted; sent++) {
        yield JSON.stringify({ jsonrpc: '2.0', id: idOf(request), result: { message } })
      }
    } finally {
      ended.resolve()
    }
  }
  const stream = toLiar.sendMessageStream(send('?'), OPTIONS)
  for (let n = 0; n < 5; n++) assert.equal((await stream.next()).value?.payload?.$case, 'message')
  await stream.return()
  await ended.promise
  // As many as the window holds.
  assert.ok(sent < 1000, `${sent} events`)
  await goOn()
})
