import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import type { Server } from 'node:net'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { subjectOf } from '../src/address.ts'
import { takeTurns } from '../src/handshake-turns.ts'

interface Fake {
  readonly remoteAddress: string
  destroyed: boolean
  resume(): void
}

const from = (remoteAddress: string, destroyed = false): Fake => ({ remoteAddress, destroyed, resume: () => {} })

/** A server that notes whose handshakes begin. */
function makeServer(begun: Fake[]): (socket: Fake) => void {
  const server = new EventEmitter()
  server.on('connection', (socket: Fake) => begun.push(socket))
  takeTurns(server as Server, ({ remoteAddress = '' }) => subjectOf(remoteAddress), setImmediate)
  return (socket) => void server.emit('connection', socket)
}

test('one handshake begins in a turn, and no address waits for all of another', async () => {
  const begun: Fake[] = []
  const connect = makeServer(begun)
  for (let at = 0; at < 40; at++) connect(from('192.0.2.1'))
  connect(from('192.0.2.2'))
  assert.equal(begun.length, 1, 'the first begins at once')
  await nextTurn()
  await nextTurn()
  assert.equal(begun.length, 3)
  assert.ok(begun.some(({ remoteAddress }) => remoteAddress === '192.0.2.2'))
  let turns = 3
  for (let before = 0; before < begun.length; turns++) {
    before = begun.length
    await nextTurn()
    assert.ok(begun.length - before <= 1)
  }
  assert.equal(begun.length, 41)
  assert.ok(turns >= 40)
  connect(from('192.0.2.3'))
  assert.equal(begun.length, 42, 'nobody waits without need')
})

test('a crowd from a /48 holds up another address by 16 handshakes at most', async () => {
  const begun: Fake[] = []
  const connect = makeServer(begun)
  for (let at = 0; at < 200; at++) connect(from(`2001:db8:1:${at.toString(16)}::1`))
  connect(from('192.0.2.2'))
  for (let turn = 0; turn < 16 + 1; turn++) await nextTurn()
  assert.ok(begun.some(({ remoteAddress }) => remoteAddress === '192.0.2.2'))
})

test('a connection that closed while it waited costs no handshake', async () => {
  const begun: Fake[] = []
  const connect = makeServer(begun)
  const gone = from('192.0.2.1')
  for (let at = 0; at < 2; at++) connect(from('192.0.2.1'))
  connect(gone)
  connect(from('192.0.2.1'))
  connect(from('192.0.2.1', true))
  gone.destroyed = true
  await nextTurn()
  await nextTurn()
  assert.equal(begun.length, 3)
  assert.ok(!begun.includes(gone))
})
