import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import type { AuditedEvent } from '@static/protocol'
import { Admin, openStore } from '../../src/index.ts'
import type { AuditStore, Store } from '../../src/ports.ts'
import { Audit } from '../../src/rules/audit.ts'
import { assertProblem, type Bench, cookieOf, onSomeEngine, startBench } from '../support.ts'

const HOUR = 3600_000
const DAY = 24 * HOUR

onSomeEngine('audit log', (engine) => {
  let bench: Bench
  let store: Store
  let admin: Admin
  before(async () => {
    bench = await startBench(engine)
    store = await openStore(bench.database)
    admin = new Admin(store, () => bench.clock.now)
  })
  after(async () => {
    await store.close()
    await bench.close()
  })

  const eventsOf = async (key: string, query = ''): Promise<AuditedEvent[]> => {
    const { status, body } = await bench.call('GET', `/v1/audit${query}`, { key })
    assert.equal(status, 200)
    return body.events
  }
  const told = (events: readonly AuditedEvent[]): string[] =>
    events.map(({ actor, event, count }) => `${actor} ${event}${count === 1 ? '' : ` ${count}`}`).toReversed()

  test('everything that happens to an account is listed, in order, with who did it', async () => {
    const { id, email, password, api_key: first } = await bench.signUp()
    const { key } = first
    bench.clock.now++
    const cookie = cookieOf(await bench.call('POST', '/v1/sessions', { body: { email, password } }))
    bench.clock.now++
    for (let tries = 0; tries < 3; tries++) {
      await bench.call('POST', '/v1/sessions', { body: { email, password: 'not the password' } })
    }
    // The buffer of failures is written before the log is read.
    await eventsOf(key)
    bench.clock.now++
    const made = await bench.call('POST', '/v1/keys', { cookie })
    bench.clock.now++
    await bench.call('DELETE', `/v1/keys/${made.body.id}`, { cookie })
    bench.clock.now++
    await bench.call('DELETE', '/v1/sessions/current', { cookie })
    bench.clock.now++
    const body = { current_password: password, new_password: 'another password' }
    await bench.call('PUT', `/v1/accounts/${id}/password`, { body })
    bench.clock.now++
    await admin.setPlan(id, 'team')
    bench.clock.now++
    await admin.setSuspended(id, true)
    bench.clock.now++
    await admin.setSuspended(id, false)
    bench.clock.now++
    const { token } = await admin.passwordLink(id, 24)
    bench.clock.now++
    await bench.call('POST', '/v1/passwords', { body: { token, new_password: 'a third password' } })
    const events = await eventsOf(key)
    assert.deepEqual(told(events), [
      'user account_created',
      'user key_created',
      'user sign_in',
      'user sign_in_failed 3',
      'user key_created',
      'user key_revoked',
      'user session_ended',
      'user password_changed',
      'admin plan_changed',
      'admin account_suspended',
      'admin account_resumed',
      'admin password_link_created',
      'user password_set',
    ])
    assert.deepEqual(
      events.filter(({ key_id: keyId }) => keyId !== null).map(({ key_id: keyId }) => keyId),
      [made.body.id, made.body.id, first.id],
    )
    assert.deepEqual(
      events.filter(({ plan }) => plan !== null).map(({ event, plan }) => [event, plan]),
      [['plan_changed', 'team']],
    )
    assert.ok(events.every((event) => event.account_id === id && event.address === null))
    assert.deepEqual((await admin.audit(id, undefined, 100)).events, events)
  })

  test('pages follow each other; only a live caller reads its own', async () => {
    const { api_key: first } = await bench.signUp()
    for (let keys = 0; keys < 7; keys++) await bench.call('POST', '/v1/keys', { key: first.key })
    const all = await eventsOf(first.key)
    assert.equal(all.length, 9)
    const page = async (query: string): Promise<{ events: AuditedEvent[]; next: string | null }> =>
      (await bench.call('GET', `/v1/audit?limit=4${query}`, { key: first.key })).body
    assert.deepEqual(await page(''), { events: all.slice(0, 4), next: all[3]?.id })
    assert.deepEqual(await page(`&before=${all[3]?.id}`), { events: all.slice(4, 8), next: all[7]?.id })
    assert.deepEqual(await page(`&before=${all[7]?.id}`), { events: all.slice(8), next: null })
    assertProblem(await bench.call('GET', '/v1/audit?before=x', { key: first.key }), 400, 'invalid_request')
    assertProblem(await bench.call('GET', '/v1/audit?limit=201', { key: first.key }), 400, 'invalid_request')
    const { body: trial } = await bench.call('POST', '/v1/keys', { key: first.key, body: { mode: 'test' } })
    assertProblem(await bench.call('GET', '/v1/audit', { key: trial.key }), 403, 'mode_mismatch')
    assertProblem(await bench.call('GET', '/v1/audit'), 401, 'auth_failed')
  })

  test('failed sign-ins of an hour share an entry, across nodes; an unknown address leaves none', async () => {
    const { email, api_key: first } = await bench.signUp()
    const fail = async (): Promise<void> => {
      await bench.call('POST', '/v1/sessions', { body: { email, password: 'not the password' } })
      await bench.call('POST', '/v1/sessions', { body: { email: 'no-one@example.com', password: 'wrong' } })
      await bench.api.service.audit.flush()
    }
    const failures = async (): Promise<number[]> =>
      (await eventsOf(first.key)).filter(({ event }) => event === 'sign_in_failed').map(({ count }) => count)
    await fail()
    bench.clock.now += HOUR - 1
    await fail()
    assert.deepEqual(await failures(), [2])
    bench.clock.now += 1
    await fail()
    assert.deepEqual(await failures(), [1, 2])
    const other = { accountId: '01a1dd29-fb99-77d8-bc4c-7c01980aa2e4', at: 1, actor: 'user', event: 'sign_in' } as const
    await store.audit.add([other])
    assert.deepEqual(await store.audit.list(other.accountId, undefined, 10), [])
  })

  test('reading the log while failed sign-ins are being written shows them', async () => {
    const { id } = await bench.signUp()
    const caller = { accountId: id, plan: 'free', mode: 'live', credential: { by: 'key', id } } as const
    const { promise: hold, resolve: release } = Promise.withResolvers<void>()
    const held: AuditStore = {
      add: async (entries) => {
        await hold
        await store.audit.add(entries)
      },
      list: (...query) => store.audit.list(...query),
    }
    const audit = new Audit(held, false, () => bench.clock.now)
    bench.clock.now++
    audit.failed(id, { address: '127.0.0.1', rates: [] })
    const flushed = audit.flush()
    const read = audit.own(caller, undefined, 1)
    // The read has come as far as it can.
    await setImmediate()
    release()
    assert.deepEqual(told((await read).events), ['user sign_in_failed'])
    await flushed
  })

  test('many events of one kind push out only the oldest of that kind, and nothing stays longer than 90 days', async () => {
    const { id, api_key: first } = await bench.signUp()
    const flood = Array.from({ length: 250 }, (_, n) => ({
      accountId: id,
      at: bench.clock.now + n + 1,
      actor: 'user' as const,
      event: 'key_revoked' as const,
      keyId: String(n),
    }))
    await store.audit.add(flood)
    const events = (await admin.audit(id, undefined, 1000)).events
    assert.equal(events.length, 202)
    assert.deepEqual(told(events).slice(0, 2), ['user account_created', 'user key_created'])
    assert.equal(events[0]?.key_id, '249')
    assert.equal(events[199]?.key_id, '50')
    bench.clock.now += 90 * DAY
    await bench.api.service.cleanUp()
    assert.equal((await admin.audit(id, undefined, 1000)).events.length, 202)
    bench.clock.now += 250
    await bench.api.service.cleanUp()
    assert.deepEqual(told(await eventsOf(first.key)), ['user key_revoked'])
    bench.clock.now += 1
    await bench.api.service.cleanUp()
    assert.deepEqual(await eventsOf(first.key), [])
  })

  test('sessions that expire are ended by the system', async () => {
    const { email, password, api_key: first } = await bench.signUp()
    bench.clock.now++
    for (let n = 0; n < 3; n++) await bench.call('POST', '/v1/sessions', { body: { email, password } })
    bench.clock.now += 13 * HOUR
    await bench.api.service.cleanUp()
    await bench.api.service.cleanUp()
    assert.deepEqual(told(await eventsOf(first.key)).slice(2), ['user sign_in 3', 'system session_ended 3'])
  })

  test('addresses are recorded only if the operator says so, and are erased with the account', async (t) => {
    const open = await startBench(engine, { auditAddresses: true })
    t.after(() => open.close())
    const { id, password, api_key: first } = await open.signUp()
    const { body } = await open.call('GET', '/v1/audit', { key: first.key })
    assert.match(body.events[0].address, /^(127\.0\.0\.1|::1|0:0:0:0)/)
    open.clock.now++
    await open.call('DELETE', `/v1/accounts/${id}`, { body: { password } })
    const rows = await open.query('select event, address from audit order by id')
    assert.equal(rows.at(-1)?.['event'], 'account_closed')
    assert.ok(rows.every(({ address }) => address === null))
  })
})
