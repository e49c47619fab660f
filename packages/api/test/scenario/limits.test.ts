import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import { crc32 } from 'node:zlib'
import { base62, makeApiKey, parseApiKey } from '../../src/secrets/api-key.ts'
import type { StaticError } from '@static/protocol'
import type { RateContext, RateState } from '../../src/rules/rate-policy.ts'
import { assertProblem, type Answer, type Bench, cookieOf, onSomeEngine, startBench } from '../support.ts'

const MINUTE = 60_000

/** The defaults of SPEC.md, written out: a changed default must be seen here. */
const rates = {
  account: { limit: 600, seconds: 60 },
  tokens: { limit: 600, seconds: 60 },
  keyCreations: { limit: 30, seconds: 3600 },
  signups: { limit: 5, seconds: 3600 },
  failures: { limit: 20, seconds: 60 },
  passwordsPerAddress: { limit: 5, seconds: 60 },
  passwords: { limit: 20, seconds: 60 },
  passwordsPerDevice: { limit: 10, seconds: 60 },
  passwordsOfDevices: { limit: 20, seconds: 60 },
  // Quicker than the default.
  slowedAttempts: { limit: 20, seconds: 1 },
}
/** How long the turn of a slowed address is, in milliseconds. */
const SLOWED_MS = 50

