/** However much guests, one account or strangers take of a relay, others get in. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { CloseReason } from '@static/protocol/relay'
import { Agent, makeKey, Refused, type Wire } from '@static/testkit/agent'
import { type MemoryRelay, openMemoryRelay, quiet } from '../support/memory-relay.ts'
import { UnaryAgent } from '../support/unary.ts'

const GUESTS = [1, 2, 3, 4, 5].map((last) => `198.51.100.${last}`)
const ELSEWHERE = '203.0.113.1'

const open = (t: TestContext, streams: object): Promise<MemoryRelay> => openMemoryRelay(t, { settings: { streams } })

/** A session of an account. */
function connect(
  world: MemoryRelay,
  account: string,
  traffic?: Agent['traffic'],
  address: string = ELSEWHERE,
): Promise<Agent> {
  const jwt = world.api.token(account)
  return Agent.connect(world.transport.wire('cbor', address), { jwt, ...(traffic ? { traffic } : {}) })
}

/** Sessions of guests, as many as an address gets. */
async function fill(world: MemoryRelay, address: string, traffic?: Agent['traffic']): Promise<Agent[]> {
  const guests: Agent[] = []
  for (;;) {
    const guest = await Agent.dial(world.transport.wire('cbor', address), makeKey())
    if (traffic) guest.traffic = traffic
    const refused: unknown = await guest.open().then(
      () => undefined,
      (error: unknown) => error,
    )
    if (refused !== undefined) return guests
    guests.push(guest)
  }
}

/** Why the relay closed a session. */
async function closing(agent: Agent): Promise<[CloseReason, string | undefined, string | undefined]> {
  await quiet()
  const last = agent.pushes.at(-1)?.body
  assert.ok(last?.case === 'sessionClosing', 'the session is open')
  const { reason, error } = last.value
  return [reason, error?.code, error?.message]
}

/** What an agent is told that gets no session: as the answer, or instead of one. */
async function refused(wire: Wire, jwt?: string, traffic?: Agent['traffic']): Promise<string> {
  const agent = await Agent.dial(wire, makeKey())
  if (traffic) agent.traffic = traffic
  const error: unknown = await agent.open(jwt).catch((cause: unknown) => cause)
  assert.ok(error instanceof Error, 'it was not refused')
  if (error instanceof Refused) return error.message
  const [, code, message] = await closing(agent)
  return `${code}: ${message}`
}

/** Whether the relay has closed a session. */
const isOver = (agent: Agent): boolean => agent.pushes.some(({ body }) => body.case === 'sessionClosing')

async function isOpen(agent: Agent): Promise<boolean> {
  await quiet()
  return !isOver(agent)
}

test('an account gets in although guests of five addresses have taken their full share', async (t) => {
  const world = await open(t, { total: 40, perAddress: 8 })
  for (const address of GUESTS) await fill(world, address)
  const agent = await connect(world, 'acme')
  const channel = await agent.createChannel('acme/test/room')
  assert.equal((await agent.send(channel, 0n, 1n)).index, 1n)
})

test('a call and a subscription of an account also get in', async (t) => {
  const world = await open(t, { total: 40, perAddress: 8 })
  for (const address of GUESTS) await fill(world, address)
  for (let last = 10; last < 20; last++) await connect(world, `other-${last}`, undefined, `203.0.113.${last}`)
  const agent = new UnaryAgent(world, makeKey(), ELSEWHERE)
  await agent.open(world.api.token('acme'))
  await agent.request('resume', {})
  const pushes = agent.subscribe()
  await quiet()
  assert.equal(pushes.ended, false)
})

test('guests leave a quarter of the places to accounts, which need not wait until one gives way', async (t) => {
  const world = await open(t, { total: 40, perAddress: 40 })
  const guests = (await Promise.all(GUESTS.map((address) => fill(world, address)))).flat()
  assert.equal(guests.filter((guest) => !isOver(guest)).length, 30)
  for (let count = 0; count < 10; count++) await connect(world, 'acme')
  assert.equal(guests.filter((guest) => !isOver(guest)).length, 30)
})

