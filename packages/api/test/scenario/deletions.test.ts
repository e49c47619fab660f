/** Channels that people have deleted without an agent: queued here, carried out by relays. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Admin, openStore } from '../../src/index.ts'
import { openRaw } from '../damaged-value.ts'
import { type Answer, assertProblem, type Bench, cookieOf, onEachEngine, startBench } from '../support.ts'

const CREDENTIAL = 'c'.repeat(64)
const NAME = 'acme/support/routing'
const CHANNEL = 'ab'.repeat(16)
const DAY = 24 * 3600_000

onEachEngine('deletions', (engine) => {
  let bench: Bench
  before(async () => {
    bench = await startBench(engine, { internal: CREDENTIAL })
  })
  after(() => bench.close())

  const signedIn = async (): Promise<{ id: string; cookie: string; key: string }> => {
    const { id, email, password, api_key: first } = await bench.signUp()
    const answer = await bench.call('POST', '/v1/sessions', { body: { email, password } })
    return { id, cookie: cookieOf(answer), key: first.key }
  }
  const ask = (cookie: string, body: object = { name: NAME, mode: 'live', channel_id: CHANNEL }): Promise<Answer> =>
    bench.call('POST', '/v1/channels/deletions', { cookie, body })
  const pending = async (relay = 'f00d'): Promise<any[]> => {
    const body = { relay_id: relay }
    return (await bench.call('POST', '/internal/v1/channels/deletions', { key: CREDENTIAL, body })).body.deletions
  }
  const report = (id: string, deleted: boolean, relay = 'f00d'): Promise<Answer> =>
    bench.call('POST', `/internal/v1/channels/deletions/${id}`, {
      key: CREDENTIAL,
      body: { relay_id: relay, deleted },
    })
  const eventsOf = async (key: string): Promise<string[]> => {
    const { body } = await bench.call('GET', '/v1/audit', { key })
    return body.events
      .filter(({ channel }: any) => channel !== null)
      .map(({ actor, event, channel }: any) => `${actor} ${event} ${channel}`)
  }

  test('a request reaches every relay until one has deleted the channel, and the log has both', async () => {
    const { id: account, cookie, key } = await signedIn()
    const { status, body } = await ask(cookie)
    assert.equal(status, 202)
    const asked = { id: body.id, name: NAME, mode: 'live', channel_id: CHANNEL }
    assert.deepEqual(body, { ...asked, expires_at: new Date(bench.clock.now + DAY).toISOString() })
    const requested = new Date(bench.clock.now).toISOString()
    assert.deepEqual(await pending(), [{ ...asked, account_id: account, requested_at: requested }])
    for (let times = 0; times < 2; times++) assert.equal((await report(body.id, false)).status, 200)
    assert.deepEqual(await pending(), [], 'this relay has answered')
    assert.equal((await pending('beef')).length, 1, 'another one has not')
    bench.clock.now++
    await report(body.id, true, 'beef')
    await report(body.id, true, 'beef')
    assert.deepEqual(await pending('cafe'), [])
    const told = [`system channel_deleted ${NAME}`, `user channel_deletion_requested ${NAME}`]
    assert.deepEqual(await eventsOf(key), told, 'once')
  })

  test('the operator requests it too, by name, even of a closed account', async () => {
    const store = await openStore(bench.database)
    const admin = new Admin(store, () => bench.clock.now)
    try {
      const { id, key } = await signedIn()
      const target = { name: NAME, mode: 'test', channelId: null } as const
      await admin.deleteChannel(id, target)
      assert.deepEqual(await eventsOf(key), [`admin channel_deletion_requested ${NAME}`])
      await admin.close(id)
      const again = await admin.deleteChannel(id, target)
      const [only, ...others] = await pending()
      assert.deepEqual(
        [only.id, only.mode, only.channel_id, others.length],
        [again.id, 'test', null, 0],
        'the newer one',
      )
      await report(again.id, true)
      const unknown = admin.deleteChannel('01a1dd29-fb99-77d8-bc4c-7c01980aa2e4', target)
      await assert.rejects(unknown, { code: 'not_found' })
      await assert.rejects(admin.deleteChannel(id, { ...target, name: 'acme' }), { code: 'invalid_request' })
    } finally {
      await store.close()
    }
  })

  test('a request that no relay has carried out within a day is dropped, and an account has at most 100 pending', async () => {
    const { cookie } = await signedIn()
    for (let at = 0; at < 100; at++)
      assert.equal((await ask(cookie, { name: `acme/a/${at}`, mode: 'live' })).status, 202)
    assertProblem(await ask(cookie), 429, 'rate_limited')
    assert.equal((await ask(cookie, { name: 'acme/a/7', mode: 'live' })).status, 202, 'in place of the earlier one')
    assert.equal((await pending()).length, 64, 'a bounded answer')
    bench.clock.now += DAY
    assert.deepEqual(await pending(), [])
    const other = await signedIn()
    await ask(other.cookie)
    await bench.api.service.cleanUp()
    assert.equal((await bench.query('select * from channel_deletions')).length, 1)
    const [{ id }] = (await pending()) as [{ id: string }]
    await report(id, true)
  })

  test('only a person who has signed in may ask, and only with a name and a mode', async () => {
    const { cookie, key } = await signedIn()
    const body = { name: NAME, mode: 'live' }
    assertProblem(await bench.call('POST', '/v1/channels/deletions', { body }), 401, 'auth_failed')
    assertProblem(await bench.call('POST', '/v1/channels/deletions', { key, body }), 401, 'auth_failed')
    for (const wrong of [
      { ...body, name: 'acme' },
      { ...body, name: 7 },
      { ...body, mode: 'both' },
      { ...body, channel_id: 'ab' },
      { ...body, account_id: 'x' },
      { name: NAME },
    ]) {
      assertProblem(await ask(cookie, wrong), 400, 'invalid_request')
    }
    const path = '/internal/v1/channels/deletions'
    assertProblem(await bench.call('POST', path, { body: { relay_id: 'f00d' } }), 401, 'auth_failed')
    assertProblem(await bench.call('POST', path, { key: CREDENTIAL, body: { relay_id: '%' } }), 400, 'invalid_request')
    assertProblem(await report('nonsense', true), 404, 'not_found')
    assert.deepEqual(await pending(), [])
  })

  test('a request with a flipped bit is not carried out, and others are', async () => {
    const [damaged, sound, third] = [await signedIn(), await signedIn(), await signedIn()]
    await ask(damaged.cookie)
    await ask(sound.cookie)
    const raw = await openRaw(bench.database)
    try {
      const row = (await raw.rows('channel_deletions')).find(({ account_id: of }) => of === damaged.id)
      await raw.set('channel_deletions', row?.['checksum'], 'account_id', third.id)
    } finally {
      await raw.close()
    }
    assert.deepEqual(
      (await pending()).map(({ account_id: of }) => of),
      [sound.id],
    )
  })
})
