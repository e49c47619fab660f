import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { openStore } from '../src/index.ts'
import type { RateWindowStore, Store } from '../src/ports.ts'
import { admitAttempt } from '../src/rules/attempts.ts'
import { Limiter } from '../src/rules/limiter.ts'
import { makeLimits } from '../src/rules/limits.ts'
import type { RateContext } from '../src/rules/rate-policy.ts'
import { SharedLimiter } from '../src/rules/shared-limiter.ts'
import { makeNamer } from '../src/secrets/namer.ts'
import { DEFAULT_SETTINGS } from '../src/settings.ts'
import { makeDatabase } from './support.ts'

const context = (): RateContext => ({ address: '192.0.2.1', rates: [] })
const ipv6 = (net: number): string => `2001:db8:1:${net.toString(16)}::/64`

test('a window starts with the first request and ends after its time', () => {
  const clock = { now: 1_000_000 }
  const limiter = new Limiter('demo', { limit: 2, seconds: 10 }, () => clock.now)
  limiter.spend('a', context())
  clock.now += 9_999
  limiter.spend('a', context())
  const met = context()
  assert.throws(() => limiter.spend('a', met), { code: 'rate_limited', details: { retryAfter: 1 } })
  assert.deepEqual(met.rates.at(-1), { policy: 'demo', declaration: '"demo";q=2;w=10', remaining: 0, resetSeconds: 1 })
  limiter.spend('b', context())
  clock.now += 1
  limiter.spend('a', context())
  assert.equal(limiter.count('a'), 1)
})

test('a flood of subjects uses bounded memory', () => {
  const limiter = new Limiter('demo', { limit: 1, seconds: 10 }, () => 0)
  for (let i = 0; i < 150_000; i++) limiter.spend(`subject ${i}`, context())
  assert.equal(limiter.count('subject 0'), 0, 'the oldest was let go')
  assert.equal(limiter.count('subject 149999'), 1)
})

test('a /48 of IPv6 gets the limit of 16 addresses, however many it has', () => {
  const limiter = new Limiter('demo', { limit: 2, seconds: 10 }, () => 0)
  for (let net = 0; net < 32; net++) limiter.spend(ipv6(net), context())
  const met = context()
  assert.throws(() => limiter.spend(ipv6(99), met), { code: 'rate_limited' })
  assert.equal(met.rates.at(-1)?.remaining, 0)
  limiter.spend('2001:db8:2:0::/64', context())
})

test("of an address's concurrent attempts, one is checked in the place reserved for callers without failures", async () => {
  let count = 0
  const windows: RateWindowStore = {
    async spend({ now, length }) {
      await setImmediate()
      return { count: ++count, ends: now + length, isFull: false }
    },
    read: async () => undefined,
    refund: async () => undefined,
    prune: async () => {},
  }
  const nameOf = (_policy: string, subject: string): string => subject
  const limits = makeLimits({ rates: DEFAULT_SETTINGS.rates, windows, nameOf, now: () => 1_000_000 })
  const attempts = await Promise.all(Array.from({ length: 20 }, () => admitAttempt(limits, context())))
  const lanes = attempts.map(({ lane }) => lane)
  assert.deepEqual(lanes, ['clean', ...Array<string>(19).fill('suspect')])
})