onSomeEngine('rate limits', (engine) => {
  let bench: Bench
  before(async () => {
    bench = await startBench(engine, { settings: { rates } })
  })
  after(() => bench.close())

  const refused = (answer: Answer, policy: string, retryAfter: number): void => {
    assertProblem(answer, 429, 'rate_limited')
    assert.equal(answer.headers['retry-after'], String(retryAfter))
    assert.match(String(answer.headers['ratelimit']), new RegExp(`"${policy}";r=0;t=${retryAfter}`))
  }

  test('five sign-ups an hour from one address, and the headers count down', async () => {
    bench.clock.now += 3600_000
    for (let i = 5; i > 0; i--) {
      const body = { email: `hour-${i}@example.com`, password: 'a fine password' }
      const answer = await bench.call('POST', '/v1/accounts', { body })
      assert.equal(answer.status, 201)
      assert.match(String(answer.headers['ratelimit']), new RegExp(`"sign-ups";r=${i - 1};t=3600`))
      assert.match(String(answer.headers['ratelimit-policy']), /"sign-ups";q=5;w=3600/)
    }
    const body = { email: 'hour-0@example.com', password: 'a fine password' }
    refused(await bench.call('POST', '/v1/accounts', { body }), 'sign-ups', 3600)
    bench.clock.now += 3600_000
    assert.equal((await bench.call('POST', '/v1/accounts', { body })).status, 201)
  })

  test('600 requests a minute for one account; other accounts are not affected', async () => {
    const [one, other] = [await bench.signUp(), await bench.signUp()]
    const ask = { key: one.api_key.key }
    for (let i = 0; i < 600; i += 20) {
      const answers = await Promise.all(Array.from({ length: 20 }, () => bench.call('GET', '/v1/accounts/me', ask)))
      for (const { status } of answers) assert.equal(status, 200)
    }
    refused(await bench.call('GET', '/v1/keys', ask), 'account', 60)
    assert.equal((await bench.call('GET', '/v1/keys', { key: other.api_key.key })).status, 200)
    bench.clock.now += MINUTE
    assert.equal((await bench.call('GET', '/v1/keys', ask)).status, 200)
  })

  test('600 token exchanges a minute for one key', async () => {
    bench.clock.now += 3600_000
    const { key } = (await bench.signUp()).api_key
    for (let i = 0; i < 600; i += 20) {
      await Promise.all(Array.from({ length: 20 }, () => bench.call('POST', '/v1/tokens', { key })))
    }
    refused(await bench.call('POST', '/v1/tokens', { key }), 'tokens', 60)
  })

  test('30 new keys an hour for one account', async () => {
    const { key } = (await bench.signUp()).api_key
    for (let i = 0; i < 30; i++) assert.equal((await bench.call('POST', '/v1/keys', { key })).status, 200)
    refused(await bench.call('POST', '/v1/keys', { key }), 'key-creations', 3600)
    bench.clock.now += MINUTE
  })

  test('20 failed authentications a minute from one address; keys that never failed still work', async () => {
    bench.clock.now += 3600_000
    const good = (await bench.signUp()).api_key.key
    for (let i = 0; i < 20; i++) {
      assertProblem(await bench.call('GET', '/v1/keys', { key: makeApiKey('live') }), 401, 'auth_key_invalid')
    }
    refused(await bench.call('GET', '/v1/keys', { key: makeApiKey('live') }), 'failures', 60)
    assert.equal((await bench.call('GET', '/v1/keys', { key: good })).status, 200, 'the owner is not locked out')
    bench.clock.now += MINUTE
    assertProblem(await bench.call('GET', '/v1/keys', { key: makeApiKey('live') }), 401, 'auth_key_invalid')
    bench.clock.now += MINUTE
  })

  test('five password checks a minute for one account and address, whether it exists or not', async () => {
    bench.clock.now += 3600_000
    const { email, password, id } = await bench.signUp()
    for (const address of [email, 'nobody@example.com']) {
      for (let i = 0; i < 5; i++) {
        const answer = await bench.call('POST', '/v1/sessions', { body: { email: address, password: 'wrong one' } })
        assertProblem(answer, 401, 'invalid_credentials')
      }
      const sixth = await bench.call('POST', '/v1/sessions', { body: { email: address, password } })
      refused(sixth, 'passwords-per-address', 60)
    }
    const other = await bench.call('POST', `/v1/accounts/${id}/keys`, { body: { password } })
    refused(other, 'passwords-per-address', 60)
    bench.clock.now += MINUTE
    const answer = await bench.call('POST', '/v1/sessions', { body: { email, password } })
    assert.notEqual(cookieOf(answer), '')
  })

  test('20 wrong passwords slow the sign-ins of an address, but never stop one with the correct password', async () => {
    bench.clock.now += 3600_000
    const { email, password } = await bench.signUp()
    const signIn = (name: string, given: string): Promise<Answer> =>
      bench.call('POST', '/v1/sessions', { body: { email: name, password: given } })
    for (let at = 0; at < 20; at++) {
      assertProblem(await signIn(`nobody-${at}@example.com`, 'wrong one'), 401, 'invalid_credentials')
    }
    const start = performance.now()
    // The first begins at once, the others one by one.
    const guesses = Array.from({ length: 2 }, (_, at) => signIn(`nobody-2${at}@example.com`, 'wrong one'))
    assert.notEqual(cookieOf(await signIn(email, password)), '')
    for (const answer of await Promise.all(guesses)) assertProblem(answer, 401, 'invalid_credentials')
    assert.ok(performance.now() - start >= 2 * SLOWED_MS - 10)
    bench.clock.now += MINUTE
  })

  test('a slowed address does not use up the checks of others', async () => {
    bench.clock.now += 3600_000
    const { email, id, password } = await bench.signUp()
    const { sessions, accounts } = bench.api.service
    const from = (address: string): RateContext => ({ address, rates: [] })
    const crowd = '192.0.2.7'
    const codeOf = (attempt: Promise<unknown>): Promise<unknown> =>
      attempt.then(
        () => 'done',
        ({ code }: StaticError) => code,
      )
    const guess = (name: string): Promise<unknown> => codeOf(sessions.signIn(name, 'wrong one', undefined, from(crowd)))
    const guessById = (): Promise<unknown> => codeOf(accounts.close(id, 'wrong one', from(crowd)))
    for (let at = 0; at < 20; at++) assert.equal(await guess(`nobody-${at}@example.com`), 'invalid_credentials')
    const codes = await Promise.all(Array.from({ length: 40 }, () => [guess(email), guessById()]).flat())
    // One begins at once and 20 wait, but only five may try this account.
    assert.equal(codes.filter((code) => code === 'invalid_credentials').length, 5)
    assert.equal(codes.filter((code) => code === 'rate_limited').length, 75)
    const elsewhere = from('192.0.2.8')
    await sessions.signIn(email, password, undefined, elsewhere)
    assert.deepEqual(
      elsewhere.rates.map(({ policy, remaining }: RateState) => [policy, remaining]),
      [
        ['failures', 19],
        ['passwords-per-address', 4],
        ['passwords', 14],
      ],
    )
    bench.clock.now += MINUTE
  })

  test('an address that keeps trying an account beyond a limit, its own or the account’s, is slowed', async () => {
    const { limits, sessions } = bench.api.service
    const from = (address: string): RateContext => ({ address, rates: [] })
    const guess = (email: string, context: RateContext): Promise<unknown> =>
      sessions.signIn(email, 'wrong one', undefined, context).catch(({ code }: StaticError) => code)
    for (const others of [0, 4]) {
      bench.clock.now += 3600_000
      const { email, id } = await bench.signUp()
      for (let at = 0; at < 5 * others; at++) await guess(email, from(`198.51.100.${at % others}`))
      const context = from('192.0.2.10')
      for (let at = 0; at < 20; at++) await guess(email, context)
      const failures = context.rates.filter(({ policy }: RateState) => policy === 'failures')
      assert.equal(failures.at(-1)?.remaining, 0)
      // When others have used up the account's, an attempt that is not made costs the address none of its own.
      const { remaining } = limits.passwordsPerAddress.state(`${id} ${context.address}`)
      assert.equal(remaining, others === 0 ? 0 : 5)
    }
    bench.clock.now += MINUTE
  })

  test('one address cannot use up the password checks of an account', async () => {
    bench.clock.now += 3600_000
    const { email, password } = await bench.signUp()
    const body = { email, password: 'wrong one' }
    await Promise.all(Array.from({ length: 40 }, () => bench.call('POST', '/v1/sessions', { body })))
    const { sessions } = bench.api.service
    const elsewhere = { address: '192.0.2.9', rates: [] }
    assert.equal((await sessions.signIn(email, password, undefined, elsewhere)).account.email, email)
    bench.clock.now += MINUTE
  })

  test('beyond 20 failures a minute an address is slowed, even for 60 concurrent attempts', async () => {
    bench.clock.now += 3600_000
    const tries = Array.from({ length: 60 }, (_, i) =>
      bench.call('POST', '/v1/sessions', { body: { email: `crowd-${i}@example.com`, password: 'wrong one' } }),
    )
    const start = performance.now()
    const statuses = (await Promise.all(tries)).map(({ status }) => status)
    const turns = statuses.filter((status) => status === 401).length - 20
    assert.equal(statuses.filter((status) => status === 429).length, 40 - turns)
    assert.ok(turns >= 1 && performance.now() - start >= (turns - 1) * SLOWED_MS - 10, `${turns} turns`)
    bench.clock.now += MINUTE
  })
})

