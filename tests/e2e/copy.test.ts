/** Accounts and channels move from SQLite files into PostgreSQL under agents that notice a reconnection, nothing else. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { type ClientOptions, StaticChannelManager, StaticClient } from '@static/sdk'
import { quietPort } from '@static/testkit/ports'
import { type RelayProcessOptions, relayWords, startServer } from '@static/testkit/server'
import { signUp } from '@static/testkit/server/accounts'
import { makeClient } from '@static/testkit/server/client'
import { failCommand, runCommand, sentenceOf, startCommand } from '@static/testkit/server/process'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { makeDatabase } from '../support/database.ts'

const NAME = 'acme/copy/talk'
const SECONDS = 60

async function received(manager: StaticChannelManager): Promise<string> {
  return Buffer.from((await manager.receive(NAME, SECONDS)) ?? '').toString()
}

test('a channel with history, a pending Welcome and an offline member moves; its agents continue', async () => {
  await using stack = new AsyncDisposableStack()
  const workspace = stack.use(await makeWorkspace())
  const [apiDir, relayDir] = [workspace.directory('api'), workspace.directory('relay')]
  const [apiFile, relayFile] = [join(apiDir, 'api.sqlite'), join(relayDir, 'relay.sqlite')]
  const [apiTarget, relayTarget] = [stack.use(await makeDatabase()), stack.use(await makeDatabase())]
  const ports = { api: await quietPort(), internal: await quietPort() }
  const relayPorts = { grpcPort: await quietPort(), quicPort: await quietPort() }
  const serverOptions = {
    workspace,
    dataDir: apiDir,
    settings: QUICK,
    logLevel: 'silent' as const,
    port: ports.api,
    internal: true,
    internalPort: ports.internal,
  }
  const api = stack.use(await startServer(serverOptions))
  const relayOptions: RelayProcessOptions = {
    workspace,
    dataDir: relayDir,
    api,
    credential: join(apiDir, 'relay.credential'),
    ...relayPorts,
  }
  const relay = stack.use(await startCommand(relayWords(relayOptions)))

  const client = makeClient(api.url, workspace.ca)
  const { api_key: key } = await signUp(client)
  client.close()
  const optionsOf = (identity: string, apiKey: string | null): ClientOptions => {
    const endpoint = `https://localhost:${relayPorts.grpcPort}`
    const options = { endpoint, identity, apiKey, apiUrl: api.url, ca: workspace.ca }
    return { ...options, dataDir: join(workspace.path, identity), traffic: 'off' }
  }
  const agent = async (identity: string, apiKey: string | null): Promise<StaticChannelManager> =>
    stack.use(await StaticChannelManager.connect(optionsOf(identity, apiKey)))
  const owner = await agent('owner', key.key)
  const bob = await agent('bob', null)
  const carol = await agent('carol', null)
  const dave = await StaticClient.connect(optionsOf('dave', key.key))
  await owner.create(NAME)
  const token = await owner.invite(NAME, { maxUses: 3 })
  for (const guest of [bob, carol]) await guest.joinWithToken(NAME, token, SECONDS)
  await owner.send(NAME, 'read by all')
  for (const guest of [bob, carol]) assert.equal(await received(guest), 'read by all')
  await carol.close()
  await dave.close()
  await owner.send(NAME, 'unread')
  const [channel] = owner.channels()
  await channel?.addMember(dave.agentId)
  await owner.send(NAME, 'for dave, too')

  const copy = (file: string, url: string): readonly string[] => [
    'admin',
    'copy',
    '--from',
    file,
    '--to',
    url,
    '--json',
  ]
  const { code, errors } = await failCommand(copy(relayFile, relayTarget.url))
  assert.deepEqual([code, sentenceOf(errors)], [1, `${relayFile} is in use. Stop the server that uses it.`])
  // The relay as a crash leaves it, the API as an operator stops it.
  await relay.end('SIGKILL')
  await api.end('SIGTERM')
  const accounts = JSON.parse(await runCommand(copy(apiFile, apiTarget.url))) as { copied: boolean; accounts: number }
  assert.deepEqual([accounts.copied, accounts.accounts], [true, 1])
  const channels = JSON.parse(await runCommand(copy(relayFile, relayTarget.url))) as Record<string, unknown>
  assert.deepEqual([channels['copied'], channels['channels']], [true, 1])

  stack.use(await startServer({ ...serverOptions, database: apiTarget.url }))
  stack.use(await startCommand([...relayWords(relayOptions), '--database', relayTarget.url]))
  await bob.send(NAME, 'after the move')
  assert.deepEqual([await received(bob), await received(bob)], ['unread', 'for dave, too'])
  assert.equal(await received(owner), 'after the move')
  const carolAgain = await agent('carol', null)
  const all = [await received(carolAgain), await received(carolAgain), await received(carolAgain)]
  assert.deepEqual(all, ['unread', 'for dave, too', 'after the move'])
  await owner.send(NAME, 'to all')
  for (const manager of [bob, carolAgain]) assert.equal(await received(manager), 'to all')
  const daveAgain = stack.use(await StaticClient.connect(optionsOf('dave', key.key)))
  const { value: offer } = await daveAgain.joins()[Symbol.asyncIterator]().next()
  const joined = (await offer?.accept())?.messages()[Symbol.asyncIterator]()
  const texts: string[] = []
  while (texts.length < 3) texts.push(Buffer.from((await joined?.next())?.value ?? '').toString())
  assert.deepEqual(texts, ['for dave, too', 'after the move', 'to all'])
  const erin = await agent('erin', null)
  await erin.joinWithToken(NAME, token, SECONDS)
})
