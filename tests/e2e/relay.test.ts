/** The whole system as `static up` starts it: accounts, tokens, agents, what they send and what it costs. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { SignedUp, Usage } from '@static/protocol'
import { CloseReason } from '@static/protocol/relay'
import { refusal } from '@static/testkit/agent'
import { quietPort } from '@static/testkit/ports'
import {
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
import { makeKey, signUp } from '@static/testkit/server/accounts'
import { runCommand } from '@static/testkit/server/process'
import { type Server, startServer } from '@static/testkit/server'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'

/** Small, so that every test meets the end of a lease. */
const LEASE = 4
/** Messages a month. */
const QUOTA = 30

const workspace = await makeWorkspace()
const dataDir = workspace.directory('up')
let server: Server
let client: Client
let ca: string

const ports = { grpcPort: await quietPort(), quicPort: await quietPort() }

async function start(): Promise<void> {
  const relay = { settings: { leaseUnits: LEASE }, ...ports }
  server = await startServer({
    workspace,
    dataDir,
    command: 'up',
    settings: { ...QUICK, quota: { free: QUOTA } },
    relay,
  })
  ca = readFileSync(join(dataDir, 'ca.pem'), 'utf8')
  client = makeClient(server.url, ca)
}

function way(by: Way['by']): Way {
  return { by, port: by === 'quic' ? server.relay.quicPort : server.relay.grpcPort, ca }
}

function usage(of: SignedUp): Promise<Usage> {
  return client.json<Usage>(200, { path: '/v1/usage', key: of.api_key.key })
}

before(() => start())
after(async () => {
  client.close()
  await server[Symbol.asyncDispose]()
  workspace[Symbol.dispose]()
})

describe('static up', () => {
  test('two accounts talk over QUIC and gRPC; a restart keeps everything and the usage is right', async () => {
    const [alice, bob] = [await signUp(client), await signUp(client)]
    const tokens = { alice: await tokenOf(client, alice.api_key.key), bob: await tokenOf(client, bob.api_key.key) }
    const owner = await connectAgent(way('quic'), tokens.alice)
    const member = await connectAgent(way('grpc'), tokens.bob)
    const channel = await openChannel(owner, member, 'acme/test/talk')
    for (let counter = 1n; counter <= 6n; counter++) await owner.send(channel, 1n, counter)
    for (let counter = 1n; counter <= 3n; counter++) await member.send(channel, 1n, counter)
    const order = await receive(owner, 9)
    assert.deepEqual(await receive(member, 9), order)

    using relay = makeClient(`https://localhost:${server.relay.grpcPort}`, ca)
    assert.equal((await relay.json<{ status: string }>(200, { path: '/health' })).status, 'ok')
    const { text, headers } = await relay.call({ path: '/metrics' })
    assert.match(headers['content-type'] ?? '', /^text\/plain; version=0\.0\.4/)
    assert.match(text, /^static_relay_sessions\{transport="quic"\} 1$/m)
    assert.match(text, /^static_relay_sessions\{transport="grpc"\} 1$/m)
    assert.match(text, /^static_relay_answers_total\{operation="sendMessage"\} 9$/m)

    client.close()
    const ended = server.end('SIGTERM')
    await Promise.all([owner.ended, member.ended])
    // By QUIC the last word may be lost with the connection, which tells the same.
    const words = [owner, member].map((agent) => agent.pushes.find(({ body }) => body.case === 'sessionClosing')?.body)
    for (const word of words.filter((body) => body !== undefined)) {
      if (word.case !== 'sessionClosing') continue
      assert.deepEqual([word.value.reason, word.value.error?.code], [CloseReason.SHUTDOWN, 'unavailable'])
    }
    assert.ok(words[1])
    assert.deepEqual(await ended, { code: 0, signal: null })
    await start()

    for (const [account, used] of [
      [alice, 6],
      [bob, 3],
    ] as const) {
      const { messages } = await usage(account)
      assert.deepEqual([messages.used, messages.reserved], [used, 0])
    }
    // The tokens are those of before: the keys that signed them were kept, too.
    const again = await connectAgent(way('grpc'), tokens.alice, owner.key)
    const { channels } = await again.request('resume', { channelIds: [channel] })
    assert.deepEqual([channels[0]?.head, channels[0]?.lastIndex, channels[0]?.lastCounter], [1n, 10n, 6n])
    const back = await connectAgent(way('quic'), tokens.bob, member.key)
    await back.request('resume', { channelIds: [channel] })
    assert.deepEqual(await receive(back, 9), order)
    assert.equal((await again.send(channel, 1n, 7n)).index, 11n)
    assert.equal((await back.next('deliverMessage')).index, 11n)
    await hangUp(again, back)
  })

  test('the token of a revoked key is valid until it expires', async () => {
    const { api_key: first } = await signUp(client)
    const { id, key } = await makeKey(client, first.key)
    const token = await tokenOf(client, key)
    assert.equal((await client.call({ method: 'DELETE', path: `/v1/keys/${id}`, key: first.key })).status, 204)
    assert.equal((await client.call({ method: 'POST', path: '/v1/tokens', key })).status, 401)
    const agent = await connectAgent(way('grpc'), token)
    const channel = await agent.createChannel('acme/test/revoked')
    assert.equal((await agent.send(channel, 0n, 1n)).index, 1n)
    await hangUp(agent)
  })

  test('a suspended account stops at once, even with a valid token; others continue', async () => {
    const [bad, good] = [await signUp(client), await signUp(client)]
    const token = await tokenOf(client, bad.api_key.key)
    const owner = await connectAgent(way('quic'), token)
    const member = await connectAgent(way('grpc'), await tokenOf(client, good.api_key.key))
    const channel = await openChannel(owner, member, 'acme/test/suspended')
    await owner.send(channel, 1n, 1n)
    await runCommand(['admin', 'suspend', bad.id, '--data-dir', dataDir, '--yes'])
    assert.equal((await owner.next('sessionClosing')).error?.code, 'account_suspended')
    await owner.ended
    await assert.rejects(connectAgent(way('quic'), token), refusal('account_suspended'))
    await member.send(channel, 1n, 1n)
    await receive(member, 2)
    await hangUp(member)
  })

  test('the quota ends exactly at its last message', async () => {
    const poor = await signUp(client)
    const agent = await connectAgent(way('grpc'), await tokenOf(client, poor.api_key.key))
    const channel = await agent.createChannel('acme/test/poor')
    let counter = 1n
    // While the last lease is out it could come back: only when it is spent nothing is left.
    const last = await eventually(async () => {
      const refused = await sendUntilRefused(agent, channel, 0n, counter)
      counter = refused.next
      assert.equal(refused.code, 'quota_exceeded')
      return refused.next - 1n
    })
    assert.equal(last, BigInt(QUOTA))
    assert.equal((await usage(poor)).messages.used, QUOTA)
    await hangUp(agent)
  })
})
