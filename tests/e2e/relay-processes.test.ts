/** API, relay and proxy as three processes: what happens to agents when one of them goes and comes back. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fromBinary } from '@bufbuild/protobuf'
import { ERROR_METADATA, type SignedUp, type Usage } from '@static/protocol'
import { CloseReason, ErrorSchema, GetChallengeRequestSchema, GetChallengeResponseSchema } from '@static/protocol/relay'
import { connectGrpc, GrpcFailure, type GrpcStatus } from '@static/testkit/agent/grpc-client'
import { quietPort } from '@static/testkit/ports'
import {
  type Agent,
  type AgentKey,
  codeOf,
  connectAgent,
  eventually,
  hangUp,
  openChannel,
  receive,
  sendUntilRefused,
  tokenOf,
  type Way,
} from '../support/agents.ts'
import { type Client, makeClient } from '@static/testkit/server/client'
import { signUp } from '@static/testkit/server/accounts'
import { runCommand } from '@static/testkit/server/process'
import {
  type ProxyProcess,
  type RelayProcess,
  type Server,
  startProxyProcess,
  startRelayProcess,
  startServer,
} from '@static/testkit/server'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'

const LEASE = 8
/** gRPC's status. */
const UNAVAILABLE = 14

const workspace = await makeWorkspace()
const apiDir = workspace.directory('api')
const relayDir = workspace.directory('relay')
let api: Server
let relay: RelayProcess
let proxy: ProxyProcess
let client: Client
let account: SignedUp
let other: SignedUp
let token: string
let otherToken: string

const apiPorts = { port: await quietPort(), internalPort: await quietPort() }
const relayPorts = { grpcPort: await quietPort(), quicPort: await quietPort() }

async function startApi(): Promise<void> {
  api = await startServer({ workspace, dataDir: apiDir, settings: QUICK, internal: true, ...apiPorts })
  client?.close()
  client = makeClient(api.url, workspace.ca)
}

async function startRelay(): Promise<void> {
  const credential = join(apiDir, 'relay.credential')
  const settings = { leaseUnits: LEASE }
  relay = await startRelayProcess({ workspace, dataDir: relayDir, api, credential, settings, ...relayPorts })
}

/** By the relay's own ports, or by the proxy's. */
function connect(to: Way['by'] | 'proxy', jwt: string, key?: AgentKey): Promise<Agent> {
  const port = to === 'proxy' ? proxy.grpcPort : to === 'quic' ? relay.quicPort : relay.grpcPort
  return connectAgent({ by: to === 'quic' ? 'quic' : 'grpc', port, ca: workspace.ca }, jwt, key)
}

async function health(port: number): Promise<number> {
  using http = makeClient(`https://localhost:${port}`, workspace.ca, { connections: 1 })
  return (await http.call({ path: '/health' })).status
}

async function figures(port: number): Promise<string> {
  using http = makeClient(`https://localhost:${port}`, workspace.ca, { connections: 1 })
  return (await http.call({ path: '/metrics' })).text
}

/** How a unary call and a subscription end that cannot be passed on. */
async function callsBy(port: number): Promise<GrpcStatus[]> {
  const grpc = await connectGrpc({ host: '127.0.0.1', port, ca: workspace.ca })
  const failure: unknown = await grpc
    .unary('GetChallenge', GetChallengeRequestSchema, { revision: 2 }, GetChallengeResponseSchema)
    .catch((error: unknown) => error)
  assert.ok(failure instanceof GrpcFailure)
  const closed = await new Promise<GrpcStatus>((resolve) => {
    grpc.subscribe({}, { message: () => {}, closed: resolve })
  })
  await grpc.close()
  return [failure.status, closed]
}

before(async () => {
  await startApi()
  const directory = join(workspace.path, 'client')
  // The authority signs for whoever has its directory, as the operator does.
  await runCommand(['admin', 'proxy-certificate', directory, '--data-dir', join(workspace.path, 'ca')])
  const files = { cert: join(directory, 'client.pem'), key: join(directory, 'client.key') }
  // Before its relay: it waits for it.
  proxy = await startProxyProcess({ workspace, quicPort: relayPorts.quicPort, client: files })
  assert.equal(await health(proxy.grpcPort), 503)
  // Logs are written a little later.
  await eventually(async () => assert.match(proxy.errors(), /the relay cannot be reached: the proxy is not ready/))
  await startRelay()
  await eventually(async () => assert.equal(await health(proxy.grpcPort), 200))
  account = await signUp(client)
  other = await signUp(client)
  token = await tokenOf(client, account.api_key.key)
  otherToken = await tokenOf(client, other.api_key.key)
})
after(async () => {
  client.close()
  for (const server of [proxy, relay, api]) await server[Symbol.asyncDispose]()
  workspace[Symbol.dispose]()
  // What ends a process of Node that nobody has ended.
  for (const server of [proxy, relay, api]) assert.doesNotMatch(server.errors(), /^Node\.js v/m)
})

