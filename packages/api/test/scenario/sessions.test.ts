import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertProblem, type Bench, cookieOf, onEachEngine, startBench } from '../support.ts'

const HOUR = 3600_000

onEachEngine('sign-in sessions', (engine) => {
  let bench: Bench
  before(async () => {
    bench = await startBench(engine)
  })
  after(() => bench.close())

  const signedIn = async (): Promise<{ cookie: string; id: string }> => {
    const { email, password, id } = await bench.signUp()
    const answer = await bench.call('POST', '/v1/sessions', { body: { email: email.toUpperCase(), password } })
    assert.equal(answer.status, 201)
    assert.equal(answer.body.id, id)
    return { cookie: cookieOf(answer), id }
  }

  test('signing in sets a cookie that is sent only to this origin and that no script can read', async () => {
    const { email, password } = await bench.signUp()
    const answer = await bench.call('POST', '/v1/sessions', { body: { email, password } })
    assert.match(
      String(answer.headers['set-cookie']),
      /^__Host-static_session=[\w-]{43}; Max-Age=43200; Path=\/; Secure; HttpOnly; SameSite=Strict$/,
    )
    assert.deepEqual(Object.keys(answer.body), ['id', 'email', 'name', 'plan', 'status', 'created_at'])
    const [row] = await bench.query('select id_hash from sessions order by created_at desc')
    assert.ok(!cookieOf(answer).includes(String(row?.['id_hash'])))
  })

  test('the cookie gives access to accounts, keys and usage', async () => {
    const { cookie, id } = await signedIn()
    assert.equal((await bench.call('GET', '/v1/accounts/me', { cookie })).body.id, id)
    const made = await bench.call('POST', '/v1/keys', { cookie, body: { name: 'from the page' } })
    assert.equal(made.status, 200)
    assert.equal((await bench.call('GET', '/v1/keys', { cookie })).body.keys.length, 2)
    assert.equal((await bench.call('DELETE', `/v1/keys/${made.body.id}`, { cookie })).status, 204)
    assert.equal((await bench.call('GET', '/v1/usage', { cookie })).body.account_id, id)
    assert.equal((await bench.call('POST', `/v1/accounts/${id}/keys`, { cookie })).status, 201)
  })

  test('a page of another site cannot use the cookie', async () => {
    const { cookie } = await signedIn()
    const { url } = bench.api
    const port = new URL(url).port
    const csrf = { 'x-static-csrf': '1' }
    for (const headers of [
      { cookie, origin: url },
      { cookie, ...csrf, origin: 'https://evil.example' },
      { cookie, ...csrf, origin: url.replace(port, '1') },
      { cookie, ...csrf, origin: url.replace('https', 'http') },
      { cookie, ...csrf, origin: 'null' },
      { cookie, ...csrf },
    ]) {
      assertProblem(await bench.call('POST', '/v1/keys', { headers }), 401, 'auth_failed')
      if ('origin' in headers && headers.origin === url) continue
      if (!('origin' in headers)) continue
      assertProblem(await bench.call('GET', '/v1/keys', { headers }), 401, 'auth_failed')
    }
    assertProblem(await bench.call('GET', '/v1/keys', { headers: { cookie } }), 401, 'auth_failed')
    // Browsers send no Origin with same-origin reads.
    assert.equal((await bench.call('GET', '/v1/keys', { headers: { cookie, ...csrf } })).status, 200)
    const foreign = {
      body: { email: 'x@example.com', password: 'whatever it is' },
      headers: { origin: 'https://evil.example' },
    }
    assertProblem(await bench.call('POST', '/v1/sessions', foreign), 401, 'auth_failed')
  })

  test('a session ends 12 hours after its last use', async () => {
    const { cookie } = await signedIn()
    bench.clock.now += 11 * HOUR
    const used = await bench.call('GET', '/v1/keys', { cookie })
    assert.equal(used.status, 200)
    assert.equal(cookieOf(used), cookie, 'the browser keeps it as long as we do')
    bench.clock.now += 11 * HOUR
    assert.equal((await bench.call('GET', '/v1/keys', { cookie })).status, 200)
    bench.clock.now += 12 * HOUR
    assertProblem(await bench.call('GET', '/v1/keys', { cookie }), 401, 'auth_failed')
  })

  test('signing out ends the session and deletes the cookie', async () => {
    const { cookie } = await signedIn()
    const bare = await bench.call('DELETE', '/v1/sessions/current', { headers: { cookie } })
    assertProblem(bare, 401, 'auth_failed')
    const out = await bench.call('DELETE', '/v1/sessions/current', { cookie })
    assert.equal(out.status, 204)
    assert.match(String(out.headers['set-cookie']), /^__Host-static_session=; Max-Age=0;/)
    assertProblem(await bench.call('GET', '/v1/keys', { cookie }), 401, 'auth_failed')
    assertProblem(await bench.call('DELETE', '/v1/sessions/current'), 401, 'auth_failed')
  })

  test('a person sees only the sessions of their own account, and ends one, or all others', async () => {
    const { email, password } = await bench.signUp()
    const signIn = async (agent: string): Promise<string> => {
      const headers = { 'user-agent': agent }
      const answer = await bench.call('POST', '/v1/sessions', { body: { email, password }, headers })
      bench.clock.now += 1000
      return cookieOf(answer)
    }
    const firefox = await signIn('Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0')
    const phone = await signIn('Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Version/19.0 Safari/605.1')
    const script = await signIn('<script>alert(1)</script>')
    const { cookie: stranger } = await signedIn()
    const list = async (cookie: string): Promise<any[]> =>
      (await bench.call('GET', '/v1/sessions', { cookie })).body.sessions

    const seen = await list(firefox)
    assert.deepEqual(
      seen.map(({ client, current, address }) => [client, current, address]),
      [
        [null, false, null],
        ['Safari on iOS', false, null],
        ['Firefox on Linux', true, null],
      ],
    )
    assert.equal((await list(stranger)).length, 1)
    const [, onPhone, own] = seen
    const path = `/v1/sessions/${onPhone.id}`
    assertProblem(await bench.call('DELETE', path, { cookie: stranger }), 404, 'not_found')
    assertProblem(await bench.call('DELETE', '/v1/sessions/nonsense', { cookie: firefox }), 404, 'not_found')
    assert.equal((await bench.call('DELETE', path, { cookie: firefox })).status, 204)
    assertProblem(await bench.call('GET', '/v1/keys', { cookie: phone }), 401, 'auth_failed')
    assert.equal((await bench.call('GET', '/v1/keys', { cookie: script })).status, 200)

    bench.clock.now += HOUR
    const everyone = await bench.call('DELETE', '/v1/sessions', { cookie: firefox })
    assert.deepEqual([everyone.status, everyone.body], [200, { ended: 1 }])
    assertProblem(await bench.call('DELETE', '/v1/sessions', { cookie: script }), 401, 'auth_failed')
    const [left, ...rest] = await list(firefox)
    assert.deepEqual([left.id, rest], [own.id, []])
    assert.ok(Date.parse(left.last_used_at) >= Date.parse(own.last_used_at) + HOUR)
    assert.equal((await list(stranger)).length, 1, 'other accounts keep their sessions')
    const { body } = await bench.call('GET', '/v1/audit', { cookie: firefox })
    const ended = body.events.filter(({ event }: any) => event === 'session_ended')
    assert.equal(
      ended.reduce((sum: number, { count }: any) => sum + count, 0),
      2,
    )
  })

  test('an API key neither lists nor ends sessions', async () => {
    const { api_key: first } = await bench.signUp()
    assertProblem(await bench.call('GET', '/v1/sessions', { key: first.key }), 401, 'auth_failed')
    assertProblem(await bench.call('DELETE', '/v1/sessions', { key: first.key }), 401, 'auth_failed')
    const other = '/v1/sessions/01a1dd29-fb99-77d8-bc4c-7c01980aa2e4'
    assertProblem(await bench.call('DELETE', other, { key: first.key }), 401, 'auth_failed')
  })

  test('a session that was ended while its request arrived ends no other', async () => {
    const { email, password } = await bench.signUp()
    const enter = async (): Promise<string> =>
      cookieOf(await bench.call('POST', '/v1/sessions', { body: { email, password } }))
    const [owner, thief] = [await enter(), await enter()]
    const { sessions } = bench.api.service
    const { caller } = await sessions.resume(thief.split('=')[1] ?? '')
    await bench.call('DELETE', '/v1/sessions', { cookie: owner })
    await assert.rejects(sessions.endAllOthers(caller, { address: '192.0.2.9', rates: [] }), { code: 'auth_failed' })
    assert.equal((await bench.call('GET', '/v1/keys', { cookie: owner })).status, 200)
  })

  test('a forged session is refused', async () => {
    const cookie = `__Host-static_session=${'A'.repeat(43)}`
    assertProblem(await bench.call('GET', '/v1/keys', { cookie }), 401, 'auth_failed')
  })
})
