import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as connectHttp2, constants } from 'node:http2'
import { test } from 'node:test'
import { type AddressInfo, connect as connectTcp, createServer, type Socket } from 'node:net'
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from 'node:tls'
import { LOOPBACKS } from '@static/testkit/ports'
import { connectGrpc, type GrpcClient } from '@static/testkit/agent/grpc-client'
import { groupOf, HYBRID_GROUP } from '@static/node/tls-groups'
import { certificates } from '@static/testkit/certificates'
import type { Certificate } from '../../src/ports.ts'
import { SLOW_MS } from '../../src/transport/http2/limits.ts'
import { type GrpcBench, startGrpcBench } from '../support/grpc-fakes.ts'
import { ask } from '../support/grpc-http.ts'

async function dial(bench: GrpcBench, options: ConnectionOptions = {}): Promise<TLSSocket> {
  const { port } = bench.transport
  const socket = connectTls({ host: '127.0.0.1', port, servername: 'localhost', ca: bench.ca, ...options })
  await once(socket, 'secureConnect')
  socket.on('error', () => {})
  return socket
}

/** Whether there is room for a connection, which then takes it. */
async function isFree(bench: GrpcBench): Promise<boolean> {
  const before = bench.cuts.length
  await bench.connect().catch(() => {})
  return bench.cuts.length === before
}

test('TLS 1.2 and other curves are refused, before and after a new certificate', async () => {
  await using bench = await startGrpcBench()
  const { authority } = await certificates()
  const fingerprints = new Set<string>()
  for (const renewed of [false, true]) {
    if (renewed) bench.transport.renew(await authority.issue(['localhost']))
    for (const host of LOOPBACKS) {
      const socket = await dial(bench, { host, ALPNProtocols: ['h2'] })
      assert.deepEqual([socket.getProtocol(), socket.alpnProtocol], ['TLSv1.3', 'h2'])
      fingerprints.add(socket.getPeerCertificate().fingerprint256)
      assert.equal(groupOf(socket), HYBRID_GROUP)
      socket.destroy()
    }
    for (const group of [HYBRID_GROUP, 'X25519']) {
      const socket = await dial(bench, { ecdhCurve: group })
      assert.equal(groupOf(socket), group)
      socket.destroy()
    }
    await assert.rejects(dial(bench, { maxVersion: 'TLSv1.2' }))
    await assert.rejects(dial(bench, { ecdhCurve: 'P-521' }))
  }
  assert.equal(fingerprints.size, 2)
})

test('a certificate that does not match its key is rejected, and streams survive a renewal', async () => {
  await using bench = await startGrpcBench()
  const { authority, certificate } = await certificates()
  const other = await authority.issue(['localhost'])
  assert.throws(() => bench.transport.renew({ cert: certificate.cert, key: other.key }))
  const client = await bench.connect()
  const { promise, resolve } = Promise.withResolvers<Uint8Array>()
  const session = client.openSession({ data: resolve, closed: () => {} })
  await bench.streams.open.reaches(1)
  bench.transport.renew(other)
  session.write(new Uint8Array(1024))
  assert.equal((await promise).length, 1024)
})

test('a client that names the server gets the certificate without addresses, others get the one with them', async () => {
  const { authority } = await certificates()
  const make = async (): Promise<{ certificate: Certificate; namedCertificate: Certificate }> => ({
    certificate: await authority.issue(['localhost', '127.0.0.1']),
    namedCertificate: await authority.issue(['localhost']),
  })
  const first = await make()
  await using bench = await startGrpcBench(first)
  const shown = async (options?: ConnectionOptions): Promise<string> => {
    const socket = await dial(bench, options)
    const certificate = socket.getPeerX509Certificate()
    socket.destroy()
    return certificate?.toString() ?? ''
  }
  const second = await make()
  for (const [round, { certificate, namedCertificate }] of [first, second].entries()) {
    if (round === 1) bench.transport.renew(certificate, namedCertificate)
    assert.equal(await shown(), namedCertificate.cert)
    // Node sends no name for an address, and checks the address in the certificate.
    assert.equal(await shown({ servername: '' }), certificate.cert)
    await assert.rejects(dial(bench, { maxVersion: 'TLSv1.2' }))
    await assert.rejects(dial(bench, { ecdhCurve: 'P-521' }))
  }
  // One wrong pair changes nothing.
  assert.throws(() =>
    bench.transport.renew(first.certificate, { ...second.namedCertificate, key: first.certificate.key }),
  )
  assert.deepEqual(
    [await shown(), await shown({ servername: '' })],
    [second.namedCertificate.cert, second.certificate.cert],
  )
})

