/** A backup while everything runs, a lost disk, and the agents that have seen more than the backup. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { StaticChannelManager } from '@static/sdk'
import { quietPort } from '@static/testkit/ports'
import { type Server, startServer } from '@static/testkit/server'
import { signUp } from '@static/testkit/server/accounts'
import { makeClient } from '@static/testkit/server/client'
import { runCommand } from '@static/testkit/server/process'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'

const workspace = await makeWorkspace()
after(() => workspace[Symbol.dispose]())
const NAME = 'acme/backup/talk'
const SECONDS = 240
const port = await quietPort()
const relay = { grpcPort: await quietPort(), quicPort: await quietPort() }

const up = (dataDir: string): Promise<Server> =>
  startServer({ workspace, dataDir, command: 'up', logLevel: 'silent', settings: QUICK, port, relay })

async function received(manager: StaticChannelManager): Promise<string> {
  return Buffer.from((await manager.receive(NAME, SECONDS)) ?? '').toString()
}

test('after a lost disk the backup is restored; agents that were ahead stop, and the owner recreates the channel', async () => {
  const dataDir = workspace.directory('data')
  const backup = join(workspace.path, 'backup')
  let server = await up(dataDir)
  const ca = readFileSync(join(dataDir, 'ca.pem'), 'utf8')
  const client = makeClient(server.url, ca)
  const { api_key: key } = await signUp(client)
  client.close()
  const agent = (identity: string, apiKey: string | null): Promise<StaticChannelManager> => {
    const endpoint = `https://localhost:${relay.grpcPort}`
    const options = { endpoint, identity, apiKey, apiUrl: server.url, ca, dataDir: join(workspace.path, identity) }
    return StaticChannelManager.connect(options)
  }
  const owner = await agent('owner', key.key)
  const bob = await agent('bob', null)
  const carol = await agent('carol', null)
  await owner.create(NAME)
  const token = await owner.invite(NAME, { maxUses: 2 })
  for (const guest of [bob, carol]) await guest.joinWithToken(NAME, token, SECONDS)
  await owner.send(NAME, 'before the backup')
  assert.equal(await received(bob), 'before the backup')

  const list = await runCommand(['admin', 'accounts', 'list', '--data-dir', dataDir, '--json'])
  const [account] = (JSON.parse(list) as { accounts: { channels: number; bytes: number }[] }).accounts
  assert.equal(account!.channels, 1)
  // Carol has not read the message, so it is there.
  assert.ok(account!.bytes > 1000, list)

  const output = await runCommand(['admin', 'backup', backup, '--data-dir', dataDir, '--json'])
  const printed = JSON.parse(output) as { directory: string; format: number; api_database: string }
  assert.deepEqual(
    [printed.directory, printed.format, printed.api_database, statSync(backup).mode & 0o777],
    [backup, 1, 'sqlite', 0o700],
  )
  const names = readdirSync(backup)
  for (const name of ['relay.sqlite', 'api.sqlite', 'master.key', 'relay.credential', 'ca.key', 'manifest.json']) {
    assert.ok(names.includes(name), name)
    assert.equal(statSync(join(backup, name)).mode & 0o777, 0o600)
  }
  assert.deepEqual(
    readdirSync(dataDir).filter((name) => name.startsWith('.')),
    [],
    'nothing is left beside the databases',
  )
  // Carol sees no more; the others do.
  await carol.close()
  await owner.send(NAME, 'after the backup')
  assert.equal(await received(bob), 'after the backup')

  await server.end('SIGKILL')
  rmSync(dataDir, { recursive: true })
  await runCommand(['admin', 'restore', backup, '--data-dir', dataDir])
  server = await up(dataDir)
  try {
    await assert.rejects(owner.send(NAME, 'lost?'), { code: 'relay_rolled_back' })
    await assert.rejects(bob.send(NAME, 'lost?'), { code: 'relay_rolled_back', message: /has read entry \d+/ })
    const carolAgain = await agent('carol', null)
    assert.equal(await received(carolAgain), 'before the backup')

    const find = (manager: StaticChannelManager): ReturnType<StaticChannelManager['channels']>[number] => {
      const [found] = manager.channels()
      assert.ok(found)
      return found
    }
    await find(owner).delete()
    await find(bob).leave()
    await owner.create(NAME)
    await bob.joinWithToken(NAME, await owner.invite(NAME), SECONDS)
    await bob.send(NAME, 'we carry on')
    assert.equal(await received(owner), 'we carry on')
    for (const manager of [owner, bob, carolAgain]) await manager.close()
  } finally {
    await server.end('SIGKILL')
  }
})
