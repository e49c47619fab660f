/** A browser in which the owner has signed in keeps its own attempts, whatever others try. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, beforeEach, test } from 'node:test'
import { StaticError } from '@static/protocol'
import { Admin, openStore } from '../../src/index.ts'
import { Accounts, type AccountsOptions } from '../../src/rules/accounts.ts'
import { Audit } from '../../src/rules/audit.ts'
import { Devices } from '../../src/rules/devices.ts'
import { Passwords } from '../../src/rules/password.ts'
import { DeviceSecrets } from '../../src/secrets/device-secrets.ts'
import { type Answer, assertProblem, type Bench, onSomeEngine, startBench } from '../support.ts'

const MINUTE = 60_000
const DAY = 24 * 60 * MINUTE
const WRONG = 'not the password'

/** The defaults of SPEC.md, except that anyone may sign up. */
const rates = {
  failures: { limit: 20, seconds: 60 },
  passwordsPerAddress: { limit: 5, seconds: 60 },
  passwords: { limit: 20, seconds: 60 },
  passwordsPerDevice: { limit: 10, seconds: 60 },
  passwordsOfDevices: { limit: 20, seconds: 60 },
  // Slower than the default: beyond one, a request would time out before its turn.
  slowedAttempts: { limit: 1, seconds: 60 },
}

