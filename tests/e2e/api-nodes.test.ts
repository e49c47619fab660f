/** A relay and two API nodes over one PostgreSQL: either node may fail, and people may ask either. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { type Api, startApi } from '@static/api'
import { CSRF_HEADER, type Overview, type Usage } from '@static/protocol'
import { type RunningRelay, startRelay } from '@static/relay'
import { PASSWORD, signUp } from '@static/testkit/server/accounts'
import { type Client, makeClient } from '@static/testkit/server/client'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { openMemoryStore } from '@static/testkit/store/relay-memory'
import { connectAgent, hangUp, openChannel, tokenOf } from '../support/agents.ts'
import { type Database, makeDatabase } from '../support/database.ts'

const workspace = await makeWorkspace()
const { cert, key, ca } = workspace
const silent = { write: () => {}, pretty: false, level: 'silent' } as const
const [oldCredential, credential] = [randomBytes(32).toString('hex'), randomBytes(32).toString('hex')]
const masterKey = randomBytes(32)

describe('two API nodes and a relay', () => {
  let database: Database
  let nodes: [Api, Api]
  let relay: RunningRelay
  let clients: [Client, Client]
  const startNode = (credentials: readonly string[]): Promise<Api> =>
    startApi({
      database: database.url,
      masterKey,
      host: '127.0.0.1',
      port: 0,
      name: 'localhost',
      certificate: { cert, key },
      // On all addresses, as for relays on other machines.
      internal: { host: '0.0.0.0', port: 0, credentials },
      settings: { ...QUICK, lease: { chunk: 5, seconds: 60 } },
      log: silent,
    })
  before(async () => {
    database = await makeDatabase()
    // The credential is being rotated: both nodes know both, the relay has the new one.
    nodes = [await startNode([oldCredential, credential]), await startNode([credential, oldCredential])]
    clients = [makeClient(nodes[0].url, ca), makeClient(nodes[1].url, ca)]
    relay = await startRelay({
      name: 'localhost',
      database: openMemoryStore,
      host: 'localhost',
      grpcPort: 0,
      quicPort: 0,
      quicEndpoints: 1,
      certificate: { cert, key },
      api: {
        urls: nodes.map(({ url }) => url),
        internalUrls: nodes.map(({ internalUrl }) => internalUrl ?? ''),
        credential,
        ca,
      },
      log: silent,
    })
  })
  after(async () => {
    await relay.close()
    for (const client of clients) client.close()
    for (const node of nodes) await node.close().catch(() => {})
    await database[Symbol.asyncDispose]()
    workspace[Symbol.dispose]()
  })

  test('the internal listener on all addresses has the public name and requires TLS and a credential', async () => {
    for (const { internalUrl = '' } of nodes) {
      assert.match(internalUrl, /^https:\/\/localhost:\d+$/)
      using client = makeClient(internalUrl, ca)
      const body = { account_ids: [] }
      const ask = (as: string): Promise<{ readonly status: number }> =>
        client.call({ method: 'POST', path: '/internal/v1/accounts/blocked', key: as, body })
      assert.equal((await ask(oldCredential)).status, 200)
      assert.equal((await ask(credential)).status, 200)
      assert.equal((await ask('x'.repeat(64))).status, 401)
    }
    const options = { database: database.url, masterKey, host: 'localhost', port: 0, log: silent }
    const internal = { host: '0.0.0.0', port: 0, credentials: [credential] }
    await assert.rejects(startApi({ ...options, settings: QUICK, internal }), /Plain HTTP is for loopback only/)
  })

  test('people see the channels on every node; after one node stops, agents continue', async () => {
    const { id, api_key: first, email } = await signUp(clients[0])
    const way = { by: 'grpc', port: relay.grpcPort, ca } as const
    const owner = await connectAgent(way, await tokenOf(clients[0], first.key))
    const member = await connectAgent(way, await tokenOf(clients[1], first.key))
    const channel = await openChannel(owner, member, 'acme/test/nodes')
    await owner.send(channel, 1n, 1n)
    for (const [at, client] of clients.entries()) {
      const relays = await seenBy(client, nodes[at as 0 | 1].url, { email, password: PASSWORD })
      assert.deepEqual(
        relays.map(({ channels }) => channels.map(({ name }) => name)),
        [['acme/test/nodes']],
      )
    }

    await nodes[0].close()
    // More than the leases that the relay holds.
    for (let n = 2n; n <= 20n; n++) await owner.send(channel, 1n, n)
    await hangUp(owner, member)
    using ready = makeClient(`https://localhost:${relay.grpcPort}`, ca)
    assert.equal((await ready.call({ path: '/health/ready' })).status, 200)
    const { messages } = await clients[1].json<Usage>(200, { path: '/v1/usage', key: first.key })
    assert.ok(messages.used + messages.reserved >= 20, `${id} has spent ${JSON.stringify(messages)}`)
  })
})

/** What somebody who signs in on a node sees, once the relay has reported. */
async function seenBy(
  client: Client,
  origin: string,
  body: { readonly email: string; readonly password: string },
): Promise<Overview['relays']> {
  const signedIn = await client.call({
    method: 'POST',
    path: '/v1/sessions',
    body,
    headers: { [CSRF_HEADER]: '1', origin },
  })
  const cookie = String(signedIn.headers['set-cookie']).split(';')[0] ?? ''
  for (;;) {
    const headers = { cookie, [CSRF_HEADER]: '1', origin }
    const { relays } = await client.json<Overview>(200, { path: '/v1/channels', headers })
    if (relays.length > 0) return relays
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}