/** A well-formed key. */
function withChecksum(body: string): string {
  const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
  const places = Array.from({ length: 6 }, (_, at) => Math.floor(crc32(body) / 62 ** (5 - at)) % 62)
  return body + places.map((place) => digits.charAt(place)).join('')
}

test('two nodes allow no more guesses of a password or a key than one', async (t) => {
  const masterKey = randomBytes(32)
  const settings = { rates: { ...rates, signups: { limit: 100, seconds: 60 } } }
  const one = await startBench('postgres', { settings, masterKey })
  const other = await startBench('postgres', { settings, masterKey, database: one.database, now: one.clock.now })
  t.after(async () => {
    await other.close()
    await one.close()
  })
  const nodes = [one, other] as const
  const { email, password, api_key: first } = await one.signUp()
  const guess = (at: number): Promise<Answer> =>
    nodes[at % 2 === 0 ? 0 : 1].call('POST', '/v1/sessions', { body: { email, password: 'wrong one' } })
  const guesses = await Promise.all(Array.from({ length: 12 }, (_, at) => guess(at)))
  assert.equal(guesses.filter(({ status }) => status === 401).length, 5)
  for (const node of nodes) {
    assertProblem(await node.call('POST', '/v1/sessions', { body: { email, password } }), 429, 'rate_limited')
  }
  // Only the secret part of the key is guessed. 14 attempts at the password have failed from here, 6 keys may.
  const keys = Array.from({ length: 30 }, () => withChecksum(first.key_prefix + base62(32)))
  assert.ok(keys.every((key) => parseApiKey(key)?.prefix === first.key_prefix))
  const statuses: number[] = []
  for (const [at, key] of keys.entries()) {
    statuses.push((await nodes[at % 2 === 0 ? 0 : 1].call('GET', '/v1/keys', { key })).status)
  }
  assert.equal(statuses.filter((status) => status === 401).length, 6)
  const rows = await one.query('select subject from rate_windows')
  assert.ok(rows.length > 0)
  assert.doesNotMatch(JSON.stringify(rows), new RegExp(`${email}|127\\.0\\.0\\.1|${first.key_prefix}`))
})
