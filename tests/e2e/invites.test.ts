/** Invites between real processes of different accounts: `static up`, and each manager in a process of its own. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { makeClient } from '@static/testkit/server/client'
import { ManagerError, ManagerProcess } from '../support/managers.ts'
import { signUp } from '@static/testkit/server/accounts'
import { type Server, startServer } from '@static/testkit/server'
import { makeWorkspace, type Workspace } from '@static/testkit/server/workspace'
import { WHOLE_ONLY } from '@static/testkit/whole'

const SECONDS = 240

let workspace: Workspace
let server: Server
let ca: string
/** The API keys of two accounts. */
const keys = { one: '', other: '' }

before(async () => {
  workspace = await makeWorkspace()
  const dataDir = workspace.directory('server')
  server = await startServer({ workspace, dataDir, command: 'up', logLevel: 'silent' })
  ca = readFileSync(join(dataDir, 'ca.pem'), 'utf8')
  using client = makeClient(server.url, ca)
  keys.one = (await signUp(client)).api_key.key
  keys.other = (await signUp(client)).api_key.key
})

after(async () => {
  await server[Symbol.asyncDispose]()
  workspace[Symbol.dispose]()
})

/** Starts the manager of an identity, or starts it again. */
type Start = () => Promise<ManagerProcess>

/** Someone with an account, or a guest. */
function person(identity: string, account: keyof typeof keys | 'guest', way: 'quic' | 'grpc'): Start {
  const apiKey = account === 'guest' ? null : keys[account]
  const { quicPort, grpcPort } = server.relay
  const endpoint = way === 'quic' ? `quic://localhost:${quicPort}` : `https://localhost:${grpcPort}`
  const dataDir = join(workspace.path, identity)
  return () => ManagerProcess.start(workspace.path, { endpoint, dataDir, identity, apiKey, apiUrl: server.url, ca })
}

/** For `assert.rejects`: an error of a code. */
function code(expected: string): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof ManagerError, String(error))
    assert.equal(error.code, expected, error.message)
    return true
  }
}

/** A message of each arrives at all others, and all have seen the same. */
async function talk(name: string, managers: readonly ManagerProcess[]): Promise<void> {
  for (const [at, sender] of managers.entries()) {
    await sender.call('send', name, `from ${at}`)
    for (const other of managers) {
      if (other !== sender) assert.equal(await other.call('receive', name, SECONDS), `from ${at}`)
    }
  }
  const members = await Promise.all(managers.map((manager) => manager.call('members', name)))
  for (const seen of members) assert.deepEqual(seen, members[0])
  assert.equal(members[0]?.length, managers.length)
  const words = await Promise.all(managers.map((manager) => manager.call('verify', name)))
  assert.equal(new Set(words).size, 1)
}

test('two accounts and a guest, over QUIC and gRPC, join with one token each and talk', WHOLE_ONLY, async () => {
  const name = 'acme/e2e/talk'
  await using owner = await person('talk-owner', 'one', 'quic')()
  await using joiner = await person('talk-joiner', 'other', 'grpc')()
  await using guest = await person('talk-guest', 'guest', 'quic')()
  await owner.call('create', name)
  const token = await owner.call('invite', name, { maxUses: 2, ttl: 600 })
  assert.equal(await joiner.call('join', name, token, SECONDS), 2)
  await talk(name, [owner, joiner])
  assert.equal(await guest.call('join', name, token, SECONDS), 3)
  await talk(name, [owner, joiner, guest])
  await using late = await person('talk-late', 'other', 'grpc')()
  await assert.rejects(late.call('join', name, token, SECONDS), code('invite_used_up'))
})

test('the owner is killed in the middle of a join, and the join completes', async () => {
  const name = 'acme/e2e/owner-killed'
  const start = person('killed-owner', 'one', 'grpc')
  await using first = await start()
  await using joiner = await person('waiting-joiner', 'other', 'quic')()
  await first.call('create', name)
  const token = await first.call('invite', name, { maxUses: 1, ttl: 600 })
  await first.call('dieWhenAdding')
  const joining = joiner.call('join', name, token, SECONDS)
  await first.ended()
  await using owner = await start()
  assert.equal(await joining, 2)
  await talk(name, [owner, joiner])
  await using late = await person('late-guest', 'guest', 'grpc')()
  await assert.rejects(late.call('join', name, token, SECONDS), code('invite_used_up'))
})

test('a joiner that is killed after its request joins with the same token, which counts one use', async () => {
  const name = 'acme/e2e/joiner-killed'
  await using owner = await person('stopped-owner', 'one', 'quic')()
  const start = person('killed-joiner', 'other', 'grpc')
  await using first = await start()
  const agent = await first.call('agentId')
  await owner.call('create', name)
  const token = await owner.call('invite', name, { maxUses: 2, ttl: 600 })
  // The owner is not there when the request comes, so that it is the last thing that the joiner does.
  owner.signal('SIGSTOP')
  await assert.rejects(first.call('join', name, token, 10), code('join_timeout'))
  await first.kill()
  owner.signal('SIGCONT')
  await owner.hasAdded(agent)
  await using joiner = await start()
  assert.equal(await joiner.call('join', name, token, SECONDS), 2)
  await talk(name, [owner, joiner])
  await using guest = await person('second-guest', 'guest', 'quic')()
  assert.equal(await guest.call('join', name, token, SECONDS), 3)
  await using late = await person('third', 'other', 'grpc')()
  await assert.rejects(late.call('join', name, token, SECONDS), code('invite_used_up'))
})
