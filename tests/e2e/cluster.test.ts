/** Agents of the SDK on a relay of two nodes, as processes, with PostgreSQL, NATS and an API: one node dies under them. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { StaticChannelManager } from '@static/sdk'
import { startNats } from '@static/testkit/nats'
import { quietPort } from '@static/testkit/ports'
import { type RelayChild, RelayHome } from '@static/testkit/relay/process'
import { startServer } from '@static/testkit/server'
import { signUp } from '@static/testkit/server/accounts'
import { makeClient } from '@static/testkit/server/client'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { makeDatabase } from '../support/database.ts'

const CHANNEL = 'acme/cluster/talk'
const PINGS = { session: { pingMs: 1000, pongMs: 1000 } }

test(
  'agents go on when the node under them is killed: nothing lost, nothing twice, in order',
  { timeout: 120_000 },
  async (t) => {
    await using stack = new AsyncDisposableStack()
    const workspace = stack.use(await makeWorkspace())
    const api = stack.use(
      await startServer({ workspace, dataDir: workspace.directory('api'), settings: QUICK, logLevel: 'silent' }),
    )
    const client = makeClient(api.url, workspace.ca)
    stack.defer(() => client.close())
    const { api_key: key } = await signUp(client)
    const keys = await client.json<{ keys: object[] }>(200, { method: 'GET', path: '/.well-known/jwks.json' })

    const database = stack.use(await makeDatabase())
    const nats = stack.use(await startNats())
    const home = await RelayHome.make()
    stack.defer(() => home.remove())
    const access = {
      database: database.url,
      keyFile: join(home.directory, 'relay.key'),
      nats: { servers: [nats.url], ca: nats.ca },
    }
    const ports = [
      { grpc: await quietPort(), quic: await quietPort() },
      { grpc: await quietPort(), quic: await quietPort() },
    ] as const
    const nodes: RelayChild[] = []
    stack.defer(async () => {
      for (const node of nodes) {
        node.kill()
        await node.exited
      }
    })
    for (const at of [0, 1] as const) nodes[at] = await home.startNode(PINGS, ports[at], access, keys)

    const ca = `${workspace.ca}\n${home.ca}`
    const connect = async (
      identity: string,
      endpoint: string,
      apiKey: string | null,
    ): Promise<StaticChannelManager> => {
      const options = { identity, endpoint, apiKey, apiUrl: api.url, ca, dataDir: workspace.directory(identity) }
      return stack.use(await StaticChannelManager.connect({ ...options, traffic: 'off' }))
    }
    const grpc = ports.map((one) => `https://localhost:${one.grpc}`)
    const quic = ports.map((one) => `quic://localhost:${one.quic}`)
    // The owner is at the first node, one member at the second, and one wherever it likes.
    const owner = await connect('owner', grpc[0]!, key.key)
    const fixed = await connect('fixed', quic[1]!, null)
    const roaming = await connect('roaming', grpc.join(), null)
    await owner.create(CHANNEL)
    const token = await owner.invite(CHANNEL, { maxUses: 2 })
    for (const member of [fixed, roaming]) await member.joinWithToken(CHANNEL, token)

    const sent: string[] = []
    const send = async (count: number): Promise<void> => {
      for (let left = count; left > 0; left--) {
        const text = `message ${sent.length}`
        sent.push(text)
        await owner.send(CHANNEL, new TextEncoder().encode(text))
      }
    }
    const received = async (manager: StaticChannelManager): Promise<string[]> => {
      const texts: string[] = []
      while (texts.length < sent.length) {
        const payload = await manager.receive(CHANNEL, 60)
        if (payload === null) break
        texts.push(new TextDecoder().decode(payload))
      }
      return texts
    }
    await send(10)
    nodes[1]!.kill()
    await nodes[1]!.exited
    const killedAt = performance.now()
    await send(10)
    await roaming.send(CHANNEL, new TextEncoder().encode('still here'))
    const awayMs = performance.now() - killedAt
    await nats.stop()
    nodes[1] = await home.startNode(PINGS, ports[1], access, keys)
    await send(10)
    assert.deepEqual(await received(roaming), sent)
    const all = [...sent.slice(0, 20), 'still here', ...sent.slice(20)]
    sent.push('')
    assert.deepEqual(await received(fixed), all)
    assert.equal(new TextDecoder().decode((await owner.receive(CHANNEL, 60)) ?? undefined), 'still here')
    t.diagnostic(`an agent of the killed node, or of the other, sent again after ${Math.round(awayMs)} ms`)
  },
)
