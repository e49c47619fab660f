/** The same A2A calls over JSON-RPC with HTTPS and over a channel have the same results, field by field. */
import assert from 'node:assert/strict'
import { dirname } from 'node:path'
import { after, test } from 'node:test'
import {
  CancelTaskRequest,
  DeleteTaskPushNotificationConfigRequest,
  GetExtendedAgentCardRequest,
  GetTaskPushNotificationConfigRequest,
  GetTaskRequest,
  ListTaskPushNotificationConfigsRequest,
  ListTasksRequest,
  type Message,
  SendMessageRequest,
  type StreamResponse,
  SubscribeToTaskRequest,
  type Task,
  TaskPushNotificationConfig,
} from '@a2a-js/sdk'
import { JsonRpcTransportFactory, type RequestOptions, type Transport } from '@a2a-js/sdk/client'
import { StaticError } from '@static/protocol'
import type { StaticClient } from '@static/sdk'
import { userPlaces } from '@static/sdk/account'
import { DomainStore, holdStatement, parseRoot, TrustStore } from '@static/sdk/trust'
import { startDomainServer } from '@static/testkit/issuers/domain'
import { a2aTransport, pushNotifications, serveA2A } from '../src/index.ts'
import { type A2AAgent, channelOf, ERRORS, makeAgent, messageOf, openPlace, serveHttps } from './support.ts'

const NAME = 'acme/a2a/binding'
const OPTIONS: RequestOptions = { serviceParameters: { 'A2A-Version': '1.0', traceparent: '00-trace-01' } }
// What the SDK logs about errors that these tests make on purpose.
console.error = () => {}

const place = await openPlace()
// The trust list of this user, which is empty until a test adds to it.
process.env['XDG_DATA_HOME'] = dirname(place.options('client').dataDir ?? '')
const client = await place.agent('client')
const server = await place.agent('server')
const [asking, serving] = await channelOf(NAME, client, server)
const overChannel = makeAgent(NAME, server.agentId)
const overHttp = makeAgent(NAME, server.agentId)
const http = await serveHttps(overHttp)
const served = serveA2A(serving!, overChannel.handler, { push: overChannel.push })
after(async () => {
  http.close()
  serving!.close()
  await served
  await place[Symbol.asyncDispose]()
})
const channelTransport = await a2aTransport(asking!, { to: server.agentId }).create('static:', overChannel.card)
const httpTransport = await new JsonRpcTransportFactory().create(http.url, overHttp.card)

const send = (text: string, more: object = {}): SendMessageRequest =>
  SendMessageRequest.fromJSON({ message: { ...messageOf(text), parts: [{ text }], role: 'ROLE_USER' }, ...more })

/** Ids and times are not the same; which of them are equal is. */
function plain(value: unknown): unknown {
  const ids = new Map<string, string>()
  const text = JSON.stringify(value, (_, each: unknown) => (each instanceof Date ? each.toISOString() : each))
  const named = text.replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}/g, (id) => {
    if (!ids.has(id)) ids.set(id, `id-${ids.size}`)
    return ids.get(id) ?? ''
  })
  // A token of a page holds an id, in base64.
  const tokenless = named.replaceAll(/"nextPageToken":"[^"]+"/g, '"nextPageToken":"a token"')
  return JSON.parse(tokenless.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'a time'))
}

async function outcome(work: Promise<unknown>): Promise<unknown> {
  try {
    return { result: (await work) ?? null }
  } catch (error) {
    assert.ok(error instanceof Error)
    const { name, message, reason, envelopeCode } = error as Error & { reason?: unknown; envelopeCode?: unknown }
    return { name, message, reason, envelopeCode }
  }
}

/** Does the same over both. */
async function both(work: (transport: Transport, agent: A2AAgent) => Promise<unknown>): Promise<unknown> {
  const [channelled, overHttps] = [
    plain(await outcome(work(channelTransport, overChannel))),
    plain(await outcome(work(httpTransport, overHttp))),
  ]
  assert.deepEqual(channelled, overHttps)
  return channelled
}

const idOf = (result: Message | Task): string => ('id' in result ? result.id : '')
const start = async (transport: Transport, text = 'task'): Promise<string> =>
  idOf(await transport.sendMessage(send(text), OPTIONS))