for (const engine of ['sqlite', 'postgres'] as const) {
  describe(`a limit that nodes share (${engine})`, () => {
    const stores: Store[] = []
    const clocks: readonly [{ now: number }, { now: number }] = [{ now: 1_000_000 }, { now: 1_000_000 }]
    let remove: () => Promise<void>
    let policies = 0
    before(async () => {
      const made = await makeDatabase(engine)
      ;({ remove } = made)
      // SQLite has one node.
      for (let node = 0; node < (engine === 'sqlite' ? 1 : 2); node++) stores.push(await openStore(made.database))
    })
    after(async () => {
      for (const store of stores) await store.close()
      await remove()
    })

    /** A limit of its own, as two nodes see it. */
    const nodes = (limit: number, seconds = 10): readonly [SharedLimiter, SharedLimiter] => {
      const name = `demo-${++policies}`
      const nameOf = makeNamer(new Uint8Array(32))
      const make = (node: 0 | 1): SharedLimiter => {
        const { rateWindows: windows } = stores[node % stores.length] as Store
        return new SharedLimiter(name, { limit, seconds }, { windows, nameOf, now: () => clocks[node].now })
      }
      return [make(0), make(1)]
    }
    const pass = (ms: number): void => clocks.forEach((clock) => (clock.now += ms))
    const refused = { code: 'rate_limited' }

    test('the window is the same on all nodes, and ends after its time', async () => {
      const [one, other] = nodes(2)
      assert.equal(await one.spend('a', context()), 1)
      pass(9_999)
      assert.equal(await other.spend('a', context()), 2)
      const met = context()
      await assert.rejects(one.spend('a', met), { ...refused, details: { retryAfter: 1 } })
      assert.deepEqual([met.rates.at(-1)?.remaining, met.rates.at(-1)?.resetSeconds], [0, 1])
      await assert.rejects(other.check('a', context()), refused)
      assert.equal(await other.spend('b', context()), 1)
      pass(1)
      assert.equal(await other.spend('a', context()), 1)
      assert.deepEqual(
        [one, other].map((node) => node.state('a').remaining),
        [2, 1],
        'as each of them last saw it',
      )
    })

    test('of concurrent attempts on all nodes, as many pass as the limit allows', async () => {
      const both = nodes(20)
      const tries = Array.from({ length: 60 }, (_, at) => both[at % 2 === 0 ? 0 : 1].spend('crowd', context()))
      const results = await Promise.allSettled(tries)
      assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 20)
    })

    test('a refund on one node makes room on the other, but never lowers the count below zero', async () => {
      const [one, other] = nodes(1)
      await one.spend('a', context())
      await one.refund('a')
      await one.refund('a')
      await other.spend('a', context())
      await assert.rejects(one.spend('a', context()), refused)
      await other.refund('a')
      await assert.rejects(one.spend('a', context()), refused, 'a full window is asked for once a second')
      pass(1000)
      await one.spend('a', context())
    })

    test('a node that has found the limit reached refuses without asking the database', async () => {
      const [one, other] = nodes(1)
      one.refuseIfFull('a', context())
      await one.spend('a', context())
      one.refuseIfFull('a', context())
      await assert.rejects(one.spend('a', context()), refused)
      assert.throws(() => one.refuseIfFull('a', context()), refused)
      one.refuseIfFull('b', context())
      other.refuseIfFull('a', context())
      pass(1000)
      one.refuseIfFull('a', context())
    })

    test('failures beyond the limit count as well', async () => {
      const [one, other] = nodes(1)
      for (let i = 0; i < 3; i++) await one.add('a')
      assert.equal(one.state('a').remaining, 0)
      await assert.rejects(other.check('a', context()), refused)
    })

    test('a /48 of IPv6 gets the limit of 16 addresses, and an address that is refused takes none of it', async () => {
      const [one, other] = nodes(1)
      await one.spend(ipv6(0), context())
      for (let i = 0; i < 16; i++) {
        await assert.rejects(other.spend(ipv6(0), context()), refused)
        pass(i % 2 === 0 ? 0 : 1)
      }
      for (let net = 1; net < 16; net++) await other.spend(ipv6(net), context())
      await assert.rejects(one.spend(ipv6(99), context()), refused)
      await assert.rejects(one.check(ipv6(99), context()), refused)
      await other.refund(ipv6(3))
      pass(1000)
      await one.spend(ipv6(99), context())
      await assert.rejects(one.spend(ipv6(98), context()), refused)
    })

    test('a /48 that has reached its limit asks the database for none of its other addresses', async (t) => {
      const [one] = nodes(1)
      for (let net = 0; net < 16; net++) await one.spend(ipv6(net), context())
      await assert.rejects(one.spend(ipv6(16), context()), refused)
      const { rateWindows } = stores[0] as Store
      const asked = [t.mock.method(rateWindows, 'spend'), t.mock.method(rateWindows, 'refund')]
      for (let net = 17; net < 40; net++) await assert.rejects(one.spend(ipv6(net), context()), refused)
      for (const { mock } of asked) assert.equal(mock.callCount(), 0)
      pass(1000)
      await assert.rejects(one.spend(ipv6(40), context()), refused)
      assert.ok(asked.every(({ mock }) => mock.callCount() > 0))
    })

    test('clocks that differ by less than a window share it; one set back further starts another', async () => {
      const [one, other] = nodes(2)
      clocks[0].now += 9_000
      await one.spend('a', context())
      assert.equal(await other.spend('a', context()), 2)
      clocks[0].now -= 30_000
      assert.equal(await one.spend('a', context()), 1)
      clocks[0].now += 21_000
    })

    test('neither subjects nor more windows than allowed are kept', async () => {
      const [one] = nodes(1)
      const { rateWindows } = stores[0] as Store
      pass(60_000)
      for (let i = 0; i < 5; i++) {
        await one.add(`person-${i}@example.com`)
        pass(1)
      }
      const policy = `demo-${policies}`
      const nameOf = makeNamer(new Uint8Array(32))
      const left = async (): Promise<number[]> => {
        const { now } = clocks[0]
        const asked = (i: number): Parameters<Store['rateWindows']['read']>[0] => {
          return { policy, subject: nameOf(policy, `person-${i}@example.com`), limit: 1, length: 10_000, now }
        }
        const found = await Promise.all([0, 1, 2, 3, 4].map(async (i) => (await rateWindows.read(asked(i))) && i))
        return found.filter((i) => i !== undefined)
      }
      assert.deepEqual(await left(), [0, 1, 2, 3, 4])
      await rateWindows.prune(clocks[0].now, 2)
      assert.deepEqual(await left(), [3, 4], 'those that end first go first')
      pass(10_000)
      await rateWindows.prune(clocks[0].now, 2)
      assert.deepEqual(await left(), [])
    })
  })
}
