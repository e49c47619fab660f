/** What the relay reports of an account while its owner looks: its channels, its agents, and nobody else's. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { type RelayOverview, toHex } from '@static/protocol'
import { Agent } from '@static/testkit/agent'
import { overviewReporter } from '../../src/api/overview-reporter.ts'
import type { Poller } from '../../src/api/poller.ts'
import { Presence } from '../../src/core/accounts/presence.ts'
import { makeKeyPackage } from '../support/key-package.ts'
import { type MemoryRelay, openMemoryRelay } from '../support/memory-relay.ts'

const SINCE = '2027-01-15T12:00:00.000Z'

interface Scene {
  readonly world: MemoryRelay
  readonly watched: Set<string>
  readonly reports: Map<string, RelayOverview>
  readonly reporter: Poller<string>
}

async function scene(t: test.TestContext): Promise<Scene> {
  const world = await openMemoryRelay(t)
  const watched = new Set<string>()
  const reports = new Map<string, RelayOverview>()
  const reporter = overviewReporter({
    sink: {
      watched: () => Promise.resolve([...watched]),
      report: async (account, overview) => reports.set(account, overview),
    },
    store: world.store,
    agentsOf: (account, limit) => world.driver.agentsOf(account, limit),
    relay: { id: 'f00d', name: 'relay.test', since: SINCE },
    onError: (error) => world.errors.push(error),
  })
  return { world, watched, reports, reporter }
}

test('the owner of an account sees its channels and agents, and nothing of other accounts', async (t) => {
  const { world, watched, reports, reporter } = await scene(t)
  const enter = (account: string): Promise<Agent> =>
    Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token(account) })
  const [alice, bob] = [await enter('acme'), await enter('other')]
  await alice.createChannel('acme/x/y')
  await bob.createChannel('other/x/y')
  const now = Math.floor(world.now() / 1000)
  const keyPackage = makeKeyPackage(alice.key.publicKey, {
    notBefore: now - 60,
    notAfter: now + 86_400,
    identity: `al\u202eice\n${'x'.repeat(200)}`,
  })
  await alice.request('uploadKeyPackage', { keyPackages: [keyPackage] })
  await reporter.round()
  assert.equal(reports.size, 0, 'nobody is looking')

  watched.add('acme')
  await reporter.round()
  assert.deepEqual([...reports.keys()], ['acme'])
  const report = reports.get('acme')
  assert.deepEqual(
    [report?.relay_id, report?.relay, report?.since, report?.total_channels],
    ['f00d', 'relay.test', SINCE, 1],
  )
  assert.deepEqual(
    report?.channels.map(({ name, members, owner }) => [name, members, owner]),
    [['acme/x/y', 1, toHex(alice.id)]],
  )
  const [agent, ...others] = report?.agents ?? []
  assert.deepEqual([agent?.id, agent?.connected, others], [toHex(alice.id), true, []])
  assert.match(agent?.name ?? '', /^alicex{59}$/, 'printable, and 64 characters')
  assert.ok(!JSON.stringify(report).includes(toHex(bob.id)))

  alice.close()
  await world.advance(60_000)
  await reporter.round()
  const [gone] = reports.get('acme')?.agents ?? []
  assert.equal(gone?.connected, false)
  assert.equal(gone?.last_seen_at, new Date(world.now() - 60_000).toISOString())
})

test('many channels are read a few at a time, so that other requests do not wait for all of them', async (t) => {
  const { world, watched, reports, reporter } = await scene(t)
  const alice = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  for (let n = 0; n < 25; n++) await alice.createChannel(`acme/x/c${n}`)
  watched.add('acme')
  const asked: number[] = []
  const { store } = world
  const run = store.run.bind(store)
  store.run = (name, request) => {
    if (name === 'owned' && 'maxChannels' in request) asked.push(request.maxChannels)
    return run(name, request)
  }
  await reporter.round()
  assert.deepEqual(asked, [10, 10, 10])
  const { channels = [], total_channels: total } = reports.get('acme') ?? {}
  assert.deepEqual([total, new Set(channels.map(({ name }) => name)).size], [25, 25])
})

test('an API that is down or asks for too much stops nothing', async (t) => {
  const { world, watched, reports, reporter } = await scene(t)
  for (let n = 0; n < 100; n++) watched.add(`account ${n}`)
  await reporter.round()
  assert.equal(reports.size, 32)
  world.store.run = () => Promise.reject(new Error('no disk'))
  await reporter.round()
  assert.equal(String(world.errors.splice(0)), 'Error: no disk')
})

test('an account whose report fails does not keep back the others', async (t) => {
  const { world, watched, reports, reporter } = await scene(t)
  for (const account of ['bad', 'good']) watched.add(account)
  const { store } = world
  const run = store.run.bind(store)
  store.run = ((name: 'owned', request: { account: string }) =>
    request.account === 'bad'
      ? Promise.reject(new Error('a damaged row'))
      : run(name, request as never)) as typeof store.run
  await reporter.round()
  assert.deepEqual([...reports.keys()], ['good'])
  assert.equal(String(world.errors.splice(0)), 'Error: a damaged row')
})

test('the relay remembers a bounded number of agents of each account, and in all', () => {
  const presence = new Presence()
  const agent = (n: number): string => String(n).padStart(6, '0')
  for (let n = 0; n < 300; n++) presence.saw(agent(n), { id: 'busy', mode: 'live' }, n * 5000)
  assert.equal(presence.of('busy').length, 200)
  assert.equal(presence.of('busy')[0]?.agent, agent(299))
  presence.saw(agent(150), { id: 'busy', mode: 'live' }, 2_000_000)
  assert.equal(presence.of('busy')[0]?.agent, agent(150), 'the last one seen first')
  for (let n = 0; n < 10_000; n++) presence.saw(agent(n), { id: `account ${n}`, mode: 'live' }, 3_000_000)
  assert.equal(presence.of('busy').length, 0)
  assert.equal(presence.of('account 0').length, 1)
  presence.saw(agent(0), { id: 'one more', mode: 'live' }, 3_000_000)
  assert.equal(presence.of('account 0').length, 0)
})
