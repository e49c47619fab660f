/** `static admin accounts` and `static admin audit` beside a running server that is closed to strangers. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { type Api, startApi } from '@static/api'
import type { AuditPage } from '@static/protocol'
import { certificates } from '@static/testkit/certificates'
import { type Answer, type Client, makeClient } from '@static/testkit/server/client'
import { MAIN } from '@static/testkit/server/process'
import { QUICK } from '@static/testkit/server/settings'

const home = mkdtempSync(join(tmpdir(), 'static-admin-'))
const data = join(home, 'data')
const ca = join(home, 'ca.pem')
const { PATH, NODE_COMPILE_CACHE } = process.env
const env = { PATH, NODE_COMPILE_CACHE, HOME: home, NO_COLOR: '1' }
const PASSWORD = 'a password for tests'
let api: Api
let client: Client

async function run(...words: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const child = spawn(process.execPath, [MAIN, ...words], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  const texts = { stdout: '', stderr: '' }
  child.stdout.on('data', (chunk: Buffer) => (texts.stdout += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (texts.stderr += chunk.toString()))
  const [code] = (await once(child, 'close')) as [number]
  return { code, ...texts }
}

const admin = (...words: string[]): ReturnType<typeof run> => run('admin', ...words, '--data-dir', data)

async function adminJson<Answer>(...words: string[]): Promise<Answer> {
  const { code, stdout, stderr } = await admin(...words, '--json')
  assert.equal(code, 0, stderr)
  return JSON.parse(stdout) as Answer
}

const post = (path: string, body: object): Promise<Answer> => client.call({ method: 'POST', path, body })

before(async () => {
  const { authority, certificate } = await certificates()
  mkdirSync(data, { mode: 0o700 })
  writeFileSync(ca, authority.cert)
  api = await startApi({
    database: join(data, 'api.sqlite'),
    masterKey: Buffer.alloc(32, 1),
    host: 'localhost',
    port: 0,
    certificate,
    signup: 'invite',
    settings: QUICK,
    log: { write: () => {}, pretty: false, level: 'silent' },
  })
  client = makeClient(api.url, authority.cert)
})
after(async () => {
  client.close()
  await api.close()
  rmSync(home, { recursive: true, force: true })
})

void test('the operator creates, finds, resets and closes an account; the audit log tells it', async () => {
  const made = await admin('accounts', 'create', 'ann@example.com', '--name', 'Ann')
  assert.equal(made.code, 0, made.stderr)
  const [, base, token = ''] = /^(.*)\/console#\/set-password\/(pw_\w{42})\n$/.exec(made.stdout) ?? []
  assert.equal(base, api.url, 'the link starts with the address of the server')
  assert.match(
    made.stderr,
    /^static: created ann@example\.com, account [0-9a-f-]{36}\. Give the link to its user: it works once, until .* UTC\.\n$/,
  )
  assert.equal((await post('/v1/passwords', { token, new_password: PASSWORD })).status, 200)
  assert.equal((await post('/v1/sessions', { email: 'ann@example.com', password: PASSWORD })).status, 201)

  const found = await adminJson<{ accounts: { id: string; name: string }[]; next: null }>('accounts', 'find', 'ANN@')
  assert.deepEqual([found.accounts.map(({ name }) => name), found.next], [['Ann'], null])
  const id = found.accounts[0]?.id ?? ''
  const listed = await admin('accounts', 'list', '--status', 'active')
  assert.match(
    listed.stdout,
    new RegExp(
      `^ID +E-MAIL +PLAN +STATUS +CHANNELS +BYTES +CREATED +NAME\n${id} +ann@example\\.com +free +active +- +- .* Ann\n$`,
    ),
  )
  assert.equal((await admin('accounts', 'find', 'nobody')).stderr, 'static: no such account.\n')

  const asked = await admin('accounts', 'reset-password', id)
  assert.deepEqual([asked.code, asked.stdout], [1, ''])
  const reset = await adminJson<{ token: string; link: string }>(
    'accounts',
    'reset-password',
    id,
    '--yes',
    '--expires',
    '1',
  )
  assert.equal(reset.link, `${api.url}/console#/set-password/${reset.token}`)
  const closed = await adminJson<{ status: string; email: string }>('accounts', 'close', id, '--yes')
  assert.deepEqual([closed.status, closed.email], ['closed', ''])
  const late = await post('/v1/passwords', { token: reset.token, new_password: PASSWORD })
  assert.equal((JSON.parse(late.text) as { code: string }).code, 'password_link_invalid')

  const { events } = await adminJson<AuditPage>('audit', '--account', id)
  assert.deepEqual(
    events.map(({ actor, event }) => `${actor} ${event}`),
    [
      'admin account_closed',
      'admin password_link_created',
      'user sign_in',
      'user password_set',
      'admin password_link_created',
      'admin account_created',
    ],
  )
  const page = await admin('audit', '--limit', '2')
  assert.match(page.stdout, new RegExp(`^TIME +ACTOR +ACCOUNT +EVENT +DETAIL\n.* UTC +admin +${id} +account_closed\n`))
  assert.match(page.stderr, /^static: there are more; continue with --before [0-9a-f-]{36}\n$/)
})

void test('the operator queues the deletion of a channel whose owner is gone', async () => {
  const { id } = await adminJson<{ id: string }>('accounts', 'create', 'eve@example.com')
  const asked = await admin('delete-channel', id, 'acme/support/routing')
  assert.deepEqual(
    [asked.code, asked.stderr],
    [1, 'static: Not a terminal, so I cannot ask. Pass --yes to continue.\n'],
  )
  assert.deepEqual(await api.service.deletions.pending('f00d'), [])
  const queued = await admin('delete-channel', id, 'acme/support/routing', '--mode', 'test', '--yes')
  assert.deepEqual([queued.code, queued.stdout], [0, 'Queued the deletion of acme/support/routing.\n'])
  assert.match(queued.stderr, /^static: its relay deletes it within seconds, if the account has it; until .* UTC at/)
  const [only] = await api.service.deletions.pending('f00d')
  assert.deepEqual([only?.account_id, only?.mode, only?.name], [id, 'test', 'acme/support/routing'])
  const log = await admin('audit', '--account', id, '--limit', '1')
  assert.match(log.stdout, / admin +\S+ +channel_deletion_requested +acme\/support\/routing\n$/)

  const usage = await admin('delete-channel', id, 'acme')
  assert.deepEqual([usage.code, usage.stdout], [2, ''])
  const nobody = await admin('delete-channel', 'nobody', 'acme/support/routing', '--yes')
  assert.deepEqual([nobody.code, nobody.stderr], [1, 'static: There is no such account.\n'])
})

void test('a stranger is told whom to ask; an invite signs one person up, as a link too', async () => {
  const secret = join(home, 'password')
  writeFileSync(secret, PASSWORD)
  const signup = (...words: string[]): ReturnType<typeof run> =>
    run('signup', '--api-url', api.url, '--ca', ca, '--email', 'bob@example.com', '--password-file', secret, ...words)
  const refused = await signup()
  assert.deepEqual(
    [refused.code, refused.stderr],
    [3, 'static: Signing up on this server requires a valid sign-up invite. Ask its operator for a new one.\n'],
  )
  const revoked = await adminJson<{ id: string; token: string }>('accounts', 'invite', '--expires', '1')
  const [row] = (await admin('accounts', 'invite', 'list')).stdout.split('\n').slice(1)
  assert.match(row ?? '', new RegExp(`^${revoked.id} +\\S+ \\S+ UTC +\\S+ \\S+ UTC$`))
  assert.equal((await admin('accounts', 'invite', 'revoke', revoked.id)).stdout, `Revoked invite ${revoked.id}.\n`)
  assert.equal((await admin('accounts', 'invite', 'list')).stderr, 'static: there are no sign-up invites.\n')
  assert.equal((await signup('--invite', revoked.token)).code, 3)
  const again = await admin('accounts', 'invite', 'revoke', revoked.id)
  assert.deepEqual(
    [again.code, again.stderr.startsWith(`static: There is no sign-up invite ${revoked.id}.`)],
    [1, true],
  )
  const { events } = await adminJson<AuditPage>('audit', '--limit', '2')
  assert.deepEqual(
    events.map(({ actor, event, account_id, invite_id }) => [actor, event, account_id, invite_id]),
    [
      ['admin', 'signup_invite_revoked', null, revoked.id],
      ['admin', 'signup_invite_created', null, revoked.id],
    ],
  )
  const invited = await admin('accounts', 'invite')
  assert.match(invited.stdout, /\/console#\/sign-up\/su_\w{42}\n$/)
  const hint = /^static: it creates one account, in a browser or with `static signup --invite LINK`: it works once/
  assert.match(invited.stderr, hint)
  const done = await signup('--invite', invited.stdout.trim())
  assert.equal(done.code, 0, done.stderr)
  assert.match(done.stdout, /^Signed up bob@example\.com; /)
})
