import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertProblem, type Answer, type Bench, cookieOf, startBench } from '../support.ts'

const CREDENTIAL = 'c'.repeat(64)
const agent = 'a'.repeat(64)
let bench: Bench
before(async () => {
  bench = await startBench('sqlite', { internal: CREDENTIAL })
})
after(() => bench.close())

async function signedIn(): Promise<{ id: string; cookie: string; key: string }> {
  const { id, email, password, api_key: first } = await bench.signUp()
  const answer = await bench.call('POST', '/v1/sessions', { body: { email, password } })
  return { id, cookie: cookieOf(answer), key: first.key }
}

const times = <Value>(count: number, value: Value): Value[] => Array.from({ length: count }, () => value)
const look = async (cookie: string): Promise<any[]> => {
  const { status, body } = await bench.call('GET', '/v1/channels', { cookie })
  assert.equal(status, 200, JSON.stringify(body))
  return body.relays
}
const watched = async (relay = 'f00d'): Promise<string[]> =>
  (await bench.call('POST', '/internal/v1/overviews/watched', { key: CREDENTIAL, body: { relay_id: relay } })).body
    .account_ids
const overview = (fields: object = {}): object => ({
  relay_id: 'f00d',
  relay: 'relay.example.com',
  since: '2031-01-01T00:00:00.000Z',
  total_channels: 1,
  channels: [
    {
      id: '0'.repeat(32),
      name: 'acme/x/y',
      mode: 'live',
      owner: agent,
      created_at: '2031-01-01T00:00:00.000Z',
      last_at: '2031-01-02T00:00:00.000Z',
      members: 2,
      waiting_bytes: 1234,
      behind: [{ agent, waiting: 3 }],
    },
  ],
  agents: [{ id: agent, mode: 'live', name: 'alice', connected: true, last_seen_at: '2031-01-01T00:00:00.000Z' }],
  ...fields,
})
const report = (account: string, fields: object = {}, key = CREDENTIAL): Promise<Answer> =>
  bench.call('POST', '/internal/v1/overviews', { key, body: { account_id: account, ...overview(fields) } })

test('a relay reports an account while its owner looks, and nobody else sees it', async () => {
  const [alice, bob] = [await signedIn(), await signedIn()]
  assert.deepEqual((await report(alice.id)).body, { kept: false }, 'nobody looks')
  assert.deepEqual(await look(alice.cookie), [])
  assert.deepEqual(await watched(), [alice.id])
  assert.deepEqual((await report(alice.id)).body, { kept: true })
  assert.deepEqual(await watched(), [], 'it is fresh')
  assert.deepEqual(await watched('beef'), [alice.id], 'another relay is asked, too')
  const [seen] = await look(alice.cookie)
  assert.deepEqual(seen, { ...overview(), reported_at: new Date(bench.clock.now).toISOString() })
  assert.deepEqual(await look(bob.cookie), [])
  assert.deepEqual((await report(alice.id, { total_channels: 9 })).body, { kept: false }, 'too early')
  bench.clock.now += 4000
  assert.deepEqual(await watched(), [bob.id, alice.id], 'the oldest report first')
  assert.deepEqual((await report(alice.id, { total_channels: 9 })).body, { kept: true })
  assert.equal((await look(alice.cookie))[0].total_channels, 9)
})

test('a report that is not refreshed is dropped, and so is one that no one reads', async () => {
  const { id, cookie } = await signedIn()
  await look(cookie)
  await report(id)
  bench.clock.now += 30_001
  assert.deepEqual(await watched(), [])
  assert.deepEqual(bench.api.service.overviews.size, { accounts: 0, bytes: 0 })
  await look(cookie)
  await report(id)
  bench.clock.now += 20_000
  assert.equal((await look(cookie)).length, 1)
  bench.clock.now += 20_000
  assert.equal((await look(cookie)).length, 0, 'the relay is silent')
  assert.deepEqual(bench.api.service.overviews.size, { accounts: 1, bytes: 0 })
})