describe('API, relay and proxy', () => {
  test('agents with and without the proxy are in one channel', async () => {
    const owner = await connect('proxy', token)
    const member = await connect('quic', otherToken)
    const channel = await openChannel(owner, member, 'acme/test/three')
    await owner.send(channel, 1n, 1n)
    await member.send(channel, 1n, 1n)
    assert.deepEqual(await receive(owner, 2), await receive(member, 2))
    assert.deepEqual([await health(relay.grpcPort), await health(proxy.grpcPort)], [200, 200])
    await hangUp(owner, member)
  })

  test('without the API the leased quota can be used, then sending is unavailable; later everything is counted', async () => {
    // An account of its own: its first message brings the first lease.
    const spender = await signUp(client)
    const jwt = await tokenOf(client, spender.api_key.key)
    const agent = await connect('proxy', jwt)
    const channel = await agent.createChannel('acme/test/api-away')
    await agent.send(channel, 0n, 1n)
    assert.deepEqual(await api.end('SIGKILL'), { code: null, signal: 'SIGKILL' })

    const { next, code } = await sendUntilRefused(agent, channel, 0n, 2n)
    assert.deepEqual([next, code], [BigInt(LEASE) + 1n, 'unavailable'])
    // Sessions open all the same: the keys of tokens are known.
    const late = await connect('grpc', jwt)
    await hangUp(late)

    await startApi()
    const { index } = await eventually(() => agent.send(channel, 0n, next))
    assert.equal(index, next)

    // Stopped, not killed: its kernel takes the relay's question and nobody answers.
    process.kill(api.pid, 'SIGSTOP')
    let counter = next
    const answered: Promise<unknown>[] = []
    for (let left = LEASE; left > 0; left--) answered.push(agent.send(channel, 0n, ++counter))
    await Promise.all(answered.slice(0, -1))
    await eventually(async () => assert.match(await figures(relay.grpcPort), /^static_relay_requests 1$/m))
    const ended = relay.end('SIGTERM')
    // One request waits for quota: so the relay still answers, and says that it is going.
    await eventually(async () => assert.equal(await health(relay.grpcPort), 503))
    const refused = await connect('grpc', jwt).catch((error: unknown) => error)
    assert.ok(refused instanceof Error, 'It took a session while it was stopping.')
    process.kill(api.pid, 'SIGCONT')
    await answered.at(-1)
    const closing = await agent.next('sessionClosing')
    assert.deepEqual([closing.reason, closing.error?.code], [CloseReason.SHUTDOWN, 'unavailable'])
    await agent.ended
    assert.deepEqual(await ended, { code: 0, signal: null })

    const { messages } = await client.json<Usage>(200, { path: '/v1/usage', key: spender.api_key.key })
    assert.deepEqual([messages.used, messages.reserved], [Number(counter), 0])
    // The proxy may have to find out by itself.
    await eventually(async () => assert.equal(await health(proxy.grpcPort), 503))
    for (const { code: status, metadata } of await callsBy(proxy.grpcPort)) {
      const details = fromBinary(ErrorSchema, Buffer.from(String(metadata[ERROR_METADATA]), 'base64'))
      assert.deepEqual([status, details.code], [UNAVAILABLE, 'unavailable'])
    }
    await startRelay()
    // By itself: a load balancer sends nobody to a proxy that is not well.
    await eventually(async () => assert.equal(await health(proxy.grpcPort), 200))
    const back = await connect('proxy', jwt, agent.key)
    const { channels } = await back.request('resume', { channelIds: [channel] })
    assert.deepEqual([channels[0]?.lastIndex, channels[0]?.lastCounter], [counter, counter])
    assert.equal((await back.send(channel, 0n, ++counter)).index, counter)
    await hangUp(back)
  })

  test('the proxy reconnects to a relay that was killed', async () => {
    await relay.end('SIGKILL')
    await startRelay()
    const agent = await eventually(() => connect('proxy', token))
    await hangUp(agent)
  })

  test('a relay that starts before its API waits for it', async () => {
    const alone = { url: 'https://localhost:1', internalUrl: 'https://localhost:1' }
    const credential = join(apiDir, 'relay.credential')
    const dataDir = workspace.directory('early')
    await using early = await startRelayProcess({ workspace, dataDir, api: alone, credential })
    // Logs are written a little later.
    await eventually(async () => assert.match(early.errors(), /the API is unreachable/))
    const way = { by: 'grpc', port: early.grpcPort, ca: workspace.ca } as const
    const refused: unknown = await connectAgent(way, token).catch((error: unknown) => error)
    assert.equal(codeOf(refused), 'unavailable')
    assert.deepEqual(await early.end('SIGTERM'), { code: 0, signal: null })
  })

  test('the proxy stops cleanly; its agents reconnect elsewhere', async () => {
    const agent = await connect('proxy', token)
    const ended = proxy.end('SIGTERM')
    await agent.ended
    assert.deepEqual(await ended, { code: 0, signal: null })
    await hangUp(await connect('grpc', token, agent.key))
  })
})