test('when all places are taken, guests give way to accounts: of the address with the most, the one idle longest', async (t) => {
  const world = await open(t, { total: 40, perAddress: 40 })
  const [few = '', many = ''] = GUESTS
  const loner = await Agent.connect(world.transport.wire('cbor', few))
  const [first, second, third] = await fill(world, many)
  assert.ok(first && second && third)
  for (let count = 0; count < 10; count++) await connect(world, 'acme')
  await first.request('resume', {})
  await connect(world, 'acme')
  const [reason, code, message] = await closing(second)
  assert.deepEqual([reason, code], [CloseReason.SHUTDOWN, 'unavailable'])
  assert.equal(message, 'The relay has no room for another guest. Retry later, or connect with an API key.')
  assert.deepEqual([await isOpen(loner), await isOpen(first), await isOpen(third)], [true, true, true])
})

test('one account leaves guests what is not reserved for accounts', async (t) => {
  const world = await open(t, { total: 40, perAddress: 6 })
  const guests: Agent[] = []
  for (const address of GUESTS) guests.push(...(await fill(world, address)))
  for (let count = 0; count < 10; count++) await connect(world, 'greedy', undefined, `203.0.113.${10 + count}`)
  const full = 'unavailable: The relay has 40 open streams, its limit. Retry later.'
  assert.equal(await refused(world.transport.wire('cbor', ELSEWHERE), world.api.token('greedy')), full)
  assert.equal(guests.filter((guest) => !isOver(guest)).length, 30)
  await connect(world, 'modest')
  assert.equal(guests.filter((guest) => !isOver(guest)).length, 29)
})

test('a guest gives way to one whose address has fewer, and an account never to a guest', async (t) => {
  const world = await open(t, { total: 40, perAddress: 40 })
  const accounts: Agent[] = []
  for (let count = 0; count < 20; count++) accounts.push(await connect(world, 'acme'))
  const [many = '', few = ''] = GUESTS
  const [first] = await fill(world, many)
  assert.ok(first)
  await Agent.connect(world.transport.wire('cbor', few))
  assert.equal((await closing(first))[1], 'unavailable')
  // Until both addresses have as many.
  assert.equal((await fill(world, few)).length, 9)
  for (const agent of accounts) assert.equal(await isOpen(agent), true)
})

test('addresses of one /48 count together where others need room', async (t) => {
  const world = await open(t, { total: 40, perAddress: 40 })
  const hosts: Agent[] = []
  for (let net = 0; net < 30; net++) {
    hosts.push(await Agent.connect(world.transport.wire('cbor', `2001:db8:1:${net.toString(16)}::1`)))
  }
  await Agent.connect(world.transport.wire('cbor', ELSEWHERE))
  const [first] = hosts
  assert.ok(first)
  assert.equal((await closing(first))[1], 'unavailable')
})

test('the account with the most gives way to one with fewer, with the stream idle longest', async (t) => {
  const world = await open(t, { total: 40 })
  const greedy: Agent[] = []
  for (let count = 0; count < 40; count++) greedy.push(await connect(world, 'greedy'))
  const wire = world.transport.wire('cbor', ELSEWHERE)
  const full = 'unavailable: The relay has 40 open streams, its limit. Retry later.'
  assert.equal(await refused(wire, world.api.token('greedy')), full)
  const [first, second] = greedy
  assert.ok(first && second)
  await first.request('resume', {})
  for (let count = 0; count < 20; count++) await connect(world, 'modest')
  assert.equal((await closing(second))[1], 'unavailable')
  assert.equal(await isOpen(first), true)
  assert.equal(greedy.filter((agent) => !isOver(agent)).length, 20)
  assert.equal(await refused(wire, world.api.token('modest')), full)
})

test('agents that never show who they are do not keep others out', async (t) => {
  const world = await open(t, { total: 160, unauthenticatedPerAddress: 10 })
  const idle: Agent[] = []
  for (const address of GUESTS) {
    for (let count = 0; count < 10; count++) {
      idle.push(await Agent.dial(world.transport.wire('cbor', address), makeKey()))
    }
  }
  await quiet()
  assert.equal(idle.filter((agent) => !isOver(agent)).length, 20)
  await connect(world, 'acme')
  await Agent.connect(world.transport.wire('cbor', '203.0.113.2'))
})

const STRICT = { profile: 'strict', cellsPerSecond: 20 } as const