test('the nodes of a relay report the same channels, and each its own agents', async () => {
  const { id, cookie } = await signedIn()
  await look(cookie)
  const ofAgent = (name: string, connected: boolean, second: number): object => {
    const last_seen_at = `2031-01-01T00:00:0${second}.000Z`
    return { id: name.repeat(64), mode: 'live', name, connected, last_seen_at }
  }
  assert.deepEqual((await report(id, { node: 'aa', agents: [ofAgent('a', true, 1), ofAgent('b', false, 9)] })).body, {
    kept: true,
  })
  const asked = await bench.call('POST', '/internal/v1/overviews/watched', {
    key: CREDENTIAL,
    body: { relay_id: 'f00d', node: 'bb' },
  })
  assert.ok(asked.body.account_ids.includes(id), 'the other node has not reported')
  bench.clock.now += 1
  const later = { node: 'bb', total_channels: 2, agents: [ofAgent('b', true, 3), ofAgent('c', false, 4)] }
  assert.deepEqual((await report(id, later)).body, { kept: true })
  const relays = await look(cookie)
  assert.equal(relays.length, 1)
  assert.equal(relays[0].total_channels, 2, 'of the newer report')
  const connected = relays[0].agents.map((one: any) => [one.name, one.connected]).sort()
  assert.deepEqual(connected, [
    ['a', true],
    ['b', true],
    ['c', false],
  ])
})

test('an API key does not show channels, and a stranger cannot report any', async () => {
  const { id, key, cookie } = await signedIn()
  assertProblem(await bench.call('GET', '/v1/channels', { key }), 401, 'auth_failed')
  assertProblem(await bench.call('GET', '/v1/channels'), 401, 'auth_failed')
  await look(cookie)
  assertProblem(await report(id, {}, 'wrong'), 401, 'auth_key_invalid')
  const body = { relay_id: 'f00d' }
  assertProblem(await bench.call('POST', '/internal/v1/overviews/watched', { body }), 401, 'auth_failed')
  const { url, internalUrl } = bench.api
  assert.ok(internalUrl !== undefined && internalUrl !== url)
})

test('a hostile relay cannot fill the memory', async () => {
  const { id, cookie } = await signedIn()
  await look(cookie)
  const at = '2031-01-01T00:00:00.000Z'
  const channel = { id: '0'.repeat(32), name: 'n'.repeat(191), mode: 'live', owner: agent, members: 1 }
  const full = { ...channel, created_at: at, last_at: at, waiting_bytes: 0, behind: [] }
  assertProblem(await report(id, { channels: times(201, full) }), 400, 'invalid_request')
  assertProblem(await report(id, { channels: [{ ...full, name: 'n'.repeat(192) }] }), 400, 'invalid_request')
  assertProblem(await report(id, { channels: [{ ...full, content: 'x' }] }), 400, 'invalid_request')
  const crowd = times(20, { agent, waiting: 0 })
  assertProblem(await report(id, { channels: times(200, { ...full, behind: crowd }) }), 413, 'body_too_large')
  for (let n = 0; n < 40; n++) await report(id, { relay_id: n.toString(16), channels: [full] })
  assert.equal((await look(cookie)).length, 32)

  const { overviews } = bench.api.service
  const caller = (accountId: string): any => ({ accountId, mode: 'live' })
  for (let n = 0; n < 1100; n++) overviews.look(caller(`account ${n}`))
  assert.deepEqual(overviews.size, { accounts: 1000, bytes: 0 })
  const large: any = overview({ channels: times(200, full) })
  for (let n = 100; n < 1100; n++) overviews.report(`account ${n}`, large)
  const { bytes } = overviews.size
  assert.ok(bytes > 30 * 1024 * 1024 && bytes <= 32 * 1024 * 1024, String(bytes))
  assert.equal(overviews.look(caller('account 1099')).relays.length, 1, 'the last ones stay')
})

test('a session sees channels of both modes', async () => {
  const { id, cookie } = await signedIn()
  await look(cookie)
  await report(id, {
    agents: [{ id: agent, mode: 'test', name: null, connected: false, last_seen_at: '2031-01-01T00:00:00Z' }],
  })
  assert.equal((await look(cookie))[0].agents.length, 1)
})
