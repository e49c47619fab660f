import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertProblem, type Bench, onEachEngine, startBench } from '../support.ts'

const DAY = 24 * 3600_000

onEachEngine('idempotency keys', (engine) => {
  let bench: Bench
  before(async () => {
    bench = await startBench(engine)
  })
  after(() => bench.close())

  const password = 'a fine password'
  const signUp = (key: string, body: Record<string, unknown>): ReturnType<Bench['call']> =>
    bench.call('POST', '/v1/accounts', { body, headers: { 'idempotency-key': key } })

  test('a repeated sign-up names the account that the first one created', async () => {
    const body = { email: 'once@example.com', password }
    const made = await signUp('sign-up-1', body)
    assert.equal(made.status, 201)
    const again = await signUp('sign-up-1', body)
    assertProblem(again, 409, 'idempotency_conflict')
    assert.equal(again.body.resource_id, made.body.id)
    assert.ok(!JSON.stringify(again.body).includes(made.body.api_key.key))
    for (const other of [
      { ...body, name: 'Ann' },
      { ...body, password: 'another password' },
    ]) {
      assertProblem(await signUp('sign-up-1', other), 422, 'idempotency_mismatch')
    }
    assertProblem(await signUp('sign-up-2', body), 409, 'email_taken')
  })

  test('strangers who sign up with the same Idempotency-Key do not meet', async () => {
    for (const email of ['one@example.com', 'other@example.com']) {
      assert.equal((await signUp('shared', { email, password })).status, 201)
    }
  })

  test('many identical concurrent sign-ups create one account', async () => {
    const body = { email: 'crowd@example.com', password }
    const answers = await Promise.all(Array.from({ length: 6 }, () => signUp('crowd', body)))
    const made = answers.filter(({ status }) => status === 201)
    assert.equal(made.length, 1)
    for (const answer of answers) {
      if (answer.status === 201) continue
      // The losers see either the claim or, if they looked in between, the taken address.
      assert.ok(['idempotency_conflict', 'email_taken'].includes(answer.body.code), answer.body.code)
    }
    assertProblem(await signUp('crowd', body), 409, 'idempotency_conflict')
  })

  test('a repeated key creation names the key that the first one created', async () => {
    const { id, api_key: first } = await bench.signUp()
    const { key } = first
    const create = (name: string, path = '/v1/keys'): ReturnType<Bench['call']> =>
      bench.call('POST', path, { key, body: { name }, headers: { 'idempotency-key': 'deploy-1' } })
    const made = await create('deploy')
    const again = await create('deploy')
    assertProblem(again, 409, 'idempotency_conflict')
    assert.equal(again.body.resource_id, made.body.id)
    assertProblem(await create('other'), 422, 'idempotency_mismatch')
    assertProblem(await create('deploy', `/v1/accounts/${id}/keys`), 409, 'idempotency_conflict')
    assert.equal((await bench.call('GET', '/v1/keys', { key })).body.keys.length, 2)
  })

  test('identical concurrent key creations create one key', async () => {
    const { key } = (await bench.signUp()).api_key
    const answers = await Promise.all(
      Array.from({ length: 6 }, () => bench.call('POST', '/v1/keys', { key, headers: { 'idempotency-key': 'x' } })),
    )
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 409, 409, 409, 409, 409])
    assert.equal((await bench.call('GET', '/v1/keys', { key })).body.keys.length, 2)
  })

  test('two accounts may use the same Idempotency-Key', async () => {
    for (const { api_key: first } of [await bench.signUp(), await bench.signUp()]) {
      const ask = { key: first.key, headers: { 'idempotency-key': 'same' } }
      assert.equal((await bench.call('POST', '/v1/keys', ask)).status, 200)
    }
  })

  test('after a day the Idempotency-Key can be used again', async () => {
    const { key } = (await bench.signUp()).api_key
    const ask = { key, headers: { 'idempotency-key': 'daily' } }
    assert.equal((await bench.call('POST', '/v1/keys', ask)).status, 200)
    bench.clock.now += DAY - 1
    assert.equal((await bench.call('POST', '/v1/keys', ask)).status, 409)
    bench.clock.now += 1
    assert.equal((await bench.call('POST', '/v1/keys', ask)).status, 200)
  })

  test('no fast hash of the password is stored', async () => {
    const { createHash } = await import('node:crypto')
    await signUp('hashes', { email: 'hashes@example.com', password })
    const rows = await bench.query("select * from idempotency where key = 'hashes'")
    const digests = [password, JSON.stringify({ email: 'hashes@example.com', password })].flatMap((text) =>
      ['sha256', 'sha1', 'md5'].map((name) => createHash(name).update(text).digest('hex')),
    )
    for (const digest of digests) assert.ok(!JSON.stringify(rows).includes(digest))
  })

  test('an invalid Idempotency-Key is refused', async () => {
    const body = { email: 'form@example.com', password }
    for (const key of ['', 'with space', 'x'.repeat(256), 'ümlaut']) {
      const answer = await signUp(Buffer.from(key).toString('latin1'), body)
      assertProblem(answer, 400, 'invalid_request')
    }
  })
})
