import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertProblem, type Bench, cookieOf, onEachEngine, startBench } from '../support.ts'

onEachEngine('accounts', (engine) => {
  let bench: Bench
  before(async () => {
    bench = await startBench(engine)
  })
  after(() => bench.close())

  test('a sign-up creates an active free account and shows its first key once', async () => {
    const body = { email: 'Ann@example.com', password: 'a fine password', name: '  Ann ' }
    const made = await bench.call('POST', '/v1/accounts', { body })
    assert.equal(made.status, 201)
    const { id, api_key: first, ...rest } = made.body
    assert.equal(made.headers.location, `/v1/accounts/${id}`)
    assert.deepEqual(
      { ...rest, created_at: undefined },
      {
        email: 'Ann@example.com',
        name: 'Ann',
        plan: 'free',
        status: 'active',
        message: 'account created',
        created_at: undefined,
      },
    )
    assert.equal(rest.created_at, new Date(bench.clock.now).toISOString())
    assert.equal(first.name, 'default')
    assert.equal(first.key_prefix, first.key.slice(0, 16))
    assert.match(first.key, /^sk_live_[0-9A-Za-z]{46}$/)
    assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7/)

    const me = await bench.call('GET', '/v1/accounts/me', { key: first.key })
    const byId = await bench.call('GET', `/v1/accounts/${id}`, { key: first.key })
    assert.deepEqual(me.body, byId.body)
    assert.deepEqual(Object.keys(me.body), ['id', 'email', 'name', 'plan', 'status', 'created_at'])
  })

  test('an e-mail address belongs to one account, in any case', async () => {
    await bench.signUp('twice@example.com')
    const body = { email: 'TWICE@Example.com', password: 'a fine password' }
    assertProblem(await bench.call('POST', '/v1/accounts', { body }), 409, 'email_taken')
  })

  test('two concurrent sign-ups with one address create exactly one account', async () => {
    const body = { email: 'race@example.com', password: 'a fine password' }
    const signUp = async (): Promise<number> => (await bench.call('POST', '/v1/accounts', { body })).status
    const answers = await Promise.all(Array.from({ length: 8 }, signUp))
    assert.deepEqual(answers.sort(), [201, 409, 409, 409, 409, 409, 409, 409])
  })

  test('the id of another account is not found', async () => {
    const [one, other] = [await bench.signUp(), await bench.signUp()]
    const { key } = one.api_key
    assertProblem(await bench.call('GET', `/v1/accounts/${other.id}`, { key }), 404, 'not_found')
    assertProblem(await bench.call('GET', '/v1/accounts/nonsense', { key }), 404, 'not_found')
    assertProblem(await bench.call('POST', `/v1/accounts/${other.id}/keys`, { key }), 404, 'not_found')
  })

  test('the password gives access again when every key is lost', async () => {
    const { id, password, api_key: first } = await bench.signUp()
    assert.equal((await bench.call('DELETE', `/v1/keys/${first.id}`, { key: first.key })).status, 204)
    const made = await bench.call('POST', `/v1/accounts/${id}/keys`, { body: { password, name: 'back' } })
    assert.equal(made.status, 201)
    assert.equal(made.body.api_key, made.body.key)
    assert.deepEqual([made.body.name, made.body.mode], ['back', 'live'])
    assert.equal((await bench.call('GET', '/v1/keys', { key: made.body.key })).body.keys.length, 1)

    const wrong = { body: { password: 'not the password' } }
    assertProblem(await bench.call('POST', `/v1/accounts/${id}/keys`, wrong), 401, 'invalid_credentials')
    assertProblem(await bench.call('POST', `/v1/accounts/${id}/keys`), 401, 'auth_failed')
    const nobody = '01a1dd29-fb99-77d8-bc4c-7c01980aa2e4'
    assertProblem(await bench.call('POST', `/v1/accounts/${nobody}/keys`, wrong), 401, 'invalid_credentials')
  })

  test('a new password replaces the old one and ends every session', async () => {
    const { id, email, password } = await bench.signUp()
    const signedIn = await bench.call('POST', '/v1/sessions', { body: { email, password } })
    const cookie = cookieOf(signedIn)
    assert.equal((await bench.call('GET', '/v1/keys', { cookie })).status, 200)

    const path = `/v1/accounts/${id}/password`
    const wrong = { current_password: 'wrong password', new_password: 'another password' }
    assertProblem(await bench.call('PUT', path, { body: wrong }), 401, 'invalid_credentials')
    const common = { current_password: password, new_password: 'Password123' }
    assertProblem(await bench.call('PUT', path, { body: common }), 400, 'invalid_request')
    const right = { current_password: password, new_password: 'another password' }
    assert.equal((await bench.call('PUT', path, { body: right })).status, 204)

    assertProblem(await bench.call('GET', '/v1/keys', { cookie }), 401, 'auth_failed')
    const old = await bench.call('POST', '/v1/sessions', { body: { email, password } })
    assertProblem(old, 401, 'invalid_credentials')
    const fresh = { email, password: 'another password' }
    assert.equal((await bench.call('POST', '/v1/sessions', { body: fresh })).status, 201)
  })

  test('closing revokes every key, ends every session, erases personal data and frees the address', async () => {
    const { id, email, password, api_key: first } = await bench.signUp()
    const cookie = cookieOf(await bench.call('POST', '/v1/sessions', { body: { email, password } }))
    const path = `/v1/accounts/${id}`
    assertProblem(await bench.call('DELETE', path, { body: { password: 'wrong one' } }), 401, 'invalid_credentials')
    assert.equal((await bench.call('DELETE', path, { body: { password } })).status, 204)

    assertProblem(await bench.call('GET', '/v1/keys', { key: first.key }), 401, 'auth_key_invalid')
    assertProblem(await bench.call('GET', '/v1/keys', { cookie }), 401, 'auth_failed')
    assertProblem(await bench.call('DELETE', path, { body: { password } }), 401, 'invalid_credentials')
    const again = await bench.call('POST', '/v1/sessions', { body: { email, password } })
    assertProblem(again, 401, 'invalid_credentials')
    const [row] = await bench.query(`select * from accounts where id = '${id}'`)
    assert.deepEqual(
      [row?.['status'], row?.['email'], row?.['email_key'], row?.['password_hash']],
      ['closed', '', null, ''],
    )
    const [key] = await bench.query(`select revoked_at from api_keys where id = '${first.id}'`)
    assert.equal(key?.['revoked_at'], bench.clock.now)
    assert.notEqual((await bench.signUp(email)).id, id)
  })

  test('a suspended account is refused until it is resumed', async () => {
    const { Admin, openStore } = await import('../../src/index.ts')
    const { id, email, password, api_key: first } = await bench.signUp()
    const cookie = cookieOf(await bench.call('POST', '/v1/sessions', { body: { email, password } }))
    const store = await openStore(bench.database)
    const admin = new Admin(store)
    await admin.setSuspended(id, true)
    const { key } = first
    for (const answer of [
      await bench.call('GET', '/v1/keys', { key }),
      await bench.call('POST', '/v1/tokens', { key }),
      await bench.call('GET', '/v1/keys', { cookie }),
      await bench.call('POST', '/v1/sessions', { body: { email, password } }),
    ]) {
      assertProblem(answer, 403, 'account_suspended')
    }
    // Only who has the whole key learns that the account is suspended.
    const forged = (await bench.signUp()).api_key.key
    assertProblem(await bench.call('GET', '/v1/keys', { key: `${forged.slice(0, -1)}_` }), 401, 'auth_key_invalid')
    await admin.setSuspended(id, false)
    assert.equal((await bench.call('GET', '/v1/keys', { key })).status, 200)
    await admin.setPlan(id, 'team')
    assert.equal((await bench.call('GET', '/v1/usage', { key })).body.messages.limit, 10_000_000)
    assert.equal((await admin.inspect(id)).plan, 'team')
    await assert.rejects(admin.inspect('nobody'), { code: 'not_found' })
    await store.close()
  })

  const good = 'a fine password'
  for (const [what, body] of Object.entries({
    'no password': { email: 'x@example.com' },
    'no e-mail address': { password: good },
    'not an e-mail address': { email: 'nobody', password: good },
    'a space in the address': { email: 'a b@example.com', password: good },
    'a control character in the address': { email: 'a\u0000b@example.com', password: good },
    'an address of 255 characters': { email: `${'a'.repeat(243)}@example.com`, password: good },
    'a password of 7 characters': { email: 'x@example.com', password: 'seven77' },
    'a password of 129 characters': { email: 'x@example.com', password: 'xyz'.repeat(43) },
    'a common password': { email: 'x@example.com', password: 'Password1' },
    'one letter repeated': { email: 'x@example.com', password: 'zzzzzzzzzzzz' },
    'the address as password': { email: 'x@example.com', password: 'X@example.com' },
    'half a surrogate pair': { email: 'x@example.com', password: 'abcdefgh\ud800' },
    'a name of spaces': { email: 'x@example.com', password: good, name: '   ' },
    'a name with a control character': { email: 'x@example.com', password: good, name: 'a\u0007b' },
    'a name of 65 characters': { email: 'x@example.com', password: good, name: 'n'.repeat(65) },
    'an unknown field': { email: 'x@example.com', password: good, admin: true },
    'a number as password': { email: 'x@example.com', password: 12345678 },
    'a list': [],
  })) {
    test(`refused at sign-up: ${what}`, async () => {
      const answer = await bench.call('POST', '/v1/accounts', { body })
      assertProblem(answer, 400, 'invalid_request')
      assert.ok(answer.body.errors.length > 0)
    })
  }

  test('a password counts in code points and is never trimmed', async () => {
    const password = ` ${'🔑'.repeat(126)} `
    const email = 'emoji@example.com'
    assert.equal((await bench.call('POST', '/v1/accounts', { body: { email, password: '🔑 '.repeat(4) } })).status, 400)
    assert.equal((await bench.call('POST', '/v1/accounts', { body: { email, password } })).status, 400)
    const mixed = ` ${'🔑🗝x'.repeat(42)} `
    assert.equal((await bench.call('POST', '/v1/accounts', { body: { email, password: mixed } })).status, 201)
    const signIn = (given: string): Promise<{ status: number }> =>
      bench.call('POST', '/v1/sessions', { body: { email, password: given } })
    assert.equal((await signIn(mixed.trim())).status, 401)
    assert.equal((await signIn(mixed)).status, 201)
  })
})