test('one address has only so many connections, and the port only so many in all', async () => {
  for (const limits of [{ connectionsPerAddress: 2 }, { connections: 2 }]) {
    await using bench = await startGrpcBench({ limits })
    const silent = { data: () => {}, closed: () => {} }
    const first = await bench.connect()
    // None of them is idle.
    for (const client of [first, await bench.connect()]) client.openSession(silent)
    await bench.streams.open.reaches(2)
    // A few more are there for their refusals only; they do not take a place.
    const [refused] = await Promise.all(Array.from({ length: 8 }, () => bench.connect()))
    assert.ok(refused)
    await assert.rejects(bench.connect())
    const [limit] = Object.keys(limits)
    assert.deepEqual(bench.cuts, Array<unknown>(9).fill(limit))
    const left = once(refused.session, 'close')
    refused.openSession(silent)
    await bench.streams.open.reaches(3)
    assert.deepEqual(bench.streams.peers.get(3)?.full, { limit, value: 2 })
    bench.transport.end(3)
    await left
    await first.close()
    // The place is free when the server has seen the end.
    while (!(await isFree(bench)));
  }
})

test('when the port is full, a connection without a stream gives way, but none with one', async () => {
  await using bench = await startGrpcBench({ limits: { connections: 3 } })
  const [busy, idle, young] = [await bench.connect(), await bench.connect(), await bench.connect()]
  busy.openSession({ data: () => {}, closed: () => {} })
  await bench.streams.open.reaches(1)
  const ended = async (client: typeof idle): Promise<typeof idle> => once(client.session, 'close').then(() => client)
  const gone = Promise.race([busy, idle, young].map(ended))
  const last = await bench.connect()
  assert.equal(await gone, idle)
  last.openSession({ data: () => {}, closed: () => {} })
  await bench.streams.open.reaches(2)
  assert.deepEqual(bench.cuts, [])
})

test('addresses that hold all connections do not take the place of one that is still in its handshake', async () => {
  await using bench = await startGrpcBench({ limits: { connections: 8 } })
  const { port } = bench.transport
  const from = (localAddress: string): Promise<GrpcClient> =>
    connectGrpc({ host: '127.0.0.1', port, ca: bench.ca, localAddress })
  const clients: GrpcClient[] = []
  for (let at = 0; at < 8; at++) {
    const client = await from(`127.0.0.${11 + (at % 2)}`)
    client.openSession({ data: () => {}, closed: () => {} })
    clients.push(client)
    await bench.streams.open.reaches(at + 1)
  }
  const newcomer = connectTcp({ host: '127.0.0.1', port, localAddress: '127.0.0.99' })
  newcomer.on('error', () => {})
  // One of the others has lost its place to it.
  await Promise.race(clients.map(({ session }) => once(session, 'close')))
  assert.deepEqual(bench.cuts, [])
  for (const last of [11, 12]) clients.push(await from(`127.0.0.${last}`))
  assert.deepEqual(bench.cuts, ['connections', 'connections'])
  const secure = await dial(bench, { socket: newcomer, ALPNProtocols: ['http/1.1'] })
  secure.write('GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n')
  assert.match(String((await once(secure, 'data'))[0]), /^HTTP\/1\.1 200 /)
  secure.destroy()
  await Promise.all(clients.map((client) => client.close()))
})

test('a connection allows 128 concurrent streams', async () => {
  await using bench = await startGrpcBench()
  const client = await bench.connect()
  const { maxConcurrentStreams, maxHeaderListSize } = client.session.remoteSettings
  assert.deepEqual([maxConcurrentStreams, maxHeaderListSize], [128, 16_384])
  for (let count = 0; count < 129; count++) client.openSession({ data: () => {}, closed: () => {} })
  await bench.streams.open.reaches(128)
  await ask(bench, '2', 'GET', '/health')
  assert.equal(bench.streams.open.value, 128)
})

/** Opens and resets streams until the connection is closed. Returns how many. */
async function resetUntilCut(client: GrpcClient): Promise<number> {
  const closed = once(client.session, 'close')
  let sent = 0
  const burst = (): void => {
    for (let count = 0; count < 90 && !client.session.destroyed; count++, sent++) {
      const stream = client.request('/static.relay.v1.Relay/Session', { 'content-type': 'application/grpc' })
      stream.on('error', () => {})
      stream.close(constants.NGHTTP2_CANCEL)
    }
    if (!client.session.destroyed) setImmediate(burst)
  }
  burst()
  await closed
  return sent
}