onSomeEngine('devices', (engine) => {
  let bench: Bench
  before(async () => {
    bench = await startBench(engine, { settings: { rates } })
  })
  after(() => bench.close())
  beforeEach(() => {
    bench.clock.now += DAY
  })

  /** Signs in as the console does, with the device cookie of an earlier sign-in, if any. */
  const signIn = (email: string, password: string, device = ''): Promise<Answer> =>
    bench.call('POST', '/v1/sessions', { body: { email, password }, cookie: device })

  /** Twenty wrong passwords, five from each of four addresses: the account's minute is used up. */
  const attack = async (email: string): Promise<void> => {
    for (let at = 0; at < 20; at++) {
      const context = { address: `192.0.2.${at % 4}`, rates: [] }
      await assert.rejects(bench.api.service.sessions.signIn(email, WRONG, undefined, context), {
        code: 'invalid_credentials',
      })
    }
  }

  test('the owner signs in although others have used up the attempts at the account', async () => {
    const { email, password } = await bench.signUp()
    const device = deviceOf(await signIn(email, password))
    await attack(email)
    assertProblem(await signIn(email, password), 429, 'rate_limited')
    assert.equal((await signIn(email, password, device)).status, 201)
  })

  test('the owner signs in although their own address has failed too often', async () => {
    const { email, password } = await bench.signUp()
    const device = deviceOf(await signIn(email, password))
    for (let at = 0; at < 20; at++)
      assertProblem(await signIn(`x-${at}@example.com`, WRONG), 401, 'invalid_credentials')
    assert.equal((await signIn(email, password)).status, 201, 'the turn of the slowed address')
    assert.equal((await signIn(email, password, device)).status, 201)
  })

  test('the cookie is sent only to this origin, no script can read it, and its secret is not stored', async () => {
    const { email, password } = await bench.signUp()
    const [, cookie] = (await signIn(email, password)).headers['set-cookie'] ?? []
    assert.match(
      String(cookie),
      /^__Host-static_device=[\w-]{43}; Max-Age=31536000; Path=\/; Secure; HttpOnly; SameSite=Strict$/,
    )
    const stored = JSON.stringify(await bench.query('select * from devices'))
    assert.ok(!stored.includes(deviceOf({ headers: { 'set-cookie': [String(cookie)] } }).split('=')[1] ?? ''))
  })

  test('a device has ten attempts a minute, and no attempt without a password', async () => {
    const { email, password } = await bench.signUp()
    const device = deviceOf(await signIn(email, password))
    for (let at = 0; at < 10; at++) assertProblem(await signIn(email, WRONG, device), 401, 'invalid_credentials')
    assertProblem(await signIn(email, password, device), 429, 'rate_limited')
    bench.clock.now += MINUTE
    assert.equal((await signIn(email, password, device)).status, 201)
    assertProblem(await bench.call('GET', '/v1/accounts/me', { cookie: device }), 401, 'auth_failed')
  })

  test('all devices of an account have 20 attempts a minute together, and use up nothing of others', async () => {
    const { email, password } = await bench.signUp()
    const devices: string[] = []
    for (let at = 0; at < 3; at++) devices.push(deviceOf(await signIn(email, password)))
    const [first = '', second = '', third = ''] = devices
    for (let at = 0; at < 20; at++) {
      assertProblem(await signIn(email, WRONG, at % 2 === 0 ? first : second), 401, 'invalid_credentials')
    }
    const refused = await signIn(email, password, third)
    assertProblem(refused, 429, 'rate_limited')
    assert.match(String(refused.headers['ratelimit']), /"passwords-of-devices";r=0;t=60/)
    assert.equal((await signIn(email, password)).status, 201)
    bench.clock.now += MINUTE
    assert.equal((await signIn(email, password, third)).status, 201)
  })

  test('only the first attempt of a device in a minute is checked in the place kept for callers without failures', async (t) => {
    const { email, password } = await bench.signUp()
    const device = deviceOf(await signIn(email, password))
    const checks = t.mock.method(bench.api.service.hasher, 'verify')
    assertProblem(await signIn(email, WRONG, device), 401, 'invalid_credentials')
    assert.equal((await signIn(email, password, device)).status, 201)
    await Promise.all(Array.from({ length: 3 }, () => signIn(email, WRONG, device)))
    bench.clock.now += MINUTE
    assert.equal((await signIn(email, password, device)).status, 201)
    const lanes = checks.mock.calls.map((call) => call.arguments[2])
    assert.deepEqual(lanes, ['clean', 'suspect', 'suspect', 'suspect', 'suspect', 'clean'])
  })

  test('an attempt that is not made, because too many passwords are being checked, uses up nothing', async (t) => {
    const { email, password } = await bench.signUp()
    const device = deviceOf(await signIn(email, password))
    bench.clock.now += MINUTE
    const busy = t.mock.method(bench.api.service.hasher, 'verify', () => Promise.reject(StaticError.of('unavailable')))
    for (let at = 0; at < 21; at++) {
      assertProblem(await signIn(email, password), 503, 'unavailable')
      assertProblem(await signIn(email, password, device), 503, 'unavailable')
    }
    busy.mock.restore()
    const left = (answer: Answer): string => String(answer.headers['ratelimit']).replaceAll(/;t=\d+/g, '')
    assert.equal(left(await signIn(email, WRONG)), '"failures";r=19, "passwords-per-address";r=4, "passwords";r=19')
    assert.equal(left(await signIn(email, WRONG, device)), '"passwords-per-device";r=9, "passwords-of-devices";r=19')
  })

  test('a device counts for its own account only', async () => {
    const [owner, other] = [await bench.signUp(), await bench.signUp()]
    const device = deviceOf(await signIn(other.email, other.password))
    await attack(owner.email)
    assertProblem(await signIn(owner.email, owner.password, device), 429, 'rate_limited')
    const unknown = `${device.slice(0, -1)}${device.endsWith('A') ? 'B' : 'A'}`
    assertProblem(await signIn(owner.email, owner.password, unknown), 429, 'rate_limited')
  })

  test('a device has ten attempts a minute at other accounts as well', async () => {
    const [owner, other] = [await bench.signUp(), await bench.signUp()]
    const device = deviceOf(await signIn(other.email, other.password))
    bench.clock.now += MINUTE
    for (let at = 0; at < 10; at++) {
      const expected = at < 5 ? 'invalid_credentials' : 'rate_limited'
      assert.equal((await signIn(owner.email, WRONG, device)).body.code, expected)
    }
    const eleventh = await signIn(owner.email, owner.password, device)
    assertProblem(eleventh, 429, 'rate_limited')
    assert.match(String(eleventh.headers['ratelimit']), /"passwords-per-device";r=0/)
    assertProblem(await signIn(other.email, other.password, device), 429, 'rate_limited')
  })

  test('attempts beyond the joint limit of an account’s devices do not count against a device', async () => {
    const { email, password } = await bench.signUp()
    const devices: string[] = []
    for (let at = 0; at < 3; at++) devices.push(deviceOf(await signIn(email, password)))
    const [first = '', second = '', third = ''] = devices
    for (let at = 0; at < 20; at++) await signIn(email, WRONG, at % 2 === 0 ? first : second)
    bench.clock.now += MINUTE / 2
    for (let at = 0; at < 11; at++) {
      assertProblem(await signIn(email, password, third), 429, 'rate_limited')
      bench.clock.now += 1000
    }
    bench.clock.now += MINUTE / 2 - 11_000
    assert.equal((await signIn(email, password, third)).status, 201)
  })

  test('a new password voids every device, but the browser that set it gets a new one', async () => {
    const { email, password, id } = await bench.signUp()
    const elsewhere = deviceOf(await signIn(email, password))
    const device = deviceOf(await signIn(email, password))
    await attack(email)
    const next = 'another fine password'
    const body = { current_password: password, new_password: next }
    const changed = await bench.call('PUT', `/v1/accounts/${id}/password`, { body, cookie: device })
    assert.equal(changed.status, 204)
    assertProblem(await signIn(email, next, elsewhere), 429, 'rate_limited')
    assertProblem(await signIn(email, next, device), 429, 'rate_limited')
    assert.equal((await signIn(email, next, deviceOf(changed))).status, 201)
  })

  test('so does a set-password link', async () => {
    const { email, password, id } = await bench.signUp()
    const device = deviceOf(await signIn(email, password))
    const store = await openStore(bench.database)
    const { token } = await new Admin(store, () => bench.clock.now).passwordLink(id, 1)
    await store.close()
    await attack(email)
    const next = 'another fine password'
    const set = await bench.call('POST', '/v1/passwords', { body: { token, new_password: next }, cookie: device })
    assert.equal(set.status, 200)
    assertProblem(await signIn(email, next, device), 429, 'rate_limited')
    assert.equal((await signIn(email, next, deviceOf(set))).status, 201)
  })

  test('an account has 16 devices: a further one replaces the one that was used longest ago', async () => {
    const { email, password, id } = await bench.signUp()
    const devices: string[] = []
    const signInLater = async (device?: string): Promise<string> => {
      bench.clock.now += MINUTE
      return deviceOf(await signIn(email, password, device))
    }
    for (let at = 0; at < 16; at++) devices.push(await signInLater())
    const [first = '', second = ''] = devices
    assert.equal(await signInLater(first), first, 'a sign-in extends its device')
    await signInLater()
    assert.equal((await bench.query(`select * from devices where account_id = '${id}'`)).length, 16)
    bench.clock.now += MINUTE
    await attack(email)
    assertProblem(await signIn(email, password, second), 429, 'rate_limited')
    assert.equal((await signIn(email, password, first)).status, 201)
  })

  test('a device ends a year after its last sign-in, and with its account', async () => {
    const { email, password, id } = await bench.signUp()
    const device = deviceOf(await signIn(email, password))
    bench.clock.now += 365 * DAY
    await attack(email)
    assertProblem(await signIn(email, password, device), 429, 'rate_limited')
    await bench.api.service.cleanUp()
    assert.deepEqual(await bench.query(`select * from devices where account_id = '${id}'`), [])
    bench.clock.now += MINUTE
    const last = deviceOf(await signIn(email, password))
    assert.equal((await bench.call('DELETE', `/v1/accounts/${id}`, { body: { password }, cookie: last })).status, 204)
    assert.deepEqual(await bench.query(`select * from devices where account_id = '${id}'`), [])
  })

  test('a program that is not a browser gets no device, so it displaces none', async () => {
    const { email, password } = await bench.signUp()
    const answer = await bench.call('POST', '/v1/sessions', { body: { email, password } })
    assert.equal(answer.status, 201)
    assert.equal(deviceOf(answer), '')
  })
})

