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

  test('a forged session is refused', async () => {
    const cookie = `__Host-static_session=${'A'.repeat(43)}`
    assertProblem(await bench.call('GET', '/v1/keys', { cookie }), 401, 'auth_failed')
  })
})
