/** Places that all share, against a model that looks at everything each time. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { randomBelow, SEED } from '@static/testkit/random'
import { Connected, Holdings, Shares } from '../src/shares.ts'

interface Item {
  readonly key: string
  readonly weight: number
}

test('holdings know who has most, and what of it was idle longest', (t) => {
  t.diagnostic(`seed ${SEED}`)
  const below = randomBelow(SEED)
  const holdings = new Holdings<Item>()
  /** The one that was idle longest first. */
  let model: Item[] = []
  const heldBy = (key: string): number => model.reduce((sum, item) => sum + (item.key === key ? item.weight : 0), 0)
  for (let step = 0; step < 20_000; step++) {
    const item = model[below(model.length + 1)]
    const isFuller = model.length > 60
    if (item === undefined || (!isFuller && below(3) === 0)) {
      const made = { key: `k${below(6)}`, weight: 1 + below(64) }
      holdings.add(made, made.key, made.weight)
      model.push(made)
    } else if (isFuller || below(2) === 0) {
      assert.equal(holdings.remove(item), true)
      assert.equal(holdings.remove(item), false)
      model = model.filter((one) => one !== item)
    } else {
      holdings.touch(item)
      model = [...model.filter((one) => one !== item), item]
    }
    const keys = [...new Set(model.map(({ key }) => key))]
    const most = Math.max(0, ...keys.map(heldBy))
    assert.equal(holdings.most, most)
    assert.equal(
      holdings.total,
      model.reduce((sum, { weight }) => sum + weight, 0),
    )
    const first = holdings.first()
    if (!first) assert.equal(model.length, 0)
    else {
      assert.equal(heldBy(first.key), most)
      assert.equal(
        first,
        model.find(({ key }) => key === first.key),
      )
    }
  }
})

test('never more than there are, for guests never more than their part, and accounts lose nothing to guests', (t) => {
  t.diagnostic(`seed ${SEED}`)
  const below = randomBelow(SEED)
  const held = new Map<number, { account: string | undefined; source: string; weight: number }>()
  const shares = new Shares<number>(100, 25)
  const sum = (isGuest: boolean): number =>
    [...held.values()].reduce((total, one) => total + ((one.account === undefined) === isGuest ? one.weight : 0), 0)
  for (let step = 0; step < 20_000; step++) {
    const source = `s${below(5)}`
    const account = below(2) === 0 ? undefined : `a${below(4)}`
    const weight = 1 + below(20)
    const guests = sum(true)
    const { taken, ousted } = shares.take(step, { account, source }, weight)
    for (const other of ousted) {
      const lost = held.get(other)
      assert.ok(lost)
      if (account === undefined) assert.equal(lost.account, undefined)
      held.delete(other)
    }
    if (taken) held.set(step, { account, source, weight })
    else if (account !== undefined) assert.ok(sum(false) + weight > 100, 'guests give way before an account is refused')
    assert.ok(sum(true) <= Math.max(25, guests) && sum(true) <= 25)
    assert.ok(sum(true) + sum(false) <= 100)
    assert.equal(shares.total, sum(true) + sum(false))
    const [first] = held.keys()
    if (first !== undefined && below(3) === 0) {
      shares.leave(first)
      held.delete(first)
    }
  }
})

test('when there is no room, idle connections give way, of whom has most of them; else who has most to who has less', () => {
  const connected = new Connected<string>(5)
  const take = (item: string, address: string): readonly string[] | undefined => {
    const { taken, ousted } = connected.take(item, address)
    return taken ? ousted : undefined
  }
  for (const item of ['a1', 'a2', 'a3']) assert.deepEqual(take(item, '192.0.2.1'), [])
  for (const item of ['b1', 'b2']) assert.deepEqual(take(item, '192.0.2.2'), [])
  assert.deepEqual(take('c1', '192.0.2.3'), ['a1'])
  for (const item of ['a2', 'b1', 'b2', 'c1']) connected.busy(item)
  assert.deepEqual(take('c2', '192.0.2.3'), ['a3'])
  connected.busy('c2')
  assert.equal(take('c3', '192.0.2.3'), undefined, 'nobody has more')
  assert.deepEqual(take('d1', '192.0.2.4'), ['b1'])
  connected.busy('d1')
  connected.idle('c2')
  connected.idle('a1')
  assert.deepEqual(take('e1', '2001:db8:1:1::/64'), ['c2'])
  connected.busy('e1')
  assert.equal(take('f1', '2001:db8:2:1::/64'), undefined, 'everyone has one')
})
