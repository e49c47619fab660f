/** Requests and answers between real agents. */
import assert from 'node:assert/strict'
import { after, test, type TestContext } from 'node:test'
import { StaticError } from '@static/protocol'
import type { Ask } from '../../src/public/ask.ts'
import type { Channel } from '../../src/public/channel.ts'
import type { Answers, ChannelRequest } from '../../src/index.ts'
import type { StaticClient } from '../../src/public/client.ts'
import { code, event, take, TestSystem, waysFor } from '../support/test-system.ts'

const [way = 'quic'] = waysFor('quic')

/** One relay for all: each test has agents and a channel of its own. */
const world = await TestSystem.start({ after } as TestContext, way)
let scenes = 0

interface Scene {
  readonly names: readonly string[]
  readonly name: string
  readonly clients: StaticClient[]
  readonly channels: Channel[]
}

/** Agents in a channel, the first of which owns it. */
async function scene(count: number): Promise<Scene> {
  const number = ++scenes
  const names = Array.from({ length: count }, (_, at) => `agent-${number}-${at}`)
  const clients = await Promise.all(names.map((name) => world.agent(name)))
  const name = `acme/asks/test-${number}`
  const [owner, ...members] = clients
  return { names, name, clients, channels: await world.channel(owner!, members, name) }
}

async function texts(ask: Ask): Promise<string[]> {
  const found: string[] = []
  for await (const answer of ask) found.push(answer.text())
  return found
}

/** Serves in the background; ends with the client. */
function serving(channel: Channel, handler: (request: ChannelRequest) => Answers, options = {}): Promise<void> {
  return channel.serve(handler, options).catch(() => {})
}

test('one channel carries messages, requests and answers', async () => {
  const { clients, channels } = await scene(3)
  const [alice, bob] = clients as [StaticClient, StaticClient]
  const [a, b, c] = channels
  void serving(b!, async function* (request) {
    assert.equal(request.sender.agentId, alice.agentId)
    assert.equal(request.isToMe, true)
    assert.equal(request.redelivered, false)
    yield `one ${request.text()}`
    await Promise.resolve()
    yield `two ${request.text()}`
  })

  const ask = a!.ask('hello', { to: bob.agentId, timeout: 60 })
  const answers: string[] = []
  for await (const answer of ask) {
    assert.equal(answer.sender.agentId, bob.agentId)
    answers.push(answer.text())
  }
  assert.deepEqual(answers, ['one hello', 'two hello'])
  assert.deepEqual(a!.asked(), [])

  // Neither is given by messages().
  await a!.send('a message')
  assert.deepEqual(await take(b!, 1), ['a message'])
  assert.deepEqual(await take(c!, 1), ['a message'])
})

test('all members may answer, and one that fails does not end the others', async () => {
  const { clients, channels } = await scene(3)
  const [, bob] = clients as [StaticClient, StaticClient]
  const [a, b, c] = channels
  void serving(b!, async (request) => `bob: ${request.text()}`)
  void serving(c!, async () => {
    throw StaticError.of('not_allowed', 'Carol\nsays no.')
  })
  const found = new Map<string, string>()
  for await (const answer of a!.ask('all?')) {
    const who = answer.sender.agentId === bob.agentId ? 'bob' : 'carol'
    found.set(
      who,
      answer.error ? `${answer.error.details.answer?.code}: ${answer.error.details.answer?.message}` : answer.text(),
    )
    if (answer.error) assert.throws(() => answer.text(), code('ask_failed', /not_allowed: Carol says no\./))
  }
  assert.deepEqual(Object.fromEntries(found), { bob: 'bob: all?', carol: 'not_allowed: Carol says no.' })
})

test('an error that is not meant for others is not sent to them', async () => {
  const { clients, channels } = await scene(2)
  const [, bob] = clients as [StaticClient, StaticClient]
  const [a, b] = channels
  const failed = event(bob, 'request_failed')
  void serving(b!, async () => {
    throw new Error('password=hunter2')
  })
  const [answer] = await Array.fromAsync(a!.ask('q', { to: bob.agentId }))
  assert.deepEqual(answer?.error?.details.answer, {
    code: 'internal_error',
    message: 'The handler of the request failed.',
  })
  assert.equal((await failed).reason, 'password=hunter2')
})

