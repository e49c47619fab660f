/** How much work a full channel makes: refused messages are free, so the search for room must be cheap. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryRows } from '@static/testkit/store/relay-memory-rows'
import type { Store } from '../../src/ports.ts'
import { Ledger } from '../../src/store/ledger/ledger.ts'
import { ChannelFixture, RETENTION, accepted, account, refused, sha256 } from './channel-fixture.ts'

const SMALL = { ciphertext: new Uint8Array(1) }
const LARGE = { ciphertext: new Uint8Array(20_000) }
const SMALL_BYTES = 201
const MAX_VISITED = 4096

function counting(channelBytes: number): { world: ChannelFixture; visits: () => number } {
  const rows = new MemoryRows()
  let visited = 0
  const weights = rows.log.weights.bind(rows.log)
  rows.log.weights = function* (...args) {
    for (const weight of weights(...args)) {
      visited += 1
      yield weight
    }
  }
  const ledger = new Ledger(rows, sha256, { ...RETENTION, channelBytes })
  const store: Store = {
    deployment: { relayId: new Uint8Array(16), tokenKey: new Uint8Array(32) },
    run: (name, request) => Promise.resolve().then(() => ledger.run(name, request).result),
    healthy: () => true,
    durability: () => 'memory',
    close: () => Promise.resolve(),
  }
  const visits = (): number => {
    const before = visited
    visited = 0
    return before
  }
  return { world: new ChannelFixture(store, []), visits }
}

test('a refused message does not search entries again that earlier ones have searched, even if a member acknowledges in between', async () => {
  const count = 10_000
  const { world, visits } = counting(count * SMALL_BYTES * 5.5)
  await world.found('owner', 'slow', 'greedy', 'small', 'dave', 'erin')
  await world.ack('owner', 1)
  await world.chatter('small', count, SMALL)
  // Each fills its share, so that for the greedy one even dropping all the small messages is not enough.
  for (const name of ['greedy', 'dave', 'erin', 'owner']) while ('index' in (await world.say(name, LARGE))) continue
  for (const name of ['owner', 'greedy', 'small', 'dave', 'erin']) await world.ack(name, 1 + count)

  const searches: number[] = []
  for (let at = 0; at < 4; at++) {
    visits()
    refused(await world.say('greedy', LARGE), 'queue_full')
    searches.push(visits())
  }
  const rest = count - 2 * MAX_VISITED
  assert.deepEqual(searches, [MAX_VISITED + 1, MAX_VISITED + 1, rest, 0])
  for (let at = 1; at <= 5; at++) {
    await world.ack('slow', 1 + at * 64)
    visits()
    refused(await world.say('greedy', LARGE), 'queue_full')
    assert.equal(visits(), 0)
  }
  // What was found is still right: another sender gets its room, and then the greedy one once its own messages may go.
  for (const name of ['owner', 'slow', 'small', 'dave', 'erin', 'greedy']) {
    await world.ack(name, (await world.stand(name)).lastIndex)
  }
  accepted(await world.say('greedy', LARGE))
})

test('a search that must drop more than it may visit continues with the next message until there is room', async () => {
  const count = 10_000
  const { world, visits } = counting(2 * count * SMALL_BYTES)
  await world.found('owner', 'slow', 'bob', 'carol')
  await world.chatter('bob', count, SMALL)
  for (const name of ['owner', 'bob', 'carol']) await world.ack(name, 1 + count)
  // A smaller plan: nine tenths must go.
  const channelBytes = (count * SMALL_BYTES) / 10
  await world.run('allot', { account: account('owner'), channelBytes, accountBytes: undefined, at: 1 })
  let refusals = 0
  for (; refusals < 10; refusals++) {
    visits()
    const result = await world.say('carol', SMALL)
    if ('index' in result) break
    assert.ok(visits() <= MAX_VISITED + 1)
  }
  assert.equal(refusals, 2)
  const gap = (await world.read('slow', 1)).gap?.position.index ?? 0
  assert.ok(gap >= count * 0.9 && gap < count * 0.92, `${gap}`)
})
