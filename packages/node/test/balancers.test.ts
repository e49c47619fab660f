import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { test, type TestContext } from 'node:test'
import { Balancers } from '../src/balancers.ts'

const HEADER = Buffer.from('0d0a0d0a000d0a515549540a2111000cc0000207c6336401c73801bb', 'hex')

interface Connected {
  readonly client: Socket
  readonly server: Socket
  /** What the server was told, or found out. */
  readonly address: Promise<string | undefined>
}

/** A server that waits for the header of each connection. */
async function listen(t: TestContext, balancers: Balancers): Promise<(localAddress: string) => Promise<Connected>> {
  const server = createServer({ pauseOnConnect: true })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const sockets: Socket[] = []
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return async (localAddress) => {
    const accepted = once(server, 'connection') as Promise<[Socket]>
    const client = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1', localAddress })
    client.setNoDelay(true)
    const [socket] = await accepted
    sockets.push(client, socket)
    return { client, server: socket, address: Promise.resolve(balancers.clientOf(socket)) }
  }
}

test(
  'a balancer announces its client, in however many packets, and nothing after the header is lost',
  { timeout: 20_000 },
  async (t) => {
    const balancers = new Balancers(['127.0.0.0/30'])
    const open = await listen(t, balancers)
    const { client, server, address } = await open('127.0.0.1')
    assert.equal(balancers.announcedOn(server), undefined)
    for (const byte of HEADER) await new Promise((resolve) => client.write(Buffer.of(byte), resolve))
    client.write('the first bytes of TLS')
    assert.equal(await address, '192.0.2.7')
    assert.equal(balancers.announcedOn(server), '192.0.2.7')
    assert.equal(balancers.addressOf(server), '192.0.2.7')
    let rest = ''
    while (rest !== 'the first bytes of TLS') {
      const chunk = server.read() as Buffer | null
      if (chunk === null) await once(server, 'readable')
      else rest += chunk.toString()
    }
    const closed = once(server, 'close')
    server.destroy()
    await closed
    assert.equal(balancers.announcedOn(server), undefined)
  },
)

test(
  'a connection of a balancer without a header is closed: something else, nothing, or too little',
  { timeout: 20_000 },
  async (t) => {
    const open = await listen(t, new Balancers(['127.0.0.1'], { headerMs: 50 }))
    for (const bytes of [Buffer.of(0x16, 3, 1), Buffer.alloc(0), HEADER.subarray(0, -1)]) {
      const { client, server, address } = await open('127.0.0.1')
      const closed = once(server, 'close')
      if (bytes.length > 0) client.write(bytes)
      assert.equal(await address, undefined)
      await closed
    }
  },
)

test('a balancer that leaves without a word is no error', async (t) => {
  const open = await listen(t, new Balancers(['127.0.0.1']))
  const { client, address } = await open('127.0.0.1')
  client.destroy()
  assert.equal(await address, undefined)
})

test('only so many connections may wait for their header', async (t) => {
  const open = await listen(t, new Balancers(['127.0.0.1'], { waiting: 2 }))
  const first = await open('127.0.0.1')
  const second = await open('127.0.0.1')
  assert.equal(await (await open('127.0.0.1')).address, undefined)
  for (const { client } of [first, second]) client.write(HEADER)
  assert.deepEqual([await first.address, await second.address], ['192.0.2.7', '192.0.2.7'])
  const next = await open('127.0.0.1')
  next.client.write(HEADER)
  assert.equal(await next.address, '192.0.2.7')
})

test('others are who they are, and what they send is not read', async (t) => {
  const balancers = new Balancers(['127.0.0.1', '2001:db8::/32'])
  const open = await listen(t, balancers)
  const { client, server, address } = await open('127.0.0.2')
  client.write(HEADER)
  assert.equal(await address, '127.0.0.2')
  assert.equal(balancers.addressOf(server), '127.0.0.2')
  await once(server, 'readable')
  assert.deepEqual(server.read(), HEADER)
})

test('neither a balancer on this machine nor a client that it names is local', async (t) => {
  const balancers = new Balancers(['127.0.0.1'])
  const open = await listen(t, balancers)
  const { client, server, address } = await open('127.0.0.1')
  const loopback = Buffer.from(HEADER)
  loopback.set([127, 0, 0, 9], 16)
  client.write(loopback)
  assert.equal(await address, '127.0.0.9')
  assert.equal(balancers.isLocal(server), false)
  assert.equal(balancers.isLocal((await open('127.0.0.2')).server), true)
})

test('balancers are addresses and networks; anything else is refused', () => {
  for (const text of [
    '',
    'localhost',
    '10.0.0.0/33',
    '10.0.0.0/',
    '10.0.0.0/8/8',
    '2001:db8::/129',
    'fe80::1%eth0',
    '10.0.0',
  ]) {
    assert.throws(() => new Balancers(['127.0.0.1', text]), { code: 'invalid_request' }, text)
  }
})
