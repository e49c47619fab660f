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
  settings: { argon2: QUICK['argon2'], rates: QUICK['rates'] },
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
  const first = new Person(workspace, 'first', env)
  const taken = `static signup --email taken@example.com --password-stdin --api-url $API --ca $CA`
  assert.equal((await first.shell(`echo '${PASSWORD}' | ${taken}`)).code, 0)
  // Only what is wrong is asked for again.
  const signedUp = await eve.terminal('static signup --api-url $API --ca $CA --relay $RELAY', [
    ['E-mail: ', 'eve\r'],
    ['E-mail: ', 'taken@example.com\r'],
    ['Password: ', `${PASSWORD}\r`],
    ['Password again: ', 'something else\r'],
    ['static: the two passwords do not match.\r\nPassword: ', 'password123\r'],
    ['Password again: ', 'password123\r'],
    ['too easy to guess: choose another.\r\nPassword: ', `a lonk\u007Fg enough password\r`],
    ['Password again: ', `${PASSWORD}\r`],
    ['E-mail: ', 'eve@example.com\r'],
  ])
  assert.equal(signedUp.code, 0, signedUp.stdout)
  assert.match(signedUp.stdout, /static: "eve" is not an e-mail address, such as you@example\.com\.\r\n/)
  assert.match(signedUp.stdout, /static: An account with this e-mail address already exists\.\r\n/)
  assert.match(signedUp.stdout, /Signed up eve@example\.com/)
  const passed = await first.shell(`echo '${PASSWORD}' | ${taken.replace('taken@', '')} --account x`)
  assert.deepEqual(
    [passed.code, passed.stderr],
    [1, 'static: "example.com" is not an e-mail address, such as you@example.com.\n'],
  )
  assert.ok(!existsSync(join(first.home, '.config/static/accounts')))
  assert.ok(!signedUp.stdout.includes('enough'), 'the password was shown')
  const kept = JSON.parse(readFileSync(join(eve.home, '.config/static/credentials.json'), 'utf8'))
  assert.deepEqual(Object.keys(kept), ['api_key', 'api_url', 'relay', 'relay_grpc_port', 'ca'])
  assert.ok(!signedUp.stdout.includes(kept.api_key), 'the key was shown')

  const coloured = await eve.terminal('static keys list')
  assert.ok(coloured.stdout.includes('\u001B[1mID '), coloured.stdout)
  const plain = await eve.terminal('NO_COLOR=1 static keys list 2> /dev/null; static keys list 2> /dev/null | cat')
  assert.ok(!plain.stdout.includes('\u001B['), plain.stdout)
})

void test('two accounts on one machine keep their keys, and agents of the same name, apart', async () => {
  const two = new Person(workspace, 'two', { ...env, PASSWORD })
  const run = async (line: string): Promise<string> => {
    const { code, stdout, stderr } = await two.shell(line)
    assert.equal(code, 0, `${line}\n${stderr}`)
    return stdout
  }
  const signup = (email: string, flags: string): Promise<string> =>
    run(`printf %s "$PASSWORD" | static signup --email ${email} --password-stdin --api-url $API --ca $CA ${flags}`)
  const mistyped = await two.shell('static whoami --account work')
  assert.deepEqual(
    [mistyped.code, mistyped.stderr],
    [
      1,
      'static: There is no account work on this machine. None has a name. `static login --account work` or `static signup --account work` adds it.\n',
    ],
  )
  await signup('home@example.com', '')
  const again = await two.shell('static signup --api-url $API --ca $CA --email x@example.com')
  assert.match(again.stderr, /To keep both accounts, sign up with --account and a new name\. Otherwise run/)
  await signup('work@example.com', '--account work')

  const who = async (line: string): Promise<{ email: string; saved_as: string | null; key_from: string }> =>
    JSON.parse(await run(`${line} --json`))
  assert.deepEqual(
    [(await who('static whoami')).email, (await who('static whoami')).saved_as],
    ['home@example.com', null],
  )
  const asWork = await who('static whoami --account work')
  assert.deepEqual([asWork.email, asWork.saved_as], ['work@example.com', 'work'])
  // A key of the other account in the environment, with an address where no server listens.
  const mixed = 'STATIC_API_KEY=sk_live_x STATIC_API_URL=https://localhost:1 STATIC_ACCOUNT=work static whoami'
  assert.deepEqual([(await who(mixed)).email, (await who(mixed)).key_from], ['work@example.com', 'file'])
  assert.match(await run('static whoami'), /\nothers +work \(choose one with --account\)\n$/)
  assert.match(await run('static whoami --account work'), /\nsaved as +work\n/)

  const created = await two.shell('static channel create acme/support/routing --as alice --account work')
  assert.match(created.stderr, /`static channel listen acme\/support\/routing --as alice --account work`/)
  const none = await two.shell('static channel list --as alice')
  assert.match(none.stderr, /^static: There is no agent "alice" on this machine\./)
  await run('static channel create acme/support/routing --as alice')
  const prints = await Promise.all(
    ['', '--account work'].map((flags) => run(`static agent export-fingerprint --as alice ${flags}`)),
  )
  assert.notEqual(prints[0], prints[1])
  assert.notEqual(
    await run('static whoami --json | grep -o agent-.*'),
    await run('static whoami --account work --json | grep -o agent-.*'),
  )
  const { agents } = JSON.parse(await run('static agent list --account work --json'))
  assert.deepEqual(
    agents.map(({ directory }: { directory: string }) => directory),
    [join(two.home, '.local/share/static/accounts/work/agents/alice')],
  )
  assert.equal(
    await run('stat -c %a .config/static/accounts/work .local/share/static/accounts/work/agents'),
    '700\n700\n',
  )

  await run('static logout --account work')
  assert.equal((await who('static whoami')).email, 'home@example.com')
  const out = await two.shell('static usage --account work')
  assert.deepEqual(
    [out.code, out.stderr],
    [3, 'static: You are not signed in. Run `static signup --account work` or `static login --account work`.\n'],
  )
  assert.match(await run('static agent list --account work'), /alice/)
  const wrong = await two.shell('static whoami --account ../work')
  assert.equal(wrong.code, 2)
  assert.match(wrong.stderr, /"\.\.\/work" cannot be the name of an account\./)
  const variable = await two.shell('STATIC_ACCOUNT=../work static whoami')
  assert.deepEqual([variable.code, /cannot be the name of an account/.test(variable.stderr)], [1, true])
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