test('a client that keeps opening and resetting streams is cut off', async () => {
  await using bench = await startGrpcBench()
  const sent = await resetUntilCut(await bench.connect())
  assert.deepEqual(bench.cuts, ['resets'])
  assert.ok(sent < 20_000, `${sent} streams`)
  await bench.streams.open.is((count) => count === 0)
  // Others do not notice.
  assert.equal((await ask(bench, '2', 'GET', '/health')).status, 200)
})

test('other clients at the address of one that resets in bulk keep their connections and get new ones', async () => {
  await using bench = await startGrpcBench({ limits: { resetsPerAddress: 250 } })
  const good = await bench.connect()
  for (let round = 0; round < 3; round++) await resetUntilCut(await bench.connect())
  assert.deepEqual(bench.cuts, ['resets', 'resets', 'resets'])
  for (const client of [good, await bench.connect()]) await echo(client)
})

/** Waits for an answer on a new stream; rejects if the stream is closed instead. */
function echo(client: GrpcClient): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>()
  const closed = (): void => reject(new Error('The stream was closed.'))
  client.openSession({ data: resolve, closed }).write(new Uint8Array(1024))
  return promise
}

test('new connections of an address that resets in bulk begin at a pace, and those of other addresses at once', async () => {
  await using bench = await startGrpcBench({ limits: { resetsPerAddress: 250 } })
  for (let round = 0; round < 2; round++) await resetUntilCut(await bench.connect())
  const start = performance.now()
  const slowed = Promise.all(Array.from({ length: 10 }, () => bench.connect()))
  const { port } = bench.transport
  const other = await connectGrpc({ host: '127.0.0.1', port, ca: bench.ca, localAddress: '127.0.0.2' })
  other.openSession({ data: () => {}, closed: () => {} })
  await bench.streams.open.reaches(1)
  await other.close()
  await slowed
  assert.ok(performance.now() - start >= 9 * SLOW_MS - 10)
})

test('a client that keeps sending HTTP/1.1 requests without waiting for responses is cut off', async () => {
  await using bench = await startGrpcBench()
  bench.calls.answer = () => new Promise(() => {})
  const socket = await dial(bench, { ALPNProtocols: ['http/1.1'] })
  const head = 'POST /static.relay.v1.Relay/Ack HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n'
  socket.write(`${head}content-length: 2\r\n\r\n{}`.repeat(100))
  socket.resume()
  await once(socket, 'close')
  assert.deepEqual(bench.cuts, ['pipelining'])
  assert.ok(bench.calls.seen.length <= 16)
  // One behind the other is fine.
  const patient = await dial(bench, { ALPNProtocols: ['http/1.1'] })
  for (let round = 0; round < 20; round++) {
    patient.write('GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n')
    assert.match(String((await once(patient, 'data'))[0]), /^HTTP\/1\.1 200 /)
  }
  patient.destroy()
})

test('connections without a stream are closed in time, those with one stay open', async () => {
  await using bench = await startGrpcBench({ limits: { idleMs: 1500 } })
  const left = once((await bench.connect()).session, 'close')
  const busy = await bench.connect()
  busy.openSession({ data: () => {}, closed: () => {} })
  await bench.streams.open.reaches(1)
  await left
  // As old as the one that is closed, twice over.
  const later = await bench.connect()
  await once(later.session, 'close')
  assert.equal(busy.session.closed, false)
  bench.transport.end(1)
  await once(busy.session, 'close')
})

