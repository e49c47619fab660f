/** The bus over a real NATS server, with TLS and a password. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import test from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { StaticError } from '@static/protocol'
import { certificates } from '@static/testkit/certificates'
import { openGate } from '@static/testkit/gate'
import { startNats } from '@static/testkit/nats'
import { natsWire } from '../../src/bus/nats.ts'
import { NodeBus } from '../../src/bus/node-bus.ts'
import type { Bus, News } from '../../src/ports.ts'

const RELAY_ID = new Uint8Array(32).fill(1)
const KEY = new Uint8Array(32).fill(2)
const CHANNEL = 'c'.repeat(32)
const TIMEOUT = { timeout: 60_000 }
/** Before the pings of the library notice that nobody answers. */
const LATE_MS = 9000

interface Node {
  readonly bus: Bus
  readonly heard: News[]
  readonly states: boolean[]
  doubts: number
}

function open(t: test.TestContext, url: string, ca: string): Node {
  const node = { heard: [] as News[], states: [] as boolean[], doubts: 0 }
  const wire = natsWire({ servers: [url], ca, onState: (connected) => node.states.push(connected) })
  const bus = new NodeBus(
    {
      relayId: RELAY_ID,
      key: KEY,
      node: randomBytes(16).toString('hex'),
      wire,
      now: Date.now,
      monotonic: () => performance.now(),
    },
    { news: (news) => node.heard.push(news), doubt: () => node.doubts++ },
  )
  const timer = setInterval(() => bus.tick(), 50)
  t.after(async () => {
    clearInterval(timer)
    await bus.close()
  })
  return Object.assign(node, { bus })
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await delay(10)
}

function entryOf(index: number, size: number): News {
  const entry = {
    kind: 'message',
    index,
    hash: new Uint8Array(32),
    slot: 1,
    sender: 'a'.repeat(64),
    at: 5,
    messageId: randomBytes(16),
    counter: 1,
    control: false,
    ciphertext: randomBytes(size),
  } as const
  return { type: 'event', number: index, event: { type: 'appended', channel: CHANNEL, entry } }
}

test('nodes hear what they watch, large entries as a notice, and continue after NATS was away', TIMEOUT, async (t) => {
  await using server = await startNats({ maxPayload: 10_000 })
  const [one, two] = [open(t, server.url, server.ca), open(t, server.url, server.ca)]
  await until(() => one.bus.state.nodes === 1 && two.bus.state.nodes === 1)
  assert.deepEqual(one.bus.state, { connected: true, nodes: 1 })

  two.bus.watch(`c.${CHANNEL}`)
  const small = entryOf(1, 100)
  const large = entryOf(2, 20_000)
  // A subscription takes effect a moment later.
  while (two.heard.length === 0) {
    one.bus.publish(`c.${CHANNEL}`, small)
    await delay(20)
  }
  assert.deepEqual(two.heard[0], JSON.parse(JSON.stringify(small), revive(small)))
  one.bus.publish(`c.${CHANNEL}`, large)
  await until(() => two.heard.some(({ type }) => type === 'reached'))
  assert.deepEqual(two.heard.at(-1), { type: 'reached', channel: CHANNEL, index: 2 })
  one.bus.publish(`n.${two.bus.node}`, { type: 'claim', id: 7, agent: 'b', account: { id: 'c', mode: 'live' } })
  await until(() => two.heard.some(({ type }) => type === 'claim'))
  two.bus.unwatch(`c.${CHANNEL}`)

  const doubts = two.doubts
  await server.stop()
  await until(() => !one.bus.state.connected && !two.bus.state.connected)
  assert.ok(two.doubts > doubts, 'what was said meanwhile may be missing')
  await server.start()
  two.bus.watch(`c.${CHANNEL}`)
  await until(() => one.bus.state.connected && two.bus.state.connected && one.bus.state.nodes === 1)
  const heard = two.heard.length
  while (two.heard.length === heard) {
    one.bus.publish(`c.${CHANNEL}`, entryOf(3, 100))
    await delay(20)
  }
  assert.deepEqual(
    [one.states, two.states],
    [
      [true, false, true],
      [true, false, true],
    ],
  )
})

test('a node that is cut off from NATS soon knows it, and hears the others again afterwards', TIMEOUT, async (t) => {
  await using server = await startNats()
  await using gate = await openGate(Number(new URL(server.url).port))
  const gated = new URL(server.url)
  gated.port = String(gate.port)
  const { bus, states } = open(t, gated.href, server.ca)
  await until(() => bus.state.connected)
  gate.cut()
  const soon = await Promise.race([until(() => !bus.state.connected).then(() => true), delay(LATE_MS, false)])
  assert.equal(soon, true)
  gate.mend()
  await until(() => bus.state.connected)
  assert.deepEqual(states, [true], 'the connection was never given up')
})

