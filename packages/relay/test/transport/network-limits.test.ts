import assert from 'node:assert/strict'
import { Socket } from 'node:net'
import { test } from 'node:test'
import { CallBudget, type Holding } from '../../src/transport/http2/budget.ts'
import { Connections, HTTP2_LIMITS } from '../../src/transport/http2/limits.ts'

/** A socket that is connected to this address, as far as limits can see. */
function from(address: string): Socket {
  return Object.defineProperty(new Socket(), 'remoteAddress', { value: address })
}

test('TCP connections of a /48 count as those of 16 addresses', () => {
  const refused: string[] = []
  const log = { cut: () => {}, full: (address: string) => refused.push(address) }
  const connections = new Connections({ ...HTTP2_LIMITS, connectionsPerAddress: 1 }, log)
  const sockets = Array.from({ length: 16 }, (_, net) => from(`2001:db8:1:${net}::1`))
  for (const socket of sockets) void connections.admit(socket)
  assert.deepEqual(refused, [])
  const last = from('2001:db8:1:99::1')
  void connections.admit(last)
  void connections.admit(from('2001:db8:2::1'))
  assert.deepEqual([refused, connections.fullFor(last)?.limit], [['2001:db8:1:99::1'], 'connectionsPerAddress'])
  connections.destroy()
})

test('the end of a connection does not change what is known of a later one from the same port', () => {
  const log = { cut: () => {}, full: () => {} }
  const connections = new Connections({ ...HTTP2_LIMITS, connectionsPerAddress: 1 }, log)
  const [earlier, later, last] = [from('192.0.2.1'), from('192.0.2.1'), from('192.0.2.1')]
  for (const socket of [earlier, later]) void connections.admit(socket)
  earlier.emit('close')
  assert.equal(connections.fullFor(later)?.limit, 'connectionsPerAddress')
  void connections.admit(last)
  assert.equal(connections.fullFor(last), undefined)
  connections.destroy()
})

test('memory held by calls of a /48 is bounded, and released memory can be taken again', () => {
  const budget = new CallBudget(100, 30)
  const open = (net: number): Holding => budget.open(`2001:db8:1:${net}::/64`, () => assert.fail('was cut'))
  const [first, second, third, fourth] = [open(1), open(2), open(3), open(4)]
  assert.deepEqual([first.take(30), first.take(1), second.take(30), third.take(16)], [true, false, true, false])
  assert.deepEqual([third.take(15), fourth.take(1)], [true, false])
  assert.ok(budget.open('192.0.2.1', () => {}).take(25))
  first.give(10)
  assert.deepEqual([fourth.take(10), fourth.take(1)], [true, false])
  first.close()
  assert.deepEqual([fourth.take(20), first.take(1)], [true, false])
})

test('the largest holder loses its largest calls to others, but not to one that would hold as much', () => {
  const budget = new CallBudget(100, 60)
  const cuts: string[] = []
  const open = (address: string, name: string): Holding => budget.open(address, () => cuts.push(name))
  const small = open('192.0.2.1', 'small')
  const large = open('192.0.2.1', 'large')
  const other = open('192.0.2.2', 'other')
  const fresh = open('192.0.2.3', 'fresh')
  assert.ok(small.take(20) && large.take(30) && other.take(40) && fresh.take(10))
  assert.ok(fresh.take(25))
  assert.deepEqual([cuts, large.take(1)], [['large'], false])
  // Now another one holds the most, 40 of 95: less than this one would.
  assert.equal(fresh.take(6), false)
  assert.ok(small.take(6))
  assert.deepEqual(cuts, ['large', 'other'])
  for (const call of [small, large, other, fresh]) call.close()
  assert.ok(open('192.0.2.4', 'last').take(60) && open('192.0.2.5', 'last').take(40))
  assert.deepEqual(cuts, ['large', 'other'])
})

test('among the largest holders, addresses of a /48 count together, as at most 16', () => {
  const budget = new CallBudget(1000, 100)
  const cuts: string[] = []
  const open = (address: string): Holding => budget.open(address, () => cuts.push(address))
  // 32 addresses hold 20 each: 40 for each of 16.
  for (let net = 0; net < 32; net++) assert.ok(open(`2001:db8:1:${net}::/64`).take(net === 7 ? 21 : 20))
  // Of a /48 with few customers, each counts by itself.
  for (let net = 0; net < 5; net++) assert.ok(open(`2001:db8:2:${net}::/64`).take(39))
  for (let host = 0; host < 4; host++) assert.ok(open(`192.0.2.${host}`).take(39))
  assert.ok(open('192.0.2.9').take(25))
  assert.deepEqual(cuts, ['2001:db8:1:7::/64'])
})
