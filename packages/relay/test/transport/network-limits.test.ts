import assert from 'node:assert/strict'
import { Socket } from 'node:net'
import { test } from 'node:test'
import { BodyBudget } from '../../src/transport/grpc/unary/body.ts'
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
  for (const socket of sockets) connections.admit(socket)
  assert.deepEqual(refused, [])
  const last = from('2001:db8:1:99::1')
  connections.admit(last)
  connections.admit(from('2001:db8:2::1'))
  assert.deepEqual([refused, connections.fullFor(last)?.limit], [['2001:db8:1:99::1'], 'connectionsPerAddress'])
  connections.destroy()
})

test('the request bodies of a /48 are bounded, and what was given back can be taken again', () => {
  const budget = new BodyBudget(100, 30)
  const take = (net: number, bytes: number): boolean => budget.take(`2001:db8:1:${net}::/64`, bytes)
  assert.deepEqual([take(1, 30), take(2, 30), take(3, 15), take(4, 1)], [true, true, true, false])
  assert.ok(budget.take('192.0.2.1', 25))
  budget.give('2001:db8:1:1::/64', 30)
  assert.ok(take(4, 30))
})