test('a cookie that no node has issued is refused without a query', async (t) => {
  const masterKey = randomBytes(32)
  const bench = await startBench('sqlite', { masterKey })
  const store = await openStore(bench.database)
  t.after(async () => {
    await store.close()
    await bench.close()
  })
  const { email, password } = await bench.signUp()
  const answer = await bench.call('POST', '/v1/sessions', { body: { email, password }, cookie: '' })
  const [, secret = ''] = deviceOf(answer).split('=')
  const find = t.mock.method(store.devices, 'find')
  const devices = new Devices(store.devices, new DeviceSecrets(masterKey), () => bench.clock.now)
  const of = (device: string): Promise<unknown> => devices.of({ address: '192.0.2.1', rates: [], browser: { device } })
  const forged = Buffer.from(Buffer.from(secret, 'base64url').map((byte) => byte ^ 1)).toString('base64url')
  const random = Buffer.alloc(32, 7).toString('base64url')
  // The last of 43 characters has two bits to spare.
  const sameBytes = secret.slice(0, -1) + String.fromCharCode(secret.charCodeAt(42) + 1)
  for (const given of ['', 'x', `${secret}x`, `${secret}=`, secret.slice(1), forged, random, sameBytes]) {
    assert.equal(await of(given), undefined)
  }
  assert.equal(find.mock.callCount(), 0)
  assert.ok(await of(secret))
})

test('an attempt with a device that has used up its attempts does not read an account', async (t) => {
  const masterKey = randomBytes(32)
  const bench = await startBench('sqlite', { masterKey, settings: { rates } })
  const store = await openStore(bench.database)
  t.after(async () => {
    await store.close()
    await bench.close()
  })
  const { email, password } = await bench.signUp()
  const answer = await bench.call('POST', '/v1/sessions', { body: { email, password }, cookie: '' })
  const [, device = ''] = deviceOf(answer).split('=')
  const { hasher, limits, now } = bench.api.service
  const devices = new Devices(store.devices, new DeviceSecrets(masterKey), now)
  const passwords = new Passwords(hasher, limits, new Audit(store.audit, false, now))
  const accounts = new Accounts({ store, devices, limits, passwords, now } as AccountsOptions)
  const find = t.mock.method(store.accounts, 'byEmail')
  for (let at = 0; at < 20; at++) {
    const context = { address: `192.0.2.${at}`, rates: [], browser: { device } }
    const code = at < 10 ? 'invalid_credentials' : 'rate_limited'
    await assert.rejects(accounts.byEmail(`x-${at}@example.com`, WRONG, context), { code })
  }
  // One finds that the limit is reached.
  assert.equal(find.mock.callCount(), 11)
})

/** The device cookie of an answer, as a browser would send it back. */
function deviceOf({ headers }: Pick<Answer, 'headers'>): string {
  const cookie = headers['set-cookie']?.find((one) => one.startsWith('__Host-static_device='))
  return cookie?.split(';')[0] ?? ''
}