test('a connection without a reader uses little memory, and not for long', async () => {
  await using bench = await startGrpcBench({ limits: { connections: 1, idleMs: 3000, closeMs: 50 } })
  const upstreams: Socket[] = []
  const proxy = createServer((socket) => {
    const upstream = connectTcp(bench.transport.port, '127.0.0.1')
    upstreams.push(upstream)
    socket.pipe(upstream).pipe(socket)
    for (const end of [socket, upstream]) end.on('error', () => {})
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  const { port } = proxy.address() as AddressInfo
  const client = await connectGrpc({ host: '127.0.0.1', port, ca: bench.ca })
  // So that the connection itself is what fills up.
  client.session.setLocalWindowSize(2 ** 31 - 1)
  client.session.settings({ initialWindowSize: 2 ** 31 - 1 })
  await once(client.session, 'localSettings')
  for (let count = 0; count < 3; count++) client.openSession({ data: () => {}, closed: () => {} })
  await bench.streams.open.reaches(3)
  upstreams[0]?.pause().unpipe()
  let written = 0
  while (bench.streams.open.value > 0) {
    bench.transport.write([1, 2, 3], new Uint8Array(64 * 1024))
    written += 64 * 1024
    await new Promise((resolve) => setImmediate(resolve))
  }
  assert.ok(written < 32 * 1024 * 1024, `${written} bytes`)
  while (!(await isFree(bench))) if (bench.cuts.length > 10_000) assert.fail('the connection was kept')
  await client.close()
  proxy.close()
  for (const upstream of upstreams) upstream.destroy()
})

test('missing handshakes, settings and headers time out', async () => {
  await using bench = await startGrpcBench({ limits: { headersMs: 3000 } })
  // However it ends, and also before the next one is there.
  const closeOf = (socket: Socket): Promise<unknown> =>
    new Promise((resolve) => socket.on('error', () => {}).once('close', resolve))
  const closes = [closeOf(connectTcp(bench.transport.port, '127.0.0.1'))]
  const noSettings = await dial(bench, { ALPNProtocols: ['h2'] })
  closes.push(closeOf(noSettings.resume()))
  const slowHeader = await dial(bench, { ALPNProtocols: ['http/1.1'] })
  closes.push(closeOf(slowHeader.resume()))
  slowHeader.write('GET /health HTTP/1.1\r\nhost: x\r\nx-slow: ')
  await Promise.all(closes)
})

test('missing bodies time out', async () => {
  await using bench = await startGrpcBench({ limits: { bodyMs: 100, closeMs: 100 } })
  const client = await bench.connect()
  for (const method of ['GetChallenge', 'Subscribe']) {
    const raw = client.request(`/static.relay.v1.Relay/${method}`, { 'content-type': 'application/grpc' })
    raw.on('error', () => {})
    raw.write(Buffer.of(0, 0))
    raw.resume()
    await once(raw, 'close')
  }
  const http1 = await dial(bench, { ALPNProtocols: ['http/1.1'] })
  const head =
    'POST /static.relay.v1.Relay/GetChallenge HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n'
  http1.write(`${head}content-length: 9\r\n\r\n{`)
  http1.resume()
  await once(http1, 'close')
  assert.equal(bench.calls.seen.length, 0)
})

test('bodies have a budget in total and per address, which is released', async () => {
  for (const limit of ['bodyBytes', 'bodyBytesPerAddress']) {
    await using bench = await startGrpcBench({ limits: { [limit]: 170_000, closeMs: 100 } })
    bench.calls.answer = () => ({ case: 'sendMessage', value: {} })
    const headers = { 'content-type': 'application/json', 'static-session': 'token' }
    const path = '/static.relay.v1.Relay/SendMessage'
    const holding = (await bench.connect('127.0.0.1')).request(path, headers)
    holding.on('error', () => {})
    await new Promise((resolve) => holding.write(' '.repeat(60_000), resolve))
    // What the other connection does may not have been seen yet.
    const answersSoon = async (status: number): Promise<void> => {
      for (let tries = 0; tries < 1000; tries++) {
        const answer = await ask(bench, '1.1', 'POST', path, headers, `${' '.repeat(60_000)}{}`)
        if (answer.status === status) return
      }
      assert.fail(`never ${status}`)
    }
    await answersSoon(429)
    holding.close(constants.NGHTTP2_CANCEL)
    await answersSoon(200)
  }
})

test('a response that is not read is dropped', async () => {
  await using bench = await startGrpcBench({ limits: { bodyMs: 100 } })
  bench.calls.answer = () => ({ case: 'createChannel', value: { welcome: new Uint8Array(1_000_000) } })
  const session = connectHttp2(`https://localhost:${bench.transport.port}`, {
    ca: bench.ca,
    settings: { initialWindowSize: 0 },
  })
  const raw = session.request({
    ':method': 'POST',
    ':path': '/static.relay.v1.Relay/CreateChannel',
    'content-type': 'application/json',
  })
  raw.on('error', () => {})
  raw.end('{}')
  raw.resume()
  await once(raw, 'close')
  session.destroy()
})

test('headers that are too long are refused', async () => {
  await using bench = await startGrpcBench()
  const long = await bench.connect()
  const raw = long.request('/health', { 'x-long': 'x'.repeat(20_000) })
  await assert.rejects(once(raw, 'close'), /ENHANCE_YOUR_CALM/)
  assert.equal((await ask(bench, '1.1', 'GET', '/health', { 'x-long': 'x'.repeat(20_000) })).status, 431)
})
