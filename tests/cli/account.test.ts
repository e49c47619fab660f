/** An account from the command line: transcripts, and what a person sees in a terminal. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { startServer } from '@static/testkit/server'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { WHOLE_ONLY } from '@static/testkit/whole'
import { startLiar } from './liar.ts'
import { Person, whereabouts } from './support.ts'
import { play, readTranscript } from './transcript.ts'

const workspace = await makeWorkspace()
const server = await startServer({
  workspace,
  dataDir: join(workspace.path, 'server'),
  command: 'up',
  settings: { argon2: QUICK['argon2'] },
  logLevel: 'silent',
})
after(async () => {
  await server.end('SIGTERM')
  workspace[Symbol.dispose]()
})
const env = whereabouts(workspace, server)
const PASSWORD = 'a long enough password'

void test('the life of an account, as a transcript', WHOLE_ONLY, async () => {
  const ann = new Person(workspace, 'ann', env)
  for (const step of readTranscript(join(import.meta.dirname, 'transcripts/account.txt'))) await play(ann, step)
})

void test('a terminal prompts for the password twice without showing it, and output has colours', async () => {
  const eve = new Person(workspace, 'eve', env)
  const differ = await eve.terminal('static signup --api-url $API --ca $CA --relay $RELAY', [
    ['E-mail: ', 'eve@example.com\r'],
    ['Password: ', `${PASSWORD}\r`],
    ['Password again: ', 'something else\r'],
  ])
  assert.match(differ.stdout, /static: The two passwords do not match\. Nothing was changed\.\r\n$/)
  assert.equal(differ.code, 1)

  const signedUp = await eve.terminal('static signup --api-url $API --ca $CA --relay $RELAY', [
    ['E-mail: ', 'eve@example.com\r'],
    ['Password: ', `a lonk\u007Fg enough password\r`],
    ['Password again: ', `${PASSWORD}\r`],
  ])
  assert.equal(signedUp.code, 0, signedUp.stdout)
  assert.match(signedUp.stdout, /Signed up eve@example\.com/)
  assert.ok(!signedUp.stdout.includes('enough'), 'the password was shown')
  const kept = JSON.parse(readFileSync(join(eve.home, '.config/static/credentials.json'), 'utf8'))
  assert.deepEqual(Object.keys(kept), ['api_key', 'api_url', 'relay', 'ca'])
  assert.ok(!signedUp.stdout.includes(kept.api_key), 'the key was shown')

  const coloured = await eve.terminal('static keys list')
  assert.ok(coloured.stdout.includes('\u001B[1mID '), coloured.stdout)
  const plain = await eve.terminal('NO_COLOR=1 static keys list 2> /dev/null; static keys list 2> /dev/null | cat')
  assert.ok(!plain.stdout.includes('\u001B['), plain.stdout)
})

void test('Ctrl-C at a prompt exits, and answering no changes nothing', async () => {
  const zoe = new Person(workspace, 'zoe', env)
  const interrupted = await zoe.terminal('static signup --api-url $API --ca $CA --email zoe@example.com', [
    ['Password: ', '\u0003'],
  ])
  assert.deepEqual([interrupted.code, interrupted.stdout.includes('static:')], [130, false])
  const atLine = await zoe.terminal('static signup --api-url $API --ca $CA', [['E-mail: ', '\u0003']])
  assert.equal(atLine.code, 130)
  await zoe.shell(`echo '${PASSWORD}' | static signup --password-stdin --email zoe@example.com --api-url $API --ca $CA`)
  const { id } = JSON.parse((await zoe.shell('static keys list --json')).stdout).keys[0]
  const refused = await zoe.terminal(`static keys revoke ${id}`, [['[y/N] ', 'n\r']])
  assert.match(refused.stdout, /static: Cancelled\. Nothing was changed\./)
  assert.equal(refused.code, 1)
  const revoked = await zoe.terminal(`static keys revoke ${id}`, [['[y/N] ', 'y\r']])
  assert.match(
    revoked.stdout,
    /Revoked key \S+\.\r\nstatic: that was your current key; run `static login` to get a new one\./,
  )
})

void test('a malicious API cannot control the terminal, and a malformed key is not saved', async () => {
  using liar = await startLiar(join(workspace.path, 'server'))
  const cut = new Person(workspace, 'cut', { STATIC_API_URL: liar.url, STATIC_CA: env['CA'], PASSWORD })
  const harmless = (words: string): boolean => !words.includes('\u001B') && !words.includes('\u0007')
  for (const line of ['whoami', 'keys list', 'keys create', 'keys revoke x --yes', 'token', 'usage']) {
    const { stdout, stderr } = await cut.shell(`STATIC_API_KEY=sk_live_x static ${line}`)
    assert.ok(`${stdout}${stderr}`.includes('mine') && harmless(`${stdout}${stderr}`), `${line}: ${stdout}${stderr}`)
  }
  for (const line of ['signup', 'login']) {
    const made = await cut.shell(`printf %s "$PASSWORD" | static ${line} --email cut@example.com --password-stdin`)
    assert.deepEqual([made.code, made.stdout, harmless(made.stderr)], [3, '', true], made.stderr)
    assert.ok(!existsSync(join(cut.home, '.config/static/credentials.json')))
  }
})
