/** No secret is written anywhere: not into the log, not into the database, not into an error. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { CSRF_HEADER, type IssuedToken, SESSION_COOKIE } from '@static/protocol'
import { type Answer, type Call, type Client, makeClient } from '@static/testkit/server/client'
import { type Database, makeDatabase } from '../support/database.ts'
import { makeKey, PASSWORD, signUp } from '@static/testkit/server/accounts'
import { contentOf, formsOf, found } from '@static/testkit/search'
import { startServer } from '@static/testkit/server'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'

const WRONG_PASSWORD = 'certainly not the password'
const NEW_PASSWORD = 'an even longer password'

const workspace = await makeWorkspace()
after(() => workspace[Symbol.dispose]())

/** What a day of use leaves behind. */
interface Story {
  /** By name: nothing may show these, in any form. */
  readonly secrets: Record<string, string>
  /** Personal, so not for the log or for errors, but the database has them. */
  readonly personal: Record<string, string>
  readonly prefix: string
  readonly requestId: string
  /** The bodies of all answers that were errors. */
  readonly errors: string[]
}

/** Everything that handles a secret, done well and done badly. */
async function live(client: Client, origin: string, database: Database | undefined): Promise<Story> {
  const errors: string[] = []
  const call = async (wanted: Call): Promise<Answer> => {
    const answer = await client.call(wanted)
    if (answer.status >= 400) errors.push(answer.text, JSON.stringify(answer.headers))
    return answer
  }
  const email = 'somebody.private@example.com'
  const { id, api_key: own } = await signUp(client, email)
  const { key } = own
  const second = await makeKey(client, key, { mode: 'test' })
  const revoked = await makeKey(client, key)
  const { token } = await client.json<IssuedToken>(200, { method: 'POST', path: '/v1/tokens', key })
  await client.json(200, { method: 'POST', path: '/v1/tokens', key: second.key })
  await call({ method: 'DELETE', path: `/v1/keys/${revoked.id}`, key })

  const signIn = (password: string, address = email): Call => ({
    method: 'POST',
    path: '/v1/sessions',
    body: { email: address, password },
  })
  const sessionOf = async (password: string): Promise<string> => {
    const cookie = (await call(signIn(password))).headers['set-cookie']?.[0] ?? ''
    const session = new RegExp(`^${SESSION_COOKIE}=([^;]+)`).exec(cookie)?.[1] ?? ''
    assert.ok(session.length >= 43)
    return session
  }
  const session = await sessionOf(PASSWORD)
  const asPage = { cookie: `${SESSION_COOKIE}=${session}`, [CSRF_HEADER]: '1', origin }
  await client.json(200, { path: '/v1/usage', headers: asPage })

  // What goes wrong, each time with a secret in the middle of it.
  const otherAt = (at: number): string => `${key.slice(0, at)}${key[at] === 'x' ? 'y' : 'x'}${key.slice(at + 1)}`
  const mistyped = otherAt(key.length - 1)
  const stranger = otherAt(8)
  const wrongs: Call[] = [
    signIn(WRONG_PASSWORD),
    signIn(WRONG_PASSWORD, 'nobody.private@example.com'),
    { path: '/v1/keys', key: mistyped },
    { path: '/v1/keys', key: stranger },
    { path: '/v1/keys', key: revoked.key },
    { path: '/v1/keys', key: token },
    { path: '/v1/keys', headers: { authorization: `Basic ${btoa(`${email}:${PASSWORD}`)}` } },
    { path: '/v1/keys', headers: { authorization: key } },
    { path: '/v1/keys', headers: { cookie: `${SESSION_COOKIE}=${session}` } },
    { path: '/v1/keys', headers: { ...asPage, origin: 'https://evil.example' } },
    { path: `/v1/keys/${key}`, method: 'DELETE', key },
    { path: `/v1/accounts/${key}`, key },
    { path: `/v1/usage?days=${key}`, key },
    { path: `/v1/usage?${email}=1`, key },
    { path: `/${key}/${email}?password=${encodeURIComponent(PASSWORD)}` },
    { path: `/%${key}`, key },
    { method: 'POST', path: '/v1/keys', key, raw: `{"name":"${key}` },
    { method: 'POST', path: '/v1/keys', key, raw: `{"${key}":"${PASSWORD}"}` },
    { method: 'POST', path: '/v1/keys', key, body: { name: 1, mode: key } },
    { method: 'POST', path: '/v1/tokens', key, body: { agent_id: key } },
    { method: 'POST', path: '/v1/sessions', raw: `{"email":"${email}","password":"${PASSWORD}"` },
    {
      method: 'POST',
      path: '/v1/sessions',
      raw: `email=${email}&password=${PASSWORD}`,
      headers: { 'content-type': 'a/b' },
    },
    { method: 'POST', path: '/v1/accounts', body: { email, password: PASSWORD } },
    { method: 'POST', path: '/v1/accounts', body: { email: 'other@example.com', password: [PASSWORD], name: key } },
    { method: 'POST', path: `/v1/accounts/${id}/keys`, body: { password: WRONG_PASSWORD } },
    {
      method: 'PUT',
      path: `/v1/accounts/${id}/password`,
      body: { current_password: PASSWORD, new_password: 'password' },
    },
    { method: key, path: '/v1/keys' },
  ]
  for (const wrong of wrongs) {
    const { status } = await call(wrong)
    assert.ok(status >= 400 && status < 500, `${wrong.method ?? 'GET'} ${wrong.path.slice(0, 16)}: ${status}`)
  }
  // PostgreSQL says the failing row in its error: the one way to make a query fail on purpose from outside.
  if (database) {
    await database.query(`alter table accounts add constraint broken check (email not like 'broken%')`)
    const broken = { email: 'broken.private@example.com', password: PASSWORD }
    assert.equal((await call({ method: 'POST', path: '/v1/accounts', body: broken })).status, 500)
  }
  const change = { current_password: PASSWORD, new_password: NEW_PASSWORD }
  assert.equal((await call({ method: 'PUT', path: `/v1/accounts/${id}/password`, body: change })).status, 204)
  // The change ended the first session; this one is in the database to the end.
  const open = await sessionOf(NEW_PASSWORD)
  const last = await call({ path: '/metrics' })
  errors.push(last.text)

  const [head = '', payload = '', signature = ''] = token.split('.')
  return {
    secrets: {
      key,
      'secret part of the key': key.slice(16),
      'test key': second.key.slice(16),
      'revoked key': revoked.key.slice(16),
      'mistyped key': mistyped,
      'unknown key': stranger,
      token,
      'signature of the token': signature,
      'claims of the token': `${head}.${payload}`,
      session,
      'open session': open,
      password: PASSWORD,
      'wrong password': WRONG_PASSWORD,
      'new password': NEW_PASSWORD,
    },
    personal: { email, 'unknown e-mail': 'nobody.private@example.com', 'broken e-mail': 'broken.private' },
    prefix: own.key_prefix,
    requestId: String(last.headers['x-request-id']),
    errors,
  }
}

