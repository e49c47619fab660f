/** Key slots from the command line: a passphrase replaces the key file. */
import assert from 'node:assert/strict'
import { type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { startServer } from '@static/testkit/server'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { type Ended, Person, shows, whereabouts } from './support.ts'

const workspace = await makeWorkspace()
const server = await startServer({
  workspace,
  dataDir: join(workspace.path, 'server'),
  command: 'up',
  settings: { argon2: QUICK['argon2'] },
  logLevel: 'silent',
})
const children: ChildProcess[] = []
after(async () => {
  for (const child of children) child.kill('SIGKILL')
  await server.end('SIGTERM')
  workspace[Symbol.dispose]()
})
const ann = new Person(workspace, 'ann', whereabouts(workspace, server))
const directory = join(ann.home, '.local/share/static/agents/vault')
const VAULT = 'acme/vault/notes'

async function ok(line: string): Promise<string> {
  const { code, stdout, stderr } = await ann.shell(line)
  assert.equal(code, 0, `${line}\n${stdout}${stderr}`)
  return stdout
}

/** Runs a command that must fail and returns its stderr. */
async function refused(line: string): Promise<string> {
  const { code, stdout, stderr } = await ann.shell(line)
  assert.deepEqual([code, stdout], [1, ''], stderr)
  return stderr
}

async function slots(): Promise<readonly { readonly id: string; readonly type: string }[]> {
  return JSON.parse(await ok('static agent slots list --as vault --json')).slots
}

void test('a new agent has one slot, for the key file in its directory', async () => {
  assert.match(await refused('static agent slots list --as vault'), /no agent in .*\/agents\/vault\./)
  assert.equal(existsSync(directory), false)
  const signup = 'static signup --email ann@example.com --password-stdin --api-url $API --ca $CA --relay $RELAY'
  await ok(`echo 'a long enough password' | ${signup}`)
  await ok(`static channel create ${VAULT} --as vault`)
  const [slot, ...more] = await slots()
  assert.deepEqual([slot?.type, more], ['file', []])
  assert.equal(await ok('static agent slots list --as vault'), `ID                TYPE\n${slot?.id}  file\n`)
  const last = await refused(`static agent slots remove ${slot?.id} --as vault --yes`)
  assert.match(last, /is the last key slot of the agent in .* add another slot first\.\n$/)
  assert.match(await refused('static agent slots change-passphrase --as vault'), /has no passphrase\. Add one with/)
})

void test('a passphrase is added and replaces the key file', async () => {
  await ok(`umask 077; echo 'correct horse' > old; echo 'battery staple' > new`)
  const add = 'static agent slots add passphrase --as vault'
  assert.match(await refused(`${add} < old`), /passphrase\. .*--new-passphrase-stdin or --new-passphrase-file/)
  assert.match(await refused(`${add} --new-key-file k`), /--new-key-file cannot be used with a passphrase slot/)
  const added = JSON.parse(await ok(`${add} --new-passphrase-stdin --json < old`))
  const [file, passphrase] = await slots()
  assert.deepEqual(passphrase, { id: added.id, type: 'passphrase' })

  // Removing a slot requires the key of another one, here the passphrase.
  const remove = `static agent slots remove ${file?.id} --as vault`
  assert.match(await refused(`${remove} --passphrase-file old`), /--yes/)
  assert.match(await refused(`${remove} --yes`), /passphrase\. .*--passphrase-file/)
  assert.match(await refused(`${remove} --yes --passphrase-file new`), /This passphrase does not open the agent in/)
  const removed = await ann.shell(`${remove} --yes --passphrase-file old`)
  assert.deepEqual(removed, {
    code: 0,
    stdout: `Removed key slot ${file?.id}.\n`,
    stderr:
      'static: the removed key still unlocks older copies of the directory; delete the key file if nothing else uses it.\n',
  })
  rmSync(join(directory, 'agent.key'))
  assert.deepEqual(await slots(), [passphrase])
})

void test('commands on the agent take the passphrase from a file or a terminal', async () => {
  assert.match(await refused('static channel list --as vault'), /passphrase.*--passphrase-file/)
  assert.match(await refused('static channel list --as vault --key-file old'), /Use its passphrase\./)
  assert.match(
    await refused('static channel list --as vault --key-file old --passphrase-file old'),
    /Both --key-file and --passphrase-file are given/,
  )
  const listed = JSON.parse(await ok('static channel list --as vault --passphrase-file old --json'))
  assert.equal(listed.channels[0].name, VAULT)
  const asked = await ann.terminal('static channel list --as vault', [['Passphrase:', 'correct horse\r']])
  assert.equal(asked.code, 0, asked.stdout)
  assert.match(asked.stdout, /acme\/vault\/notes/)
})

void test('while the agent runs, its slots cannot be changed and other commands need no passphrase', async () => {
  const listener = ann.start(`exec static channel listen ${VAULT} --as vault --passphrase-file old`, 120_000)
  children.push(listener)
  await shows(listener.stderr!, 'static: listening on')
  const before = readFileSync(join(directory, 'keys.json'), 'utf8')
  const change = 'static agent slots change-passphrase --as vault --passphrase-file old --new-passphrase-file new'
  assert.match(await refused(change), /agent\.db is locked by another process/)
  assert.match(
    await refused('static agent slots add file --as vault --passphrase-file old --json'),
    /"code":"store_locked"/,
  )
  assert.equal(readFileSync(join(directory, 'keys.json'), 'utf8'), before)
  assert.equal(existsSync(join(directory, 'agent.key')), false)
  assert.equal((await slots()).length, 1)
  await ok('static channel members acme/vault/notes --as vault')
  const ended = once(listener, 'exit')
  listener.kill('SIGTERM')
  await ended
})

void test('a passphrase is changed at a terminal without being shown', async () => {
  const line = 'static agent slots change-passphrase --as vault'
  const type = (again: string): Promise<Ended> =>
    ann.terminal(line, [
      ['Current passphrase:', 'correct horse\r'],
      ['New passphrase:', 'battery staple\r'],
      ['New passphrase again:', `${again}\r`],
    ])
  const differing = await type('battery stable')
  assert.equal(differing.code, 1)
  assert.match(differing.stdout, /do not match\. Nothing was changed/)
  const changed = await type('battery staple')
  assert.equal(changed.code, 0, changed.stdout)
  assert.match(changed.stdout, /Changed the passphrase; its key slot is now [\da-f]{16}\./)
  assert.doesNotMatch(changed.stdout, /horse|staple/)
  assert.match(await refused('static channel list --as vault --passphrase-file old'), /does not open the agent/)
  await ok('static channel list --as vault --passphrase-file new')
  await ok('static agent slots add file --as vault --passphrase-file new')
  await ok('static channel list --as vault')
})
