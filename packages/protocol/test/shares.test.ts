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
    else {
      assert.deepEqual(ousted, [], 'nobody loses a place to one that is refused')
      assert.ok(account === undefined || sum(false) + weight > 75, 'accounts have the rest')
    }
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

test('one that is refused costs nobody a place, and changes nothing', () => {
  const places = new Shares<string>(40, 10)
  for (let at = 0; at < 5; at++) places.take(`v${at}`, { account: 'victim', source: 'v' }, 4)
  for (const other of ['b', 'c', 'd', 'e', 'f']) places.take(other, { account: other, source: other }, 4)
  const attacker = { account: 'attacker', source: 'z' }
  // The victim alone has more than 18, and only until one of its places is free.
  for (let round = 0; round < 2; round++) {
    assert.equal(places.hasRoomFor(attacker, 18), false)
    assert.deepEqual(places.take('x', attacker, 18), { taken: false, ousted: [] })
  }
  assert.equal(places.total, 40)
  assert.deepEqual(places.take('y', attacker, 8), { taken: true, ousted: ['v0', 'v1'] })
})

test('those that give way together are those that would give way one after the other', (t) => {
  t.diagnostic(`seed ${SEED}`)
  const below = randomBelow(SEED)
  for (let round = 0; round < 200; round++) {
    const holdings = new Holdings<Item>()
    for (let count = below(30); count > 0; count--) {
      const made = { key: `k${below(6)}`, weight: 1 + below(8) }
      holdings.add(made, made.key, made.weight)
    }
    const together = [...holdings.inTurn()]
    for (const { item, weight, most } of together) {
      assert.deepEqual([item, item.weight, most], [holdings.first(), weight, holdings.most])
      holdings.remove(item)
    }
    assert.equal(holdings.total, 0)
  }
})

test('guests give way to an account only while their source with the most has at least as many as it', () => {
  const places = new Shares<string>(100, 75)
  const take = (item: string, account: string | undefined, source = 'z'): readonly string[] | undefined => {
    const { taken, ousted } = places.take(item, { account, source })
    return taken ? ousted : undefined
  }
  for (let at = 0; at < 70; at++) take(`g${at}`, undefined, `192.0.2.${at}`)
  for (let at = 0; at < 5; at++) take(`h${at}`, undefined, '198.51.100.1')
  for (let at = 0; at < 25; at++) assert.deepEqual(take(`a${at}`, 'greedy'), [], 'what is reserved for accounts')
  assert.equal(take('a25', 'greedy'), undefined)
  // Others get as many as the guests of one source, and an equal share of what accounts have.
  assert.deepEqual(take('b0', 'modest'), ['h0'])
  assert.deepEqual(take('b1', 'modest'), ['h1'])
  assert.deepEqual(take('b2', 'modest'), ['h2'])
  assert.deepEqual(take('b3', 'modest'), ['a0'])
  for (let at = 0; at < 10; at++) assert.equal(take(`c${at}`, `c${at}`)?.length, 1, 'every account gets a place')
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

/** A port that a few sources have filled with busy connections, and the places that it has. */
function filled(places: number, sources: number): Connected<string> {
  const connected = new Connected<string>(places)
  for (let at = 0; at < places; at++) {
    const source = `192.0.2.${at % sources}`
    assert.ok(connected.take(`${source} ${at}`, source).taken)
    connected.busy(`${source} ${at}`)
  }
  return connected
}

test('an address with many busy connections does not take the place of another address’s only one', () => {
  const connected = filled(40, 4)
  const { ousted } = connected.take('newcomer', '198.51.100.1')
  assert.deepEqual(ousted, ['192.0.2.0 0'])
  for (let last = 0; last < 4; last++) {
    assert.deepEqual(connected.take(`again ${last}`, `192.0.2.${last}`), { taken: false, ousted: [] })
  }
  connected.busy('newcomer')
  assert.deepEqual(connected.take('second', '198.51.100.1').ousted, ['192.0.2.1 1'])
})

test('a few other addresses that keep asking do not take it before its handshake is over either', () => {
  const connected = filled(1000, 4)
  assert.equal(connected.take('newcomer', '198.51.100.1').taken, true)
  for (let at = 0; at < 500; at++) {
    const { ousted } = connected.take(`flood ${at}`, `203.0.113.${at % 5}`)
    assert.ok(!ousted.includes('newcomer'), `connection ${at}`)
  }
})

test('very many addresses with idle connections take few places of those that are busy', () => {
  const connected = filled(1000, 4)
  let lost = 0
  for (let at = 0; at < 2000; at++) {
    const { ousted } = connected.take(`flood ${at}`, `10.0.${at >> 8}.${at & 255}`)
    if (ousted.some((item) => item.startsWith('192'))) lost++
  }
  assert.equal(lost, 11)
})