test('every operation has the same result', async () => {
  await both((a2a) => a2a.sendMessage(send('message'), OPTIONS))
  await both((a2a) => a2a.sendMessage(send('task'), OPTIONS))
  const streamed = await both((a2a) => Array.fromAsync(a2a.sendMessageStream(send('task'), OPTIONS)))
  assert.equal((streamed as { result: unknown[] }).result.length, 3)
  await both(async (a2a) => a2a.getTask(GetTaskRequest.fromJSON({ id: await start(a2a) }), OPTIONS))
  await both((a2a) => a2a.listTasks(ListTasksRequest.fromJSON({ pageSize: 2 }), OPTIONS))
  await both((a2a) => a2a.getExtendedAgentCard(GetExtendedAgentCardRequest.fromJSON({}), OPTIONS))
  await both(async (a2a) => {
    const config = { taskId: await start(a2a), id: 'mine', url: 'https://hooks.example/' }
    const { taskId } = config
    const name = { taskId, id: 'mine' }
    return [
      await a2a.createTaskPushNotificationConfig(TaskPushNotificationConfig.fromJSON(config), OPTIONS),
      await a2a.getTaskPushNotificationConfig(GetTaskPushNotificationConfigRequest.fromJSON(name), OPTIONS),
      await a2a.listTaskPushNotificationConfig(ListTaskPushNotificationConfigsRequest.fromJSON({ taskId }), OPTIONS),
      (await a2a.deleteTaskPushNotificationConfig(DeleteTaskPushNotificationConfigRequest.fromJSON(name), OPTIONS)) ??
        null,
      await a2a.listTaskPushNotificationConfig(ListTaskPushNotificationConfigsRequest.fromJSON({ taskId }), OPTIONS),
    ]
  })
  // A task that is open: it is found, subscribed to again, and cancelled or finished.
  await both(async (a2a, { executor }) => {
    const stream = a2a.sendMessageStream(send('wait'), OPTIONS)
    const { value } = await stream.next()
    const taskId = value?.payload?.$case === 'task' ? value.payload.value.id : ''
    await stream.next()
    await stream.return()
    const again = a2a.resubscribeTask(SubscribeToTaskRequest.fromJSON({ id: taskId }), OPTIONS)
    const events: StreamResponse[] = []
    for await (const event of again) {
      events.push(event)
      executor.finish(taskId)
    }
    return events
  })
  await both(async (a2a) => {
    const stream = a2a.sendMessageStream(send('wait'), OPTIONS)
    const { value } = await stream.next()
    const id = value?.payload?.$case === 'task' ? value.payload.value.id : ''
    await stream.next()
    return await a2a.cancelTask(CancelTaskRequest.fromJSON({ id }), OPTIONS)
  })
})

test('every error is the same', async () => {
  const unknown = '00000000-0000-4000-8000-000000000000'
  const errors = [
    await both((a2a) => a2a.getTask(GetTaskRequest.fromJSON({ id: unknown }), OPTIONS)),
    await both((a2a) => a2a.cancelTask(CancelTaskRequest.fromJSON({ id: unknown }), OPTIONS)),
    await both(async (a2a) => a2a.cancelTask(CancelTaskRequest.fromJSON({ id: await start(a2a) }), OPTIONS)),
    await both((a2a) =>
      Array.fromAsync(a2a.resubscribeTask(SubscribeToTaskRequest.fromJSON({ id: unknown }), OPTIONS)),
    ),
    await both((a2a) =>
      a2a.getTask(GetTaskRequest.fromJSON({ id: unknown }), { serviceParameters: { 'A2A-Version': '9.9' } }),
    ),
    await both((a2a) => a2a.getTask(GetTaskRequest.fromJSON({ id: unknown }))),
    await both((a2a) => a2a.listTasks(ListTasksRequest.fromJSON({ pageSize: 10_000 }), OPTIONS)),
    await both((a2a) =>
      a2a.getTaskPushNotificationConfig(
        GetTaskPushNotificationConfigRequest.fromJSON({ taskId: unknown, id: 'x' }),
        OPTIONS,
      ),
    ),
  ]
  for (const error of errors) assert.ok((error as { name?: string }).name, JSON.stringify(error))
})

test('every error that a handler throws is the same, also in the middle of a stream', async () => {
  for (const id of Object.keys(ERRORS)) {
    const thrown = await both((a2a) => a2a.getTask(GetTaskRequest.fromJSON({ id }), OPTIONS))
    if (id !== 'Error') assert.equal((thrown as { name?: string }).name, id)
    await both(async (a2a) => {
      const seen: StreamResponse[] = []
      const stream = a2a.resubscribeTask(SubscribeToTaskRequest.fromJSON({ id }), OPTIONS)
      const end = await outcome(
        (async () => {
          for await (const event of stream) seen.push(event)
        })(),
      )
      assert.ok((end as { name?: string }).name, id)
      assert.equal(seen.length, 1)
      return { seen, end }
    })
  }
  await both((a2a) => a2a.sendMessage(send('throw'), OPTIONS))
  await both((a2a) => Array.fromAsync(a2a.sendMessageStream(send('throw'), OPTIONS)))
})