test('neither one account nor guests take all clocks, and no one is told to use a weaker profile', async (t) => {
  const world = await open(t, { clockedCells: 160 })
  const guests = await fill(world, ELSEWHERE, STRICT)
  assert.equal(guests.length, 2)
  const greedy: Agent[] = []
  for (let count = 0; count < 6; count++) greedy.push(await connect(world, 'greedy', STRICT))
  const full =
    /The relay's capacity for the traffic profiles strict and private, 160 cells a second, is used up\. Retry later, or ask its operator for more\.$/
  const wire = world.transport.wire('cbor', ELSEWHERE)
  assert.match(await refused(wire, world.api.token('greedy'), STRICT), full)
  assert.deepEqual([await isOpen(guests[0] as Agent), await isOpen(greedy[0] as Agent)], [true, true])
  // Guests give way first, as long as their address has as much.
  await connect(world, 'modest', STRICT)
  assert.match((await closing(guests[0] as Agent))[2] ?? '', full)
  await connect(world, 'modest', { profile: 'private', cellsPerSecond: 0 })
  assert.match((await closing(greedy[0] as Agent))[2] ?? '', full)
  assert.deepEqual([await isOpen(guests[1] as Agent), await isOpen(greedy[1] as Agent)], [true, true])
})

test('a session that gets no clock costs no one a place', async (t) => {
  const world = await open(t, { total: 8, clockedCells: 40 })
  const [many = ''] = GUESTS
  const guests = await fill(world, many)
  for (const account of ['one', 'two']) await connect(world, account, STRICT)
  const wire = world.transport.wire('cbor', ELSEWHERE)
  assert.match(await refused(wire, world.api.token('three'), STRICT), /40 cells a second, is used up/)
  await quiet()
  assert.equal(guests.filter((guest) => !isOver(guest)).length, 6)
})

test('the guests of one address do not take all clocks of guests', async (t) => {
  const world = await open(t, { clockedCells: 160 })
  const [many = '', few = ''] = GUESTS
  const [first] = await fill(world, many, STRICT)
  await Agent.connect(world.transport.wire('cbor', few), { traffic: { profile: 'strict', cellsPerSecond: 4 } })
  assert.equal((await closing(first as Agent))[1], 'unavailable')
})

test('an account gets in although one address has filled a QUIC endpoint with guests', async (t) => {
  const world = await open(t, { quicPerEndpoint: 8 })
  const at = (port: number, address: string) =>
    world.transport.wire('cbor', address, false, { endpoint: { port, ports: [4433, 4434] } })
  const guests: Agent[] = []
  const [many = ''] = GUESTS
  const jwt = world.api.token('acme')
  for (const port of [4433, 4434]) {
    for (let count = 0; count < 6; count++) guests.push(await Agent.connect(at(port, many)))
    for (let count = 0; count < 2; count++) await Agent.connect(at(port, ELSEWHERE), { jwt })
  }
  assert.match(await refused(at(4433, many)), /^unavailable: No QUIC port of the relay has room for another guest/)
  await Agent.connect(at(4433, ELSEWHERE), { jwt })
  assert.equal((await closing(guests[0] as Agent))[0], CloseReason.FULL)
  assert.equal(guests.filter((one) => !isOver(one)).length, 11)
})

test('a guest that finds room at a QUIC endpoint, but not at the relay, costs no one a place', async (t) => {
  const world = await open(t, { total: 8, quicPerEndpoint: 4 })
  const [here = '', elsewhere = ''] = GUESTS
  const at = (address: string) =>
    world.transport.wire('cbor', address, false, { endpoint: { port: 4433, ports: [4433] } })
  const guests: Agent[] = []
  for (let count = 0; count < 3; count++) {
    guests.push(await Agent.connect(at(here)), await Agent.connect(world.transport.wire('cbor', elsewhere)))
  }
  assert.match(await refused(at(elsewhere)), /^unavailable: The relay has no room for another guest/)
  await quiet()
  assert.equal(guests.filter((guest) => !isOver(guest)).length, 6)
})

test('a full endpoint names the port to dial instead, even to agents that dialled it before it was full', async (t) => {
  const world = await open(t, { quicPerEndpoint: 1 })
  const at = (port: number) =>
    world.transport.wire('cbor', ELSEWHERE, false, { endpoint: { port, ports: [4433, 4434, 4435] } })
  const early = await Agent.dial(at(4433), makeKey())
  await Agent.connect(at(4433))
  await Agent.connect(at(4434))
  for (const agent of [early, await Agent.dial(at(4433), makeKey())]) {
    await agent.open().catch(() => {})
    const [reason, code] = await closing(agent)
    assert.deepEqual([reason, code], [CloseReason.FULL, 'unavailable'])
    assert.equal((await agent.next('sessionClosing')).error?.redirectPort, 4435)
  }
})
