import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { makeApiKey } from '../../src/secrets/api-key.ts'
import type { Credential } from '../../src/ports.ts'
import { assertProblem, type Bench, cookieOf, onEachEngine, startBench } from '../support.ts'

onEachEngine('keys', (engine) => {
  let bench: Bench
  before(async () => {
    bench = await startBench(engine, { settings: { keysPerAccount: 5 } })
  })
  after(() => bench.close())

  test('a key is shown once, listed without its secret, newest first, and works', async () => {
    const { api_key: first } = await bench.signUp()
    const { key } = first
    bench.clock.now += 1000
    const made = await bench.call('POST', '/v1/keys', { key, body: { name: ' deploy ' } })
    assert.equal(made.status, 200)
    assert.deepEqual(Object.keys(made.body).sort(), ['created_at', 'id', 'key', 'key_prefix', 'mode', 'name'])
    assert.deepEqual([made.body.name, made.body.mode], ['deploy', 'live'])

    const { body } = await bench.call('GET', '/v1/keys', { key: made.body.key })
    assert.deepEqual(
      body.keys.map(({ id }: { id: string }) => id),
      [made.body.id, first.id],
    )
    for (const listed of body.keys) {
      const fields = ['created_at', 'id', 'key_prefix', 'last_used_at', 'messages', 'mode', 'name', 'token_exchanges']
      assert.deepEqual(Object.keys(listed).sort(), fields)
    }
    assert.ok(!JSON.stringify(body).includes(made.body.key))
  })

  test('without a body or a name a key is named "default"', async () => {
    const { key } = (await bench.signUp()).api_key
    assert.equal((await bench.call('POST', '/v1/keys', { key })).body.name, 'default')
    assert.equal((await bench.call('POST', '/v1/keys', { key, body: {} })).body.name, 'default')
    const typed = await bench.call('POST', '/v1/keys', { key, headers: { 'content-type': 'application/json' } })
    assert.equal(typed.body.name, 'default')
  })

  test('a name is measured after trimming, and must not contain characters that reorder or hide text', async () => {
    const { key } = (await bench.signUp()).api_key
    const named = (name: string): ReturnType<Bench['call']> => bench.call('POST', '/v1/keys', { key, body: { name } })
    const long = '🔑'.repeat(64)
    assert.equal((await named(`   ${long}   `)).body.name, long)
    assert.equal((await named('👩‍💻 laptop')).status, 200, 'joiners are part of pictures')
    for (const name of [`${long}x`, 'a\u202eb', 'a\u2028b', 'a\u200bb', '\u0000', ' ']) {
      assertProblem(await named(name), 400, 'invalid_request')
    }
  })

  test('keys created in the same millisecond are listed by id, descending', async () => {
    const { key } = (await bench.signUp()).api_key
    for (let i = 0; i < 4; i++) await bench.call('POST', '/v1/keys', { key })
    const ids = (await bench.call('GET', '/v1/keys', { key })).body.keys.map(({ id }: { id: string }) => id)
    assert.equal(ids.length, 5)
    assert.deepEqual(ids, ids.toSorted().toReversed())
  })

  test('a revoked key stops working at once; its row stays; a second revocation is not found', async () => {
    const { key } = (await bench.signUp()).api_key
    const other = (await bench.call('POST', '/v1/keys', { key })).body
    assert.equal((await bench.call('GET', '/v1/keys', { key: other.key })).status, 200)
    const gone = await bench.call('DELETE', `/v1/keys/${other.id}`, { key })
    assert.deepEqual([gone.status, gone.body], [204, ''])
    assertProblem(await bench.call('GET', '/v1/keys', { key: other.key }), 401, 'auth_key_invalid')
    assertProblem(await bench.call('DELETE', `/v1/keys/${other.id}`, { key }), 404, 'not_found')
    const [row] = await bench.query(`select revoked_at, hash from api_keys where id = '${other.id}'`)
    assert.equal(row?.['revoked_at'], bench.clock.now)
    assert.match(String(row?.['hash']), /^\$argon2id\$/)
    const { body } = await bench.call('GET', '/v1/keys', { key })
    assert.ok(!JSON.stringify(body).includes(other.id))
  })

  test('the key of another account, an unknown key and a malformed id are all not found', async () => {
    const [one, other] = [await bench.signUp(), await bench.signUp()]
    for (const id of [other.api_key.id, '01a1dd29-fb99-77d8-bc4c-7c01980aa2e4', 'nonsense', `${other.api_key.id}x`]) {
      const answer = await bench.call('DELETE', `/v1/keys/${id}`, { key: one.api_key.key })
      assertProblem(answer, 404, 'not_found')
      assert.equal(answer.body.title, 'Not found')
    }
    assert.equal((await bench.call('GET', '/v1/keys', { key: other.api_key.key })).status, 200)
  })

  test('the limit of active keys per account holds, even for concurrent requests', async () => {
    const { key } = (await bench.signUp()).api_key
    const answers = await Promise.all(
      Array.from({ length: 8 }, async () => {
        for (let tries = 1; ; tries++) {
          const answer = await bench.call('POST', '/v1/keys', { key })
          // On a busy machine, no connection to the database may become free in time.
          if (answer.status !== 503 || tries === 20) return answer
        }
      }),
    )
    const made = answers.filter(({ status }) => status === 200)
    assert.equal(made.length, 4)
    for (const answer of answers) if (answer.status !== 200) assertProblem(answer, 409, 'key_limit_reached')
    await bench.call('DELETE', `/v1/keys/${made[0]?.body.id}`, { key })
    assert.equal((await bench.call('POST', '/v1/keys', { key })).status, 200)
  })

  test('a live key manages both modes; a test key sees, creates and revokes only test keys', async () => {
    const live = (await bench.signUp()).api_key
    const made = await bench.call('POST', '/v1/keys', { key: live.key, body: { mode: 'test' } })
    assert.match(made.body.key, /^sk_test_/)
    const { key } = made.body
    const second = (await bench.call('POST', '/v1/keys', { key })).body
    assert.equal(second.mode, 'test')
    assertProblem(await bench.call('POST', '/v1/keys', { key, body: { mode: 'live' } }), 403, 'mode_mismatch')
    assertProblem(await bench.call('DELETE', `/v1/keys/${live.id}`, { key }), 404, 'not_found')
    const seen = (await bench.call('GET', '/v1/keys', { key })).body.keys
    assert.deepEqual(seen.map(({ id }: { id: string }) => id).sort(), [made.body.id, second.id].sort())
    assert.equal((await bench.call('GET', '/v1/keys', { key: live.key })).body.keys.length, 3)
    assert.equal((await bench.call('DELETE', `/v1/keys/${second.id}`, { key })).status, 204)
    assert.equal((await bench.call('DELETE', `/v1/keys/${made.body.id}`, { key: live.key })).status, 204)
  })

  test('an invalid key is refused, with the header that says how to authenticate', async () => {
    const { key } = (await bench.signUp()).api_key
    const bare = await bench.call('GET', '/v1/keys')
    assertProblem(bare, 401, 'auth_failed')
    assert.equal(bare.headers['www-authenticate'], 'Bearer realm="static-api"')
    for (const authorization of ['Basic YTpi', 'Bearer', 'Bearer a b', '']) {
      const answer = await bench.call('GET', '/v1/keys', { headers: { authorization } })
      assertProblem(answer, 401, 'auth_failed')
    }
    const last = key.at(-1) === 'A' ? 'B' : 'A'
    const unknown = makeApiKey('live')
    for (const wrong of [
      `${key.slice(0, -1)}${last}`,
      unknown,
      key.replace('live', 'test'),
      'sk_live_',
      'x'.repeat(5000),
    ]) {
      const answer = await bench.call('GET', '/v1/keys', { key: wrong })
      assertProblem(answer, 401, 'auth_key_invalid')
      assert.equal(answer.headers['www-authenticate'], 'Bearer realm="static-api", error="invalid_token"')
    }
  })

  test('a wrong secret with a valid prefix is refused, before and after the right one was used', async () => {
    const { key } = (await bench.signUp()).api_key
    const forged = forge(key)
    assertProblem(await bench.call('GET', '/v1/keys', { key: forged }), 401, 'auth_key_invalid')
    assert.equal((await bench.call('GET', '/v1/keys', { key })).status, 200)
    assertProblem(await bench.call('GET', '/v1/keys', { key: forged }), 401, 'auth_key_invalid')
  })

  test('a key is checked with Argon2 once, however often it is used, even by concurrent requests', async () => {
    const { key } = (await bench.signUp()).api_key
    const before = bench.api.service.hasher.load.runs
    await Promise.all(Array.from({ length: 20 }, () => bench.call('GET', '/v1/keys', { key })))
    await bench.call('GET', '/v1/keys', { key })
    assert.equal(bench.api.service.hasher.load.runs - before, 1)
    await bench.call('GET', '/v1/keys', { key: makeApiKey('live') })
    assert.equal(bench.api.service.hasher.load.runs - before, 1, 'an unknown prefix costs no run')
  })

  test('a request held open across a revocation or a password change gets neither a key nor a token', async () => {
    const { id, email, password, api_key: first } = await bench.signUp()
    const stolen = (await bench.call('POST', '/v1/keys', { key: first.key })).body
    const cookie = cookieOf(await bench.call('POST', '/v1/sessions', { body: { email, password } }))
    const { promise: hold, resolve: release } = Promise.withResolvers<void>()
    const held = [
      bench.call('POST', '/v1/keys', { key: stolen.key, body: {}, hold }),
      bench.call('POST', '/v1/tokens', { key: stolen.key, body: {}, hold }),
      bench.call('POST', '/v1/keys', { cookie, body: {}, hold }),
      bench.call('POST', `/v1/accounts/${id}/keys`, { body: { password }, hold }),
    ]
    assert.equal((await bench.call('DELETE', `/v1/keys/${stolen.id}`, { key: first.key })).status, 204)
    const body = { current_password: password, new_password: 'a fresh password' }
    assert.equal((await bench.call('PUT', `/v1/accounts/${id}/password`, { body })).status, 204)
    release()
    for (const answer of await Promise.all(held)) assert.equal(answer.status, 401)
    assert.equal((await bench.call('GET', '/v1/keys', { key: first.key })).body.keys.length, 1)
  })

  test('a credential that is revoked while a new key is being hashed creates none', async () => {
    const { openStore } = await import('../../src/index.ts')
    const { id, api_key: first } = await bench.signUp()
    const store = await openStore(bench.database)
    const { record } = await bench.api.service.keys.make(id, 'late', 'live')
    const entry = { accountId: id, at: 1, actor: 'user', event: 'key_created' } as const
    const make = (credential: Credential): Promise<string> =>
      store.keys.create(record, 100, credential, undefined, entry)
    const nowhere = '01a1dd29-fb99-77d8-bc4c-7c01980aa2e4'
    assert.equal(await make({ by: 'key', id: nowhere }), 'refused')
    assert.equal(await make({ by: 'session', idHash: 'ended' }), 'refused')
    assert.equal(await make({ by: 'password', hash: 'changed' }), 'refused')
    assert.equal(await make({ by: 'key', id: first.id }), 'created')
    await store.close()
  })

  test('each key counts its own token exchanges of this month', async () => {
    bench.clock.now = Date.UTC(2031, 3, 10)
    const { api_key: first } = await bench.signUp()
    bench.clock.now++
    const { body: second } = await bench.call('POST', '/v1/keys', { key: first.key, body: { name: 'second' } })
    const exchange = async (key: string, times: number): Promise<void> => {
      for (let i = 0; i < times; i++) assert.equal((await bench.call('POST', '/v1/tokens', { key })).status, 200)
    }
    const counts = async (): Promise<unknown> => {
      const { body } = await bench.call('GET', '/v1/keys', { key: first.key })
      return body.keys.map(({ name, token_exchanges: times }: any) => [name, times])
    }
    await exchange(first.key, 1)
    await exchange(second.key, 2)
    await bench.api.service.keyUsage.flush()
    await exchange(second.key, 1)
    await bench.api.service.keyUsage.flush()
    assert.deepEqual(await counts(), [
      ['second', 3],
      ['default', 1],
    ])
    assert.equal((await bench.call('GET', '/v1/usage', { key: first.key })).body.token_exchanges, 4)
    bench.clock.now = Date.UTC(2031, 4, 1)
    assert.deepEqual(
      await counts(),
      [
        ['second', 0],
        ['default', 0],
      ],
      'a new month',
    )
    await exchange(first.key, 1)
    await bench.api.service.keyUsage.flush()
    assert.deepEqual(await counts(), [
      ['second', 0],
      ['default', 1],
    ])
  })

  test('last_used_at is set on first use, at most once a minute, never backwards, and at shutdown', async () => {
    const { id, key } = (await bench.signUp()).api_key
    const used = async (): Promise<unknown> =>
      (await bench.query(`select last_used_at u from api_keys where id='${id}'`))[0]?.['u']
    assert.equal(await used(), null)
    const start = bench.clock.now
    await bench.call('GET', '/v1/keys', { key })
    assert.equal(await used(), start)

    bench.clock.now += 59_000
    await bench.call('GET', '/v1/keys', { key })
    await bench.api.service.keyUsage.flushDue()
    assert.equal(await used(), start, 'not within the same minute')
    bench.clock.now += 2_000
    await bench.call('GET', '/v1/keys', { key })
    await bench.api.service.keyUsage.flushDue()
    assert.equal(await used(), start + 61_000)

    bench.clock.now += 1_000
    await bench.call('GET', '/v1/usage', { key })
    assert.equal(await used(), start + 61_000, 'reading the usage writes nothing')
    await bench.api.service.keyUsage.flush()
    assert.equal(await used(), start + 62_000)
    bench.clock.now -= 30_000
    await bench.call('GET', '/v1/keys', { key })
    await bench.api.service.keyUsage.flush()
    assert.equal(await used(), start + 62_000, 'never back')
    bench.clock.now += 30_000
  })
})

/** The same prefix and a right checksum around another secret. */
function forge(key: string): string {
  for (;;) {
    const other = makeApiKey('live')
    const body = key.slice(0, 16) + other.slice(16, -6)
    const forged = body + checksumOf(body)
    if (forged !== key) return forged
  }
}

function checksumOf(body: string): string {
  const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
  let rest = crc(body)
  let text = ''
  for (let i = 0; i < 6; i++) {
    text = alphabet.charAt(rest % 62) + text
    rest = Math.floor(rest / 62)
  }
  return text
}

/** CRC-32 bit by bit, independent of the code under test. */
function crc(text: string): number {
  let state = 0xffffffff
  for (const byte of Buffer.from(text)) {
    state ^= byte
    for (let bit = 0; bit < 8; bit++) state = state & 1 ? (state >>> 1) ^ 0xedb88320 : state >>> 1
  }
  return (state ^ 0xffffffff) >>> 0
}