test('a request that is no call has the same response, byte for byte', async () => {
  const overHttps = async (body: string, version: string): Promise<string> => {
    const headers = { 'content-type': 'application/json', 'a2a-version': version }
    return await (await fetch(http.url, { method: 'POST', body, headers })).text()
  }
  const inChannel = async (call: string, version: string): Promise<string> => {
    const payload = `{"parameters":{"A2A-Version":"${version}"},"call":${call}}`
    const [answer] = await Array.fromAsync(asking!.ask(payload, { to: server.agentId }))
    return answer?.text() ?? ''
  }
  const calls = [
    'not JSON',
    '{}',
    '{"jsonrpc":"1.0","id":1,"method":"GetTask","params":{}}',
    '{"jsonrpc":"2.0","id":"a","method":"NoSuchMethod","params":{}}',
    '{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[]}',
    '{"jsonrpc":"2.0","id":1,"method":"GetTask"}',
    '{"jsonrpc":"2.0","id":1,"method":5,"params":{}}',
  ]
  for (const call of calls) assert.equal(await inChannel(call, '1.0'), await overHttps(call, '1.0'), call)
  const call = '{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}'
  assert.equal(
    (await inChannel(call, '9.9')).replace(/urn:[^ "]*/, 'JSONRPC'),
    await overHttps(call, '9.9'),
    'a version that is not served',
  )
})

test('an option that there is not is refused', async () => {
  const options = { to: server.agentId, timeOut: 5 } as never
  assert.throws(() => a2aTransport(asking!, options), {
    message: /has no option `timeOut`. The nearest is `timeout`.$/,
  })
  await assert.rejects(pushNotifications(asking!, options).next(), { code: 'invalid_request' })
  await assert.rejects(serveA2A(asking!, {} as never, options), { code: 'invalid_request' })
})

test('the user of a call is its verified sender, and service parameters travel', async () => {
  await channelTransport.sendMessage(send('message'), OPTIONS)
  assert.deepEqual(overChannel.executor.calls.at(-1), { user: client.agentId, trace: '00-trace-01' })
})

async function checkedBy(agent: StaticClient): Promise<void> {
  for await (const { type } of agent.events()) if (type === 'proof_checked') return
}

test('the user of a call has the name that its issuer gives it, checked by the one that is called', async () => {
  const { trust, domains } = userPlaces()
  await using web = await startDomainServer('acme.example')
  const acme = new DomainStore(domains, 'acme.example')
  acme.init()
  web.publish(acme.publicFile(Date.now()))
  new TrustStore(trust).change(() => [
    { root: parseRoot('acme.example', { pin: { address: web.address, ca: web.ca } }) },
  ])
  const [caller, called] = [await place.agent('caller'), await place.agent('called')]
  const jwt = await acme.sign({ agentId: caller.agentId, subject: 'billing' }, 30, Date.now())
  holdStatement(place.options('caller').dataDir ?? '', jwt)
  const name = `${NAME}-proven`
  const theirs = await called.createChannel(name)
  const isChecked = checkedBy(called)
  const welcome = await theirs.addMember(await caller.generateKeyPackage())
  const own = await caller.joinChannel(name, welcome, { show: 'acme.example' })
  await isChecked
  const agent = makeAgent(name, called.agentId)
  const serving = serveA2A(theirs, agent.handler, { push: agent.push })
  const transport = await a2aTransport(own, { to: called.agentId }).create('static:', agent.card)
  await transport.sendMessage(send('message'), OPTIONS)
  const { user, proof } = agent.executor.calls.at(-1) ?? {}
  assert.equal(user, caller.agentId)
  assert.ok(proof?.state === 'checked')
  assert.deepEqual([proof.kind, proof.name, proof.subject], ['domain', 'acme.example', 'billing'])
  theirs.close()
  await serving
})

test('a request that is no call gets an error of JSON-RPC, and the channel lives on', async () => {
  const to = server.agentId
  const parameters = { 'A2A-Version': '1.0' }
  const answerTo = async (payload: string): Promise<unknown> => {
    const [answer] = await Array.fromAsync(asking!.ask(payload, { to }))
    const response = answer?.json() as { error?: { code: number } } | undefined
    return response?.error?.code
  }
  assert.equal(await answerTo('not JSON'), -32_700)
  assert.equal(await answerTo('[]'), -32_602)
  assert.equal(await answerTo(JSON.stringify({ parameters: { a: 1 }, call: {} })), -32_602)
  assert.equal(await answerTo(JSON.stringify({ parameters, call: {} })), -32_602)
  const call = { jsonrpc: '2.0', id: 1, method: 'NoSuchMethod', params: {} }
  assert.equal(await answerTo(JSON.stringify({ parameters, call })), -32_601)
  const large = (error: unknown): boolean =>
    error instanceof StaticError && error.code === 'too_large' && /262080/.test(error.message)
  await assert.rejects(channelTransport.sendMessage(send('large'), OPTIONS), large)
  await assert.rejects(channelTransport.sendMessage(send('x'.repeat(300_000)), OPTIONS), large)
  await channelTransport.sendMessage(send('message'), OPTIONS)
})

test('push notifications are answers, without a webhook', async () => {
  const stream = channelTransport.sendMessageStream(send('wait'), OPTIONS)
  const { value } = await stream.next()
  const taskId = value?.payload?.$case === 'task' ? value.payload.value.id : ''
  await stream.return()
  const to = server.agentId
  const absent = pushNotifications(asking!, { to, taskId, id: 'none' })
  await assert.rejects(absent.next(), Error)
  const config = TaskPushNotificationConfig.fromJSON({ taskId, id: 'mine', url: 'static:' })
  await channelTransport.createTaskPushNotificationConfig(config, OPTIONS)
  const states: string[] = []
  for await (const { payload } of pushNotifications(asking!, { to, taskId, id: 'mine' })) {
    states.push(payload?.$case ?? '')
    overChannel.executor.finish(taskId)
  }
  assert.deepEqual(states, ['task', 'statusUpdate'])
})

test('only the member that was asked is heard, a call can be given up, and one to a member that left fails', async () => {
  const name = 'acme/a2a/leaving'
  const other = await place.agent('other')
  const agent = makeAgent(name, server.agentId)
  const [mine, theirs, third] = await channelOf(name, client, server, other)
  const ended = assert.rejects(serveA2A(theirs!, agent.handler), { code: 'removed' })
  // Another member serves A2A, too, and is not asked.
  const rival = makeAgent(name, other.agentId)
  const rivalry = serveA2A(third!, rival.handler)
  const { agentId: to } = server
  const transport = await a2aTransport(mine!, { to }).create('static:', agent.card)
  await transport.sendMessage(send('message'), OPTIONS)
  assert.equal(agent.executor.calls.length, 1)
  assert.equal(rival.executor.calls.length, 0)

  const stop = new AbortController()
  const given = transport.sendMessage(send('wait'), { ...OPTIONS, signal: stop.signal })
  stop.abort()
  await assert.rejects(given, (error) => error instanceof StaticError && error.code === 'cancelled')
  const open = transport.sendMessage(send('wait'), OPTIONS)
  const left = (error: unknown): boolean => error instanceof StaticError && error.code === 'not_found'
  const failed = assert.rejects(open, left)
  await mine!.removeMember(to)
  await failed
  await assert.rejects(transport.sendMessage(send('message'), OPTIONS), left)
  await ended

  // The channel lives on.
  const next = await a2aTransport(mine!, { to: other.agentId }).create('static:', rival.card)
  await next.sendMessage(send('message'), OPTIONS)
  assert.equal(rival.executor.calls.length, 1)
  third!.close()
  await rivalry
})

test('a call waits for a server that is off, and the task is found by a client that slept meanwhile', async () => {
  const name = 'acme/a2a/off'
  const sleeper = await place.agent('sleeper')
  const worker = await place.agent('worker')
  const [mine] = await channelOf(name, sleeper, worker)
  const to = worker.agentId
  const agent = makeAgent(name, to)
  await worker.close()
  const transport = await a2aTransport(mine!, { to }).create('static:', agent.card)
  const call = transport.sendMessage(send('task'), OPTIONS)
  call.catch(() => {})
  await mine!.send('behind it')
  await sleeper.close()

  const back = await place.agent('worker')
  const serving = serveA2A(back.channel(name), agent.handler)
  const awake = await place.agent('sleeper')
  const [open] = awake.channel(name).asked()
  const [answer] = await Array.fromAsync(open!)
  const { result } = answer!.json() as { result: { task: { id: string } } }
  const again = await a2aTransport(awake.channel(name), { to }).create('static:', agent.card)
  const task = await again.getTask(GetTaskRequest.fromJSON({ id: result.task.id }), OPTIONS)
  assert.equal(task.id, result.task.id)
  assert.equal((await again.listTasks(ListTasksRequest.fromJSON({}), OPTIONS)).tasks.length, 1)
  back.channel(name).close()
  await serving
})
