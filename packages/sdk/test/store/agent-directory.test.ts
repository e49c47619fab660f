import assert from 'node:assert/strict'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { generateSignatureKeyPair } from '../../src/mls/index.ts'
import type { AgentStore } from '../../src/ports/index.ts'
import { deleteAgent, readAgentIdentity } from '../../src/store/agent-directory.ts'
import { openAgentStore } from '../../src/store/sqlcipher.ts'

const home = mkdtempSync(join(tmpdir(), 'static-agents-'))
after(() => rmSync(home, { recursive: true }))

async function open(directory: string): Promise<AgentStore> {
  return await openAgentStore({
    directory,
    identity: Buffer.from('billing'),
    makeIdentity: () => {
      const { publicKey, seed } = generateSignatureKeyPair()
      return { publicKey, secretKey: seed }
    },
  })
}

async function makeAgent(name: string): Promise<string> {
  const directory = join(home, name)
  const store = await open(directory)
  store.close()
  return directory
}

void test('the identity of an agent is read without a relay, and only while it does not run', async () => {
  const directory = await makeAgent('identity')
  const { identity, agentId, fingerprint } = await readAgentIdentity(directory)
  assert.deepEqual([identity, fingerprint.replaceAll(' ', '')], ['billing', agentId])
  const store = await open(directory)
  await assert.rejects(readAgentIdentity(directory), { code: 'store_locked' })
  store.close()
  await assert.rejects(readAgentIdentity(join(home, 'nowhere')), { code: 'not_found' })
})

void test('a running agent is not deleted, and keeps running', async () => {
  const directory = await makeAgent('running')
  const store = await open(directory)
  const before = readdirSync(directory)
  assert.throws(() => deleteAgent(directory), { code: 'store_locked', message: /is running\. Stop it/ })
  assert.deepEqual(readdirSync(directory), before)
  assert.ok(store.load())
  store.close()
  mkdirSync(join(directory, 'received'))
  writeFileSync(join(directory, 'received/message.txt'), 'a payload')
  deleteAgent(directory)
  assert.equal(existsSync(directory), false)
})

void test('git ignores a new agent, but only a directory that holds nothing else', async () => {
  const directory = await makeAgent('ignored')
  assert.match(readFileSync(join(directory, '.gitignore'), 'utf8'), /^\*$/m)
  const project = join(home, 'project')
  mkdirSync(project, { mode: 0o700 })
  writeFileSync(join(project, 'main.ts'), '')
  await makeAgent('project')
  assert.equal(existsSync(join(project, '.gitignore')), false)
  // A file of the user's stays.
  writeFileSync(join(project, '.gitignore'), 'agent.*\n')
  deleteAgent(project)
  assert.deepEqual(readdirSync(project), ['.gitignore', 'main.ts'])
})

void test('only the files of the agent are deleted, behind a link as well', async () => {
  const directory = await makeAgent('linked')
  writeFileSync(join(directory, 'notes'), 'mine')
  const link = join(home, 'link')
  symlinkSync(directory, link)
  deleteAgent(link)
  assert.deepEqual(readdirSync(directory), ['notes'])
  assert.throws(() => deleteAgent(link), { code: 'not_found' })
})

void test('a deletion that was cut off by a kill is finished by the next one', async () => {
  const directory = await makeAgent('killed')
  const left = join(home, `.killed.${'0'.repeat(16)}.deleted`)
  mkdirSync(left, { mode: 0o700 })
  writeFileSync(join(left, 'agent.key'), 'secret')
  deleteAgent(directory)
  assert.deepEqual([existsSync(directory), existsSync(left)], [false, false])
})