test('the search finds a secret in every form', () => {
  const secret = 'sk_live_0123456789abcdef/+'
  for (const [at, form] of formsOf(secret).entries()) {
    assert.deepEqual(
      found({ secret }, Buffer.concat([Buffer.from('junk'), form, Buffer.from('junk')])),
      ['secret'],
      `form ${at}`,
    )
  }
  for (const before of ['', 'a', 'ab', 'abc']) {
    assert.deepEqual(found({ secret }, Buffer.from(btoa(`${before}${secret}tail`))), ['secret'])
  }
  assert.deepEqual(found({ secret }, Buffer.from('sk_live_0123456789abcde')), [])
})

describe('after a day of use', () => {
  for (const engine of ['sqlite', 'postgres'] as const) {
    test(`${engine}: log, data directory, database and errors contain no secret`, async () => {
      await using stack = new AsyncDisposableStack()
      const database = engine === 'postgres' ? stack.use(await makeDatabase()) : undefined
      const dataDir = workspace.directory(engine)
      const options = { workspace, dataDir, database: database?.url, settings: QUICK, logLevel: 'debug' } as const
      const server = stack.use(await startServer(options))
      const client = stack.use(makeClient(server.url, workspace.ca))
      const story = await live(client, server.url, database)
      const { secrets, personal, prefix, requestId, errors } = story

      assert.deepEqual(found({ ...secrets, ...personal }, Buffer.from(errors.join('\n'))), [], 'in answers')

      const stored = async (): Promise<Buffer> =>
        Buffer.concat([contentOf(dataDir), Buffer.from(database ? await dump(database) : '')])
      const check = async (when: string): Promise<void> => {
        const bytes = await stored()
        assert.deepEqual(found(secrets, bytes), [], `stored ${when}`)
        // Were these not found, the search would look in the wrong place.
        const visible = { prefix, email: personal['email'] ?? '' }
        assert.deepEqual(found(visible, bytes), ['prefix', 'email'], `control, ${when}`)
      }
      await check('while it runs, write-ahead log and all')
      assert.equal((await server.end('SIGTERM')).code, 0)
      await check('after its end')

      const log = Buffer.from(server.errors())
      assert.deepEqual(found({ ...secrets, ...personal }, log), [], 'in the log')
      assert.deepEqual(found({ requestId }, log), ['requestId'], 'control: the log tells of the requests')
    })
  }
})

/** Every row of every table. */
async function dump(database: Database): Promise<string> {
  const tables = await database.query<{ name: string }>(
    `select quote_ident(tablename) as name from pg_tables where schemaname = 'public'`,
  )
  assert.ok(tables.length >= 8)
  const rows: string[] = []
  for (const { name } of tables) {
    for (const row of await database.query(`select t::text as text from ${name} t`)) rows.push(String(row['text']))
  }
  return rows.join('\n')
}
