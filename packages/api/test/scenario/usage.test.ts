import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { openStore } from '../../src/index.ts'
import type { UsageStore } from '../../src/ports.ts'
import { KeyUsageBuffer } from '../../src/rules/key-usage.ts'
import { Usages } from '../../src/rules/usage.ts'
import { assertProblem, type Bench, onEachEngine, startBench } from '../support.ts'

const CREDENTIAL = 'the relay credential of this test'
const DAY = 24 * 3600_000

onEachEngine('usage and quota leases', (engine) => {
  let bench: Bench
  before(async () => {
    const quota = { free: 1050, test: 40 }
    const lease = { chunk: 100, seconds: 60 }
    bench = await startBench(engine, {
      internal: CREDENTIAL,
      settings: { quota, lease },
      now: Date.UTC(2027, 0, 20, 12),
    })
  })
  after(() => bench.close())

  const lend = (accountId: string, amount?: number, mode = 'live'): ReturnType<Bench['call']> =>
    bench.call('POST', '/internal/v1/quota/leases', { key: CREDENTIAL, body: { account_id: accountId, mode, amount } })
  const settle = (id: string, spent: number, final: boolean): ReturnType<Bench['call']> =>
    bench.call('POST', `/internal/v1/quota/leases/${id}/settle`, { key: CREDENTIAL, body: { spent, final } })
  const usage = async (key: string, query = ''): Promise<{ [name: string]: any }> =>
    (await bench.call('GET', `/v1/usage${query}`, { key })).body

  test('usage starts at zero and counts token exchanges', async () => {
    const { id, api_key: first } = await bench.signUp()
    await bench.call('POST', '/v1/tokens', { key: first.key })
    await bench.call('POST', '/v1/tokens', { key: first.key })
    const { daily, ...rest } = await usage(first.key)
    assert.deepEqual(rest, {
      account_id: id,
      plan: 'free',
      mode: 'live',
      period_start: '2027-01-01T00:00:00.000Z',
      period_end: '2027-02-01T00:00:00.000Z',
      resets_at: '2027-02-01T00:00:00.000Z',
      messages: { used: 0, reserved: 0, limit: 1050, remaining: 1050 },
      token_exchanges: 2,
    })
    assert.equal(daily.length, 30)
    assert.deepEqual([daily[0].date, daily[29].date], ['2026-12-22', '2027-01-20'])
    for (const query of ['?days=0', '?days=367', '?days=x', '?days=1.5', '?day=3']) {
      assertProblem(await bench.call('GET', `/v1/usage${query}`, { key: first.key }), 400, 'invalid_request')
    }
    assert.equal((await usage(first.key, '?days=366')).daily.length, 366)
  })

  test('token exchanges that are written while the usage is read count once', async () => {
    const { id: accountId, api_key: first } = await bench.signUp()
    const caller = { accountId, plan: 'free', mode: 'live', credential: { by: 'key', id: first.id } } as const
    const { leases, settings } = bench.api.service
    const now = (): number => bench.clock.now
    const store = await openStore(bench.database)
    const buffer = new KeyUsageBuffer(store.keys, store.usage, now)
    const overtaken: UsageStore = {
      ...store.usage,
      read: async (...query) => {
        const found = await store.usage.read(...query)
        await buffer.flush()
        return found
      },
    }
    buffer.recordExchange({ id: first.id, accountId, mode: 'live' })
    const usages = new Usages(overtaken, leases, buffer, settings.quota, now)
    assert.equal((await usages.read(caller, 1)).token_exchanges, 1)
    await store.close()
  })

  test('a lease reserves quota, a settlement records usage, and the rest is returned', async () => {
    const { id, api_key: first } = await bench.signUp()
    const { body: lease } = await lend(id)
    assert.equal(lease.granted, 100)
    assert.equal(lease.expires_at, new Date(bench.clock.now + 60_000).toISOString())
    assert.equal(lease.expires_in_ms, 60_000)
    assert.deepEqual((await usage(first.key)).messages, { used: 0, reserved: 100, limit: 1050, remaining: 950 })
    assert.deepEqual((await settle(lease.id, 30, false)).body.remaining, 70)
    assert.deepEqual((await usage(first.key)).messages, { used: 30, reserved: 70, limit: 1050, remaining: 950 })
    await settle(lease.id, 30, false)
    assert.equal((await usage(first.key)).messages.used, 30, 'a repeated settlement changes nothing')
    await settle(lease.id, 20, false)
    assert.equal((await usage(first.key)).messages.used, 30, 'an overtaken settlement changes nothing')
    assert.equal((await settle(lease.id, 45, true)).body.remaining, 0)
    await settle(lease.id, 45, true)
    const { messages, daily } = await usage(first.key)
    assert.deepEqual(messages, { used: 45, reserved: 0, limit: 1050, remaining: 1005 })
    assert.deepEqual(daily.at(-1), { date: '2027-01-20', messages: 45 })
    assertProblem(await settle(lease.id, 101, true), 400, 'invalid_request')
  })

  test('twenty concurrent borrowers never get more than the quota, and together get all of it', async () => {
    const { id, api_key: first } = await bench.signUp()
    let granted = 0
    for (let round = 0; round < 40 && granted < 1050; round++) {
      const answers = await Promise.all(Array.from({ length: 20 }, () => lend(id)))
      for (const { body } of answers) granted += body.granted
      assert.ok(granted <= 1050)
    }
    assert.equal(granted, 1050)
    const empty = (await lend(id)).body
    assert.deepEqual([empty.id, empty.granted, empty.outstanding], [null, 0, 1050])
    assert.equal((await usage(first.key)).messages.remaining, 0)
  })

  test('an unsettled lease counts as spent; a late settlement returns the rest', async () => {
    const { id, api_key: first } = await bench.signUp()
    const [one, two] = [(await lend(id)).body, (await lend(id)).body]
    await settle(one.id, 10, false)
    bench.clock.now += 61_000
    assert.deepEqual((await usage(first.key)).messages, { used: 200, reserved: 0, limit: 1050, remaining: 850 })
    const late = await settle(two.id, 40, false)
    assert.deepEqual([late.body.spent, late.body.remaining], [40, 0], 'an expired lease is over')
    assert.equal((await usage(first.key)).messages.used, 200, 'its holder may have spent more meanwhile')
    await settle(two.id, 55, true)
    const { messages, daily } = await usage(first.key)
    assert.equal(messages.used, 155)
    assert.equal(daily.at(-1).messages, 155)
    await settle(two.id, 55, true)
    assert.equal((await usage(first.key)).messages.used, 155)
    await settle(two.id, 60, true)
    assert.equal((await usage(first.key)).messages.used, 160, 'nothing that was spent is left out')
  })

  test('a renewed lease stays valid', async () => {
    const { id, api_key: first } = await bench.signUp()
    const { body: lease } = await lend(id)
    for (let i = 1; i <= 5; i++) {
      bench.clock.now += 50_000
      assert.equal((await settle(lease.id, i, false)).body.remaining, 100 - i)
    }
    assert.deepEqual((await usage(first.key)).messages, { used: 5, reserved: 95, limit: 1050, remaining: 950 })
  })

  test('a settlement says which keys have sent; repeats change nothing, and only keys of the account count', async () => {
    const [alice, bob] = [await bench.signUp(), await bench.signUp()]
    const [own, foreign] = [alice.api_key.id, bob.api_key.id]
    const { body: lease } = await lend(alice.id)
    const report = (spent: number, keys: object, final = false): ReturnType<Bench['call']> =>
      bench.call('POST', `/internal/v1/quota/leases/${lease.id}/settle`, {
        key: CREDENTIAL,
        body: { spent, final, keys },
      })
    const sent = async ({ api_key: key }: typeof alice): Promise<number> =>
      (await bench.call('GET', '/v1/keys', { key: key.key })).body.keys[0].messages
    assert.equal((await report(5, { [own]: 3 })).status, 200)
    assert.equal((await report(5, { [own]: 3 })).status, 200)
    assert.equal(await sent(alice), 3)
    assertProblem(await report(6, { [own]: 7 }), 400, 'invalid_request')
    assertProblem(await report(6, { nonsense: 1 }), 400, 'invalid_request')
    assert.equal((await report(9, { [own]: 6, [foreign]: 2 }, true)).status, 200)
    assert.equal((await report(5, { [own]: 3 })).status, 200, 'late')
    assert.deepEqual([await sent(alice), await sent(bob)], [6, 0])
    assert.equal((await usage(alice.api_key.key)).messages.used, 9)
  })

  test('test mode is counted separately', async () => {
    const { id, api_key: first } = await bench.signUp()
    const made = await bench.call('POST', '/v1/keys', { key: first.key, body: { mode: 'test' } })
    const { body: lease } = await lend(id, 100, 'test')
    assert.equal(lease.granted, 10, 'a quarter of what is left')
    await settle(lease.id, 10, true)
    const test = await usage(made.body.key)
    assert.deepEqual([test['mode'], test['messages'].used, test['messages'].limit], ['test', 10, 40])
    assert.equal((await usage(first.key))['messages'].used, 0)
  })

  test('a plan without a limit always lends', async () => {
    const { Admin, openStore } = await import('../../src/index.ts')
    const { id, api_key: first } = await bench.signUp()
    const store = await openStore(bench.database)
    await new Admin(store).setPlan(id, 'enterprise')
    await store.close()
    for (let i = 0; i < 15; i++) assert.equal((await lend(id)).body.granted, 100)
    const { messages } = await usage(first.key)
    assert.deepEqual([messages.limit, messages.remaining], [null, null])
  })

  test('a blocked account: settling returns nothing, and relays learn of it; what was spent counts', async (t) => {
    const { Admin, openStore } = await import('../../src/index.ts')
    const store = await openStore(bench.database)
    t.after(() => store.close())
    const admin = new Admin(store)
    const [bad, good] = [await bench.signUp(), await bench.signUp()]
    const blocked = async (...ids: string[]): Promise<unknown> =>
      (await bench.call('POST', '/internal/v1/accounts/blocked', { key: CREDENTIAL, body: { account_ids: ids } })).body
    assert.deepEqual(await blocked(bad.id, good.id), { suspended: [], unknown: [] })
    const { body: lease } = await lend(bad.id)
    await admin.setSuspended(bad.id, true)
    const settled = (await settle(lease.id, 10, false)).body
    assert.deepEqual([settled.spent, settled.remaining, settled.expires_in_ms], [10, 0, 0])
    assert.equal(settled.expires_at, lease.expires_at, 'not renewed')
    await settle(lease.id, 12, true)
    assertProblem(await lend(bad.id), 403, 'account_suspended')
    const unknown = '01a1dd29-fb99-77d8-bc4c-7c01980aa2e4'
    assert.deepEqual(await blocked(bad.id, good.id, unknown), { suspended: [bad.id], unknown: [unknown] })
    for (const none of ['nonsense', '\0', '']) {
      const nonsense = { account_ids: [good.id, none] }
      const answer = await bench.call('POST', '/internal/v1/accounts/blocked', { key: CREDENTIAL, body: nonsense })
      assertProblem(answer, 400, 'invalid_request')
    }
    await admin.setSuspended(bad.id, false)
    assert.deepEqual((await usage(bad.api_key.key))['messages'].used, 12)
    await admin.close(good.id)
    assert.deepEqual(await blocked(bad.id, good.id), { suspended: [], unknown: [good.id] })
    assert.deepEqual(await blocked(), { suspended: [], unknown: [] })
    const body = { account_ids: [] }
    assertProblem(await bench.call('POST', '/internal/v1/accounts/blocked', { body }), 401, 'auth_failed')
    const tooMany = { account_ids: Array.from({ length: 257 }, () => unknown) }
    const refused = await bench.call('POST', '/internal/v1/accounts/blocked', { key: CREDENTIAL, body: tooMany })
    assertProblem(refused, 400, 'invalid_request')
  })

  test('the API tells its operator that the clock of a relay is wrong, once a minute', async () => {
    const ask = (offMs: number): ReturnType<Bench['call']> =>
      bench.call('POST', '/internal/v1/accounts/blocked', {
        key: CREDENTIAL,
        body: { account_ids: [] },
        headers: { date: new Date(bench.clock.now + offMs).toUTCString() },
      })
    const told = (): string[] => bench.lines.filter((line) => line.includes('clock of a relay node'))
    await ask(1000)
    assert.deepEqual(told(), [])
    await ask(42_000)
    await ask(42_000)
    assert.equal(told().length, 1)
    assert.match(told()[0] ?? '', /the clock of a relay node is 4[23] s ahead of this machine's/)
    bench.clock.now += 60_001
    await ask(-42_000)
    assert.match(told()[1] ?? '', /4[12] s behind/)
  })

  test('leases need the relay credential, a real account and sane numbers', async () => {
    const { id, api_key: first } = await bench.signUp()
    const path = '/internal/v1/quota/leases'
    const body = { account_id: id, mode: 'live' }
    assertProblem(await bench.call('POST', path, { body }), 401, 'auth_failed')
    assertProblem(await bench.call('POST', path, { body, key: first.key }), 401, 'auth_key_invalid')
    assertProblem(await bench.call('POST', path, { body, key: `${CREDENTIAL}x` }), 401, 'auth_key_invalid')
    assertProblem(await lend('01a1dd29-fb99-77d8-bc4c-7c01980aa2e4'), 404, 'not_found')
    assertProblem(await lend('nonsense'), 404, 'not_found')
    assertProblem(await lend(id, 0), 400, 'invalid_request')
    assertProblem(await lend(id, 1, 'both'), 400, 'invalid_request')
    assertProblem(await settle('01a1dd29-fb99-77d8-bc4c-7c01980aa2e4', 1, true), 404, 'not_found')
    assertProblem(await settle('nonsense', 1, true), 404, 'not_found')
    const { body: lease } = await lend(id)
    assertProblem(await settle(lease.id, -1, true), 400, 'invalid_request')
    const open = await bench.call('POST', path.replace('/internal', ''), { body, key: CREDENTIAL })
    assertProblem(open, 404, 'not_found')
  })

  test('the month rolls over: a lease never crosses it, and a late settlement goes to its own month', async () => {
    const { id, api_key: first } = await bench.signUp()
    bench.clock.now = Date.UTC(2027, 0, 31, 23, 59, 30)
    const { body: lease } = await lend(id)
    assert.equal(lease.expires_at, '2027-02-01T00:00:00.000Z')
    assert.equal(lease.period_end, '2027-02-01T00:00:00.000Z')
    bench.clock.now = Date.UTC(2027, 1, 1, 0, 0, 5)
    assert.equal((await settle(lease.id, 50, false)).body.remaining, 0, 'over with the month')
    await settle(lease.id, 60, true)
    const february = await usage(first.key, '?days=2')
    assert.deepEqual([february['period_start'], february['messages'].used], ['2027-02-01T00:00:00.000Z', 0])
    assert.deepEqual(february['daily'], [
      { date: '2027-01-31', messages: 60 },
      { date: '2027-02-01', messages: 0 },
    ])
    const { body: forgotten } = await lend(id)
    assert.equal(forgotten.granted, 100)
    bench.clock.now += 40 * DAY
    await bench.api.service.cleanUp()
    const [row] = await bench.query(`select state from leases where id = '${forgotten.id}'`)
    assert.equal(row, undefined, 'a lease of a holder that never came back is booked and then deleted')
    bench.clock.now = Date.UTC(2027, 1, 20)
    assert.deepEqual((await usage(first.key))['messages'], { used: 100, reserved: 0, limit: 1050, remaining: 950 })
    bench.clock.now = Date.UTC(2027, 0, 31)
    assert.equal((await usage(first.key))['messages'].used, 60)
  })
})
