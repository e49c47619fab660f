import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Limiter, type RateContext } from '../src/rules/limits.ts'

const context = (): RateContext => ({ address: '192.0.2.1', rates: [] })

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

test('a refund lowers the count, but never below zero', () => {
  const limiter = new Limiter('demo', { limit: 1, seconds: 10 }, () => 0)
  limiter.spend('a', context())
  limiter.refund('a')
  limiter.refund('a')
  limiter.spend('a', context())
  assert.throws(() => limiter.check('a', context()), { code: 'rate_limited' })
})

test('a flood of subjects uses bounded memory', () => {
  const limiter = new Limiter('demo', { limit: 1, seconds: 10 }, () => 0)
  for (let i = 0; i < 150_000; i++) limiter.add(`subject ${i}`)
  assert.equal(limiter.count('subject 0'), 0, 'the oldest was let go')
  assert.equal(limiter.count('subject 149999'), 1)
})

test('a /48 of IPv6 gets the limit of 16 addresses, however many it has', () => {
  const limiter = new Limiter('demo', { limit: 2, seconds: 10 }, () => 0)
  const subject = (net: number): string => `2001:db8:1:${net.toString(16)}::/64`
  for (let net = 0; net < 32; net++) limiter.spend(subject(net), context())
  const met = context()
  assert.throws(() => limiter.spend(subject(99), met), { code: 'rate_limited' })
  assert.equal(met.rates.at(-1)?.remaining, 0)
  assert.throws(() => limiter.check(subject(99), context()), { code: 'rate_limited' })
  limiter.spend('2001:db8:2:0::/64', context())
  limiter.refund(subject(0))
  limiter.spend(subject(99), context())
  assert.throws(() => limiter.spend(subject(98), context()), { code: 'rate_limited' })
})
