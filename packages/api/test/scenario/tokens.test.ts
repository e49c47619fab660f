import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createLocalJWKSet, decodeProtectedHeader, jwtVerify } from 'jose'
import { AUDIENCE, ISSUER } from '@static/protocol'
import { assertProblem, type Bench, cookieOf, onSomeEngine, startBench } from '../support.ts'

const DAY = 24 * 3600_000

onSomeEngine('tokens', (engine) => {
  let bench: Bench
  before(async () => {
    bench = await startBench(engine)
  })
  after(() => bench.close())

  /** Checks a token as a relay does: algorithm, issuer and audience pinned, keys from the JWKS. */
  const verify = async (token: string): ReturnType<typeof jwtVerify> => {
    const { body } = await bench.call('GET', '/.well-known/jwks.json')
    const currentDate = new Date(bench.clock.now)
    return jwtVerify(token, createLocalJWKSet(body), {
      algorithms: ['EdDSA'],
      issuer: ISSUER,
      audience: AUDIENCE,
      currentDate,
    })
  }

  test('a key is exchanged for a token that is valid for an hour and names its account', async () => {
    const { id, api_key: first } = await bench.signUp()
    const answer = await bench.call('POST', '/v1/tokens', { key: first.key })
    assert.equal(answer.status, 200)
    const { token, ...rest } = answer.body
    const iat = Math.floor(bench.clock.now / 1000)
    const expires = new Date((iat + 3600) * 1000).toISOString()
    assert.deepEqual(rest, { token_type: 'Bearer', expires_in: 3600, expires_at: expires })
    const { payload, protectedHeader } = await verify(token)
    const { jti, ...claims } = payload
    assert.deepEqual(claims, {
      sub: id,
      plan: 'free',
      iss: 'static-api',
      aud: 'static-relay',
      exp: iat + 3600,
      iat,
      mode: 'live',
      key: first.id,
      channel_bytes: 268_435_456,
      account_bytes: 1_073_741_824,
      file_bytes: 2_147_483_648,
    })
    assert.match(String(jti), /^[0-9a-f-]{36}$/)
    assert.equal(protectedHeader.alg, 'EdDSA')
  })

  test('an agent id binds the token to the agent; an empty body is accepted; anything else is refused', async () => {
    const { key } = (await bench.signUp()).api_key
    const agent = 'ab'.repeat(32)
    const bound = await bench.call('POST', '/v1/tokens', { key, body: { agent_id: agent } })
    assert.equal((await verify(bound.body.token)).payload['cnf'], agent)
    assert.equal((await bench.call('POST', '/v1/tokens', { key, body: {} })).status, 200)
    for (const body of [{ agent_id: 'AB'.repeat(32) }, { agent_id: 'ab' }, { agent_id: 7 }, { agent: agent }]) {
      assertProblem(await bench.call('POST', '/v1/tokens', { key, body }), 400, 'invalid_request')
    }
  })

  test('a test key gets a test token', async () => {
    const { key } = (await bench.signUp()).api_key
    const made = await bench.call('POST', '/v1/keys', { key, body: { mode: 'test' } })
    const { token } = (await bench.call('POST', '/v1/tokens', { key: made.body.key })).body
    const { payload } = await verify(token)
    assert.deepEqual([payload['mode'], payload['channel_bytes']], ['test', 67_108_864])
  })

  test('a token stays valid after its key was revoked, until it expires', async () => {
    const { api_key: first } = await bench.signUp()
    const { token } = (await bench.call('POST', '/v1/tokens', { key: first.key })).body
    await bench.call('DELETE', `/v1/keys/${first.id}`, { key: first.key })
    assertProblem(await bench.call('POST', '/v1/tokens', { key: first.key }), 401, 'auth_key_invalid')
    await verify(token)
    bench.clock.now += 3601_000
    await assert.rejects(verify(token), { code: 'ERR_JWT_EXPIRED' })
  })

  test('neither a token nor a session gives access to what requires a key', async () => {
    const { email, password, api_key: first } = await bench.signUp()
    const { token } = (await bench.call('POST', '/v1/tokens', { key: first.key })).body
    assertProblem(await bench.call('GET', '/v1/accounts/me', { key: token }), 401, 'auth_key_invalid')
    const cookie = cookieOf(await bench.call('POST', '/v1/sessions', { body: { email, password } }))
    assertProblem(await bench.call('POST', '/v1/tokens', { cookie }), 401, 'auth_failed')
  })

  test('signing keys rotate: published a day before their first signature, kept two hours after their last', async () => {
    const { key } = (await bench.signUp()).api_key
    const { ring } = bench.api.service
    const kids = async (): Promise<string[]> =>
      (await bench.call('GET', '/.well-known/jwks.json')).body.keys.map(({ kid }: { kid: string }) => kid)
    const exchange = async (): Promise<string> => (await bench.call('POST', '/v1/tokens', { key })).body.token
    const signer = async (): Promise<string | undefined> => decodeProtectedHeader(await exchange()).kid

    const [first] = await kids()
    assert.equal(await signer(), first)
    const start = bench.clock.now
    bench.clock.now = start + 29 * DAY
    await ring.refresh()
    const both = await kids()
    assert.equal(both.length, 2)
    assert.equal(await signer(), first, 'the new key is published, not used')
    const second = both.find((kid) => kid !== first)

    bench.clock.now = start + 30 * DAY - 4000_000
    const last = await exchange()
    bench.clock.now = start + 30 * DAY
    assert.equal(await signer(), second)
    bench.clock.now = start + 30 * DAY - 4000_000 + 3599_000
    await verify(last)
    bench.clock.now = start + 30 * DAY + 2 * 3600_000 - 1
    assert.deepEqual((await kids()).length, 2)
    bench.clock.now += 1
    assert.deepEqual(await kids(), [second])
    await ring.refresh()
    const rows = await bench.query('select kid, sealed from signing_keys')
    assert.deepEqual(
      rows.map(({ kid }) => kid),
      [second],
      'a key out of use is deleted',
    )
  })
})