test('a request waits for a server that is off, and its answer for an asker that is off', async () => {
  const { names, name, clients, channels } = await scene(2)
  let [alice, bob] = clients as [StaticClient, StaticClient]
  const { agentId } = bob
  const [a] = channels
  await bob.close()
  const { id, deadline } = a!.ask('are you there?', { to: agentId, timeout: 3600 })
  // A message behind it shows that the relay has it.
  await a!.send('behind it')
  await alice.close()

  bob = await world.agent(names[1]!)
  const served = Promise.withResolvers<void>()
  void serving(bob.channel(name), async function* (request) {
    yield `first to ${request.text()}`
    yield 'last'
    served.resolve()
  })
  await served.promise
  await bob.channel(name).send('after the answer')

  alice = await world.agent(names[0]!)
  const [again, ...others] = alice.channel(name).asked()
  assert.deepEqual(others, [])
  assert.equal(again?.id, id)
  assert.equal(again?.to, agentId)
  assert.equal(again?.deadline.getTime(), deadline.getTime())
  assert.deepEqual(await texts(again), ['first to are you there?', 'last'])
  assert.deepEqual(alice.channel(name).asked(), [])
})

test('answers that were not read before a restart are given after it', async () => {
  const { names, name, clients, channels } = await scene(2)
  let [alice] = clients as [StaticClient]
  const bob = clients[1]!
  const [a, b] = channels
  void serving(b!, async function* () {
    yield 'one'
    yield 'two'
    yield 'three'
  })
  const ask = a!.ask('count', { to: bob.agentId, timeout: 3600 })
  assert.equal((await ask.next()).value?.text(), 'one')
  assert.equal((await ask.next()).value?.text(), 'two')
  await a!.catchUp()
  await alice.close()
  await assert.rejects(ask.next(), code('closed'))
  alice = await world.agent(names[0]!)
  // 'one' was settled by asking for the next.
  assert.deepEqual(await texts(alice.channel(name).asked()[0]!), ['two', 'three'])
})

test('leaving the loop cancels the request', async () => {
  const { clients, channels } = await scene(2)
  const [, bob] = clients as [StaticClient, StaticClient]
  const [a, b] = channels
  const aborted = Promise.withResolvers<unknown>()
  let started = 0
  void serving(b!, async function* (request) {
    started++
    yield 'one'
    await new Promise((resolve) => request.signal.addEventListener('abort', resolve))
    aborted.resolve(request.signal.reason)
  })
  for await (const answer of a!.ask('q', { to: bob.agentId })) {
    assert.equal(answer.text(), 'one')
    break
  }
  assert.ok((await aborted.promise) instanceof StaticError)

  // The place is free again, and a signal cancels, too.
  const stop = new AbortController()
  const second = a!.ask('q', { to: bob.agentId, signal: stop.signal })
  assert.equal((await second.next()).value?.text(), 'one')
  const next = second.next()
  stop.abort()
  await assert.rejects(next, code('cancelled'))
  assert.equal(started, 2)
  assert.deepEqual(a!.asked(), [])
})

test('a request times out, and what is wrong with it is thrown at once', async () => {
  const { clients, channels } = await scene(2)
  const [alice, bob] = clients as [StaticClient, StaticClient]
  const [a, b] = channels
  await assert.rejects(a!.ask('q', { to: bob.agentId, timeout: 0.01 }).next(), code('ask_timeout'))
  // Nobody has answered all of it, but the time is over.
  assert.deepEqual(await texts(a!.ask('q', { timeout: 0.01 })), [])
  assert.throws(() => a!.ask('q', { to: 'ff'.repeat(32) }), code('not_found', /is not a member/))
  assert.throws(() => a!.ask('q', { to: alice.agentId }), code('invalid_request', /this agent/))
  assert.throws(() => a!.ask('q', { timeout: 0 }), code('invalid_request', /604800/))
  assert.throws(() => a!.ask(new Uint8Array(262_081)), code('too_large', /262080/))
  const asked = Array.from({ length: 256 }, () => a!.ask('q', { to: bob.agentId }))
  assert.throws(() => a!.ask('q'), code('queue_full', /256/))
  for (const ask of asked) ask.cancel()
  const left = a!.ask('q', { to: bob.agentId })
  const next = left.next()
  await a!.removeMember(bob.agentId)
  await assert.rejects(next, code('not_found', /left the channel/))
  void b
})
