/** The TCP port behind a load balancer that announces its clients by the PROXY protocol. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as connectHttp2 } from 'node:http2'
import { test } from 'node:test'
import { Balancers } from '@static/node/balancers'
import { askOver, connectBalanced, proxyHeader, rawProxyHeader } from '@static/testkit/proxy-header'
import { type GrpcBench, startGrpcBench } from '../support/grpc-fakes.ts'

const metrics = { text: () => Promise.resolve('static_relay_sessions 3\n'), token: undefined }

const start = (): Promise<GrpcBench> => startGrpcBench({ balancers: new Balancers(['127.0.0.1']), metrics })

/** Connects from the balancer's address, or from another one. */
async function connect(bench: GrpcBench, parts: readonly Uint8Array[], localAddress = '127.0.0.1') {
  return connectBalanced({ port: bench.transport.port, ca: bench.ca, parts, localAddress })
}

/** The address that the relay has for the peer of a connection. */
async function addressOf(bench: GrpcBench, ...connection: [readonly Uint8Array[], string?]): Promise<string> {
  const socket = await connect(bench, ...connection)
  const body = '{}'
  const path = '/static.relay.v1.Relay/GetChallenge'
  const head = `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close`
  socket.resume().write(`${head}\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
  await once(socket, 'close')
  return bench.calls.peers.at(-1)?.address ?? ''
}

test('a client behind a balancer has the address that the balancer announces', async () => {
  await using bench = await start()
  assert.equal(await addressOf(bench, [proxyHeader('192.0.2.7')]), '192.0.2.7')
  const bytes = [...proxyHeader('192.0.2.8', 200)].map((byte) => Buffer.of(byte))
  assert.equal(await addressOf(bench, bytes), '192.0.2.8')
  const ipv6 = Buffer.alloc(36)
  ipv6.set([0x20, 0x01, 0x0d, 0xb8])
  assert.equal(await addressOf(bench, [rawProxyHeader(1, 0x21, ipv6)]), '2001:db8::')
  // The balancer's own connections.
  assert.equal(await addressOf(bench, [rawProxyHeader(0, 0, Buffer.alloc(0))]), '127.0.0.1')
  assert.equal(await addressOf(bench, [rawProxyHeader(1, 0, Buffer.alloc(0))]), '127.0.0.1')
})

test('the announced address also counts over HTTP/2', async () => {
  await using bench = await startGrpcBench({
    balancers: new Balancers(['127.0.0.1']),
    limits: { connectionsPerAddress: 1 },
  })
  const open = async (client: string): Promise<void> => {
    const options = { port: bench.transport.port, ca: bench.ca, parts: [proxyHeader(client)], protocol: 'h2' }
    const socket = await connectBalanced(options)
    const session = connectHttp2('https://localhost', { createConnection: () => socket })
    session.request({
      ':method': 'POST',
      ':path': '/static.relay.v1.Relay/Session',
      'content-type': 'application/grpc',
    })
  }
  await open('192.0.2.7')
  await open('192.0.2.8')
  await bench.streams.open.reaches(2)
  assert.deepEqual(bench.cuts, [], 'each client has a connection of its own')
  await open('192.0.2.7')
  await bench.streams.open.reaches(3)
  assert.deepEqual(bench.cuts, ['connectionsPerAddress'])
  assert.deepEqual(
    [...bench.streams.peers.values()].map(({ address, full }) => [address, full?.limit]),
    [
      ['192.0.2.7', undefined],
      ['192.0.2.8', undefined],
      ['192.0.2.7', 'connectionsPerAddress'],
    ],
  )
})

test('a balancer must announce its client, and no one else can', async () => {
  await using bench = await start()
  const closed = { message: /closed|ECONNRESET|EPIPE|disconnected/ }
  await assert.rejects(connect(bench, []), closed, 'no header')
  await assert.rejects(connect(bench, [Buffer.from('PROXY TCP4 192.0.2.7 192.0.2.1 1 2\r\n')]), closed, 'version 1')
  await assert.rejects(connect(bench, [rawProxyHeader(1, 0x12, Buffer.alloc(12))]), closed, 'UDP')
  await assert.rejects(connect(bench, [proxyHeader('192.0.2.7', 4000)]), closed, 'too long')
  await assert.rejects(connect(bench, [proxyHeader('192.0.2.7')], '127.0.0.2'), 'not a balancer')
  assert.equal(await addressOf(bench, [], '127.0.0.2'), '127.0.0.2')
})

test('neither an announced loopback address nor a balancer on this machine opens /metrics', async () => {
  await using bench = await start()
  for (const header of [proxyHeader('127.0.0.1'), proxyHeader('127.0.0.2'), rawProxyHeader(0, 0, Buffer.alloc(0))]) {
    assert.match(await askOver(await connect(bench, [header]), '/metrics'), /^HTTP\/1\.1 401 /)
  }
  assert.match(await askOver(await connect(bench, [], '127.0.0.2'), '/metrics'), /^HTTP\/1\.1 200 /)
})