test('a node without NATS, or with a wrong password, starts, says so once, and connects later', TIMEOUT, async (t) => {
  await using server = await startNats()
  const wrong = open(t, server.url.replace(/:[^:@]+@/, ':wrong@'), server.ca)
  await until(() => wrong.states.length > 0)
  assert.deepEqual([wrong.states, wrong.bus.state.connected], [[false], false])
  wrong.bus.publish(`c.${CHANNEL}`, entryOf(1, 10))
  await server.stop()
  const early = open(t, server.url, server.ca)
  early.bus.watch(`c.${CHANNEL}`)
  await until(() => early.states.length > 0)
  await server.start()
  const later = open(t, server.url, server.ca)
  await until(() => early.bus.state.nodes === 1 && later.bus.state.nodes === 1)
  while (early.heard.length === 0) {
    later.bus.publish(`c.${CHANNEL}`, entryOf(1, 10))
    await delay(20)
  }
  assert.deepEqual(early.states, [false, true])
  assert.deepEqual(wrong.states, [false])
})

test('a server that is named by its address needs a certificate for that address', TIMEOUT, async (t) => {
  const { authority } = await certificates()
  const byAddress = (url: string): string => url.replace('localhost', '127.0.0.1')
  await using right = await startNats({ certificate: await authority.issue(['127.0.0.1']) })
  const trusting = open(t, byAddress(right.url), right.ca)
  await until(() => trusting.states.length > 0)
  assert.deepEqual(trusting.states, [true])

  await using wrong = await startNats({ certificate: await authority.issue(['localhost']) })
  const refusing = open(t, byAddress(wrong.url), wrong.ca)
  await until(() => refusing.states.length > 0)
  assert.deepEqual(refusing.states, [false])
})

test('a node continues with the next server of its list when one is gone', TIMEOUT, async (t) => {
  await using first = await startNats()
  await using second = await startNats()
  const states: boolean[] = []
  const { promise: moved, resolve } = Promise.withResolvers<void>()
  const wire = natsWire({
    servers: [first.url, second.url],
    ca: first.ca,
    onState: (connected) => states.push(connected) === 3 && resolve(),
  })({ received: () => {}, changed: () => {} })
  t.after(() => wire.close())
  await until(() => wire.connected)
  await first.stop()
  await moved
  assert.deepEqual(states, [true, false, true])
})

test('a node with more to send than fits at once is heard again afterwards', TIMEOUT, async (t) => {
  await using server = await startNats()
  const heard = new Set<string>()
  const [one, two] = [() => {}, (subject: string) => heard.add(subject)].map((received) =>
    natsWire({ servers: [server.url], ca: server.ca, onState: () => {} })({ received, changed: () => {} }),
  )
  assert.ok(one && two)
  t.after(() => Promise.all([one.close(), two.close()]))
  await until(() => one.connected && two.connected)
  two.subscribe('small')
  two.subscribe('after')
  while (!heard.has('small')) {
    one.publish('small', new Uint8Array(1))
    await delay(10)
  }
  const large = new Uint8Array(1_000_000)
  // The flush that the first one starts does not count the others.
  one.publish('large', new Uint8Array(1))
  for (let count = 0; count < 40; count++) one.publish('large', large)
  await until(() => {
    one.publish('after', new Uint8Array(1))
    return heard.has('after')
  })
})

test('an invalid URL is refused, without its password', () => {
  for (const url of ['localhost:4222', 'http://localhost', 'nats://']) {
    assert.throws(
      () => natsWire({ servers: [url], onState: () => {} }),
      /^StaticError: Invalid NATS URL|Invalid NATS URL/,
    )
  }
  assert.throws(
    () => natsWire({ servers: ['http://me:secret@host'], onState: () => {} }),
    (error: unknown) => error instanceof StaticError && !error.message.includes('secret'),
  )
})

/** Reads what was written as JSON, with the bytes of the original. */
function revive(original: News): (key: string, value: unknown) => unknown {
  const bytes = new Map<string, Uint8Array>()
  JSON.stringify(original, function (this: Record<string, unknown>, key, value: unknown) {
    if (this[key] instanceof Uint8Array) bytes.set(key, new Uint8Array(this[key]))
    return value
  })
  return (key, value) => bytes.get(key) ?? value
}
