import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { test } from 'node:test'
import { connectQuic } from '@static/quic'
import { CELL_BYTES, StaticError } from '@static/protocol'
import { connectQuic as connectLibrary, createQuicServer } from '@currentspace/http3'
import { newAuthority } from '@static/testkit/certificates'
import { freePorts } from '../../src/transport/quic/address.ts'
import { type QuicOptions, startQuicTransport } from '../../src/transport/quic/transport.ts'
import { makeClientAuthority } from '@static/testkit/certificates/client'
import { quicCertificates, dial, type Dialled, echo, open, startQuicBench, Watch } from '../support/quic-bench.ts'

const refused =
  (message: RegExp) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof StaticError)
    assert.equal(error.code, 'connection_error')
    assert.match(error.message, message)
    return true
  }

const HANDLER = { opened: (): undefined => undefined, received: (): void => {}, closed: (): void => {} }

void test('a client reports what is wrong with the relay’s certificate', async (t) => {
  const relay = await startQuicBench(t, echo)
  const stranger = await newAuthority()
  await assert.rejects(
    connectQuic(relay.target({ ca: stranger.cert })),
    refused(
      /^The certificate that 127\.0\.0\.1:\d+ presented for "localhost" is not signed by a trusted CA\. If it is the right server, trust its CA/,
    ),
  )
  await assert.rejects(
    connectQuic(relay.target({ serverName: 'relay.example' })),
    refused(/presented for "relay\.example" is not for this name/),
  )
  await assert.rejects(connectQuic(relay.target({ ca: 'nonsense' })), refused(/CA certificate .* cannot be read/))
  await assert.rejects(connectQuic(relay.target({ serverName: '127.0.0.1' })), { code: 'invalid_request' })
  assert.equal(relay.streams.length, 0)
})

void test('a client reports that a certificate has expired', async (t) => {
  const past = await newAuthority(() => new Date(Date.now() - 10 * 86_400_000))
  const relay = await startQuicBench(t, { certificate: await past.issue(['localhost'], { days: 1 }) })
  await assert.rejects(connectQuic(relay.target({ ca: past.cert })), refused(/has expired/))
})

// The library's TLS (BoringSSL) knows no constraints on addresses: a certificate of the local authority must not have any.
void test('a certificate with addresses under name constraints cannot be verified', async (t) => {
  const { authority } = await quicCertificates()
  const relay = await startQuicBench(t, { certificate: await authority.issue(['localhost', '127.0.0.1']) })
  await assert.rejects(connectQuic(relay.target()), refused(/a name constraint on addresses is a known cause/))
})

void test('a client reports that nothing is listening, or that nothing answers', async () => {
  const socket = createSocket('udp4')
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  const target = { host: '127.0.0.1', port: socket.address().port, serverName: 'localhost', connectTimeoutMs: 300 }
  const { authority } = await quicCertificates()
  await assert.rejects(connectQuic({ ...target, ca: authority.cert }), refused(/^No answer from 127\.0\.0\.1:\d+/))
  await new Promise<void>((resolve) => socket.close(resolve))
  await assert.rejects(connectQuic({ ...target, ca: authority.cert }), refused(/^Nothing is listening on UDP port \d+/))
  await assert.rejects(
    connectQuic({ ...target, ca: authority.cert, host: 'no.invalid' }),
    refused(/^The host name no\.invalid cannot/),
  )
})

void test('another application protocol is refused on both sides', async (t) => {
  const { authority, server: pair } = await quicCertificates()
  const other = createQuicServer({
    ...pair,
    alpn: ['other/1'],
    runtimeMode: 'portable',
    disableRetry: false,
    maxConnections: 9,
  })
  const { port } = await other.listen(0, '127.0.0.1')
  t.after(() => other.close())
  await assert.rejects(
    connectQuic({ host: '127.0.0.1', port, serverName: 'localhost', ca: authority.cert, connectTimeoutMs: 500 }),
    refused(/^A QUIC server answers .* does not speak static-relay\/1, or it has no room/),
  )

  const relay = await startQuicBench(t, echo)
  const session = connectLibrary(
    { address: '127.0.0.1', port: relay.transport.ports[0] ?? 0, servername: 'localhost' },
    { ca: authority.cert, alpn: ['other/1'], runtimeMode: 'portable', connectTimeoutMs: 500 },
  )
  session.on('error', () => {})
  await assert.rejects(session.ready())
  await session.close()
  assert.equal(relay.streams.length, 0)
})

void test('a client certificate makes a proxy only if the proxies’ authority signed it', async (t) => {
  const { authority, proxies } = await quicCertificates()
  const relay = await startQuicBench(t, echo)
  const none = open(await dial(t, relay.target()))
  none.stream.write(Buffer.of(1))
  await none.watch.until(() => none.bytes() === 1)
  assert.equal(relay.streams[0]?.peer.proxy, false)
  const good = open(await dial(t, relay.target({ clientCertificate: proxies.issue() })))
  good.stream.write(Buffer.of(1))
  await good.watch.until(() => good.bytes() === 1)
  assert.equal(relay.streams[1]?.peer.proxy, true)

  const wrong = { stranger: makeClientAuthority().issue(), server: await authority.issue(['localhost']) }
  for (const [who, clientCertificate] of Object.entries(wrong)) {
    // In TLS 1.3 a client is done before the server has seen its certificate: the refusal may come a moment later.
    const attempt = async (): Promise<void> => {
      const connection = await dial(t, relay.target({ clientCertificate }))
      await connection.closed
      open(connection)
    }
    await assert.rejects(attempt(), refused(/client certificate/), who)
  }
  assert.equal(relay.streams.length, 2)

  // Where no proxy is expected, nobody becomes one.
  const plain = await startQuicBench(t, { ...echo, proxyCa: undefined })
  const agent = open(await dial(t, plain.target({ clientCertificate: proxies.issue() })))
  agent.stream.write(Buffer.of(1))
  await agent.watch.until(() => agent.bytes() === 1)
  assert.equal(plain.streams[0]?.peer.proxy, false)
})

void test('connections without a stream do not keep others out of a full endpoint', async (t) => {
  const relay = await startQuicBench(t, { ...echo, maxSessions: 10 })
  const idle = await Promise.all(Array.from({ length: 11 }, () => dial(t, relay.target())))
  const { stream, watch, bytes } = open(await dial(t, relay.target()))
  stream.write(Buffer.of(1))
  await watch.until(() => bytes() === 1)
  await Promise.race(idle.map(({ closed }) => closed))
})

void test('connections whose agents do not show who they are do not keep others out either', async (t) => {
  const relay = await startQuicBench(t, { ...echo, maxSessions: 10 })
  const greet = async (): Promise<Dialled> => {
    const agent = open(await dial(t, relay.target()))
    agent.stream.write(Buffer.of(1))
    const refused = agent.closed.then(() => assert.fail('the connection was closed'))
    await Promise.race([agent.watch.until(() => agent.bytes() === 1), refused])
    // Some give way later.
    refused.catch(() => {})
    return agent
  }
  const known = await greet()
  relay.transport.known?.(relay.streams[0]?.id ?? 0)
  const strangers: Dialled[] = []
  for (let count = 0; count < 10; count++) strangers.push(await greet())
  await greet()
  await strangers[0]?.closed
  known.stream.write(Buffer.of(1))
  await known.watch.until(() => known.bytes() === 2)
})

for (const profile of ['standard', 'strict'] as const) {
  void test(`sessions of ${profile} that the relay has ended do not keep others out of a full endpoint`, async (t) => {
    const full: string[] = []
    const relay = await startQuicBench(t, {
      onChunk: (transport, stream, chunk) => {
        transport.known?.(stream)
        transport.write([stream], chunk)
      },
      maxSessions: 10,
      full: (address) => full.push(address),
    })
    const greet = async (): Promise<Dialled> => {
      const agent = open(await dial(t, relay.target()))
      agent.stream.write(Buffer.of(1))
      const refused = agent.closed.then((reason) => assert.fail(reason ?? new Error('the connection was closed')))
      await Promise.race([agent.watch.until(() => agent.bytes() === 1), refused])
      refused.catch(() => {})
      return agent
    }
    const kept: Dialled[] = []
    for (let count = 0; count < 8; count++) kept.push(await greet())
    const ended: Dialled[] = []
    for (let count = 0; count < 3; count++) ended.push(await greet())
    for (const { id } of relay.streams.slice(8)) {
      // On a clock, what still has to be sent takes 20 s.
      if (profile === 'strict') {
        relay.transport.pace(id, { type: 'steady', cellsPerSecond: 1 })
        relay.transport.write([id], Buffer.alloc(CELL_BYTES * 20))
      }
      relay.transport.end(id)
    }
    // The endpoint's thread must hear of the ends before the next connection, which takes another way into it.
    const [first] = kept
    first?.stream.write(Buffer.of(1))
    await first?.watch.until(() => first.bytes() === 2)
    for (let count = 0; count < 3; count++) await greet()
    for (const { closed } of ended) await closed
    assert.deepEqual(full, [])
    for (const { stream, watch, bytes } of kept) {
      const before = bytes()
      stream.write(Buffer.of(1))
      await watch.until(() => bytes() === before + 1)
    }
  })
}

void test('an endpoint takes a tenth more than its sessions, and closes others at once with the reason', async (t) => {
  const full: unknown[] = []
  const told = new Watch()
  const noteFull: QuicOptions['full'] = (address, limit) => {
    full.push([address, limit])
    told.changed()
  }
  const onChunk: typeof echo.onChunk = (transport, stream, chunk) => {
    transport.known?.(stream)
    transport.write([stream], chunk)
  }
  const relay = await startQuicBench(t, { onChunk, maxSessions: 10, full: noteFull })
  // The agent of each is known, because others do not stay.
  const dialled = Array.from({ length: 11 }, async () => {
    const agent = open(await dial(t, relay.target()))
    agent.stream.write(Buffer.of(1))
    await agent.watch.until(() => agent.bytes() === 1)
    return agent
  })
  const agents = await Promise.all(dialled)
  const limit = ['127.0.0.1', { limit: 'quicPerEndpoint', value: 10 }]
  assert.deepEqual(full, [])
  // The connection is open for a moment; a busy thread sees it closed before that.
  const attempt = async (): Promise<void> => {
    const more = await connectQuic(relay.target())
    await more.closed
    more.openStream({ data: () => {}, closed: () => {} })
  }
  await assert.rejects(
    attempt(),
    (error) =>
      error instanceof StaticError && error.code === 'unavailable' && /no more connections/.test(error.message),
  )
  await told.until(() => full.length === 1)
  assert.deepEqual(full, [limit])
  for (const { stream, watch, bytes } of agents) {
    stream.write(Buffer.of(1))
    await watch.until(() => bytes() === 2)
  }
})

void test('a port in use, a wrong host and a wrong certificate are reported clearly', async (t) => {
  const { server: certificate } = await quicCertificates()
  const relay = await startQuicBench(t)
  const options = { host: 'localhost', port: relay.transport.ports[0] ?? 0, endpoints: 1, certificate }
  await assert.rejects(startQuicTransport(options, HANDLER), (error: unknown) => {
    assert.ok(error instanceof StaticError)
    assert.equal(error.code, 'connection_error')
    assert.match(
      error.message,
      /^Cannot listen on UDP port \d+: it is in use by another program\. Stop that program, or choose another port \(see `--help`\)\.$/,
    )
    return true
  })
  await assert.rejects(startQuicTransport({ ...options, host: 'no.invalid' }, HANDLER), { code: 'invalid_request' })
  const other = await (await newAuthority()).issue(['localhost'])
  const mixed = { cert: certificate.cert, key: other.key }
  await assert.rejects(startQuicTransport({ ...options, certificate: mixed }, HANDLER), /do not match/)
  await assert.rejects(
    startQuicTransport({ ...options, certificate: { cert: 'x', key: 'y' } }, HANDLER),
    /is not valid PEM/,
  )
})

void test('ports after the first are left out if they are in use, unless they were asked for', async (t) => {
  const { server: certificate } = await quicCertificates()
  let first: number | undefined
  while (first === undefined) first = await freePorts('127.0.0.1', 2)
  const other = createSocket('udp4').bind(first + 1, '127.0.0.1')
  await once(other, 'listening')
  t.after(() => other.close())
  const lines: string[] = []
  const log: QuicOptions['log'] = (message) => lines.push(message)
  const options = { host: '127.0.0.1', port: first, endpoints: 2, certificate, log }
  await assert.rejects(startQuicTransport(options, HANDLER), /in use by another program/)
  const transport = await startQuicTransport({ ...options, allPorts: false }, HANDLER)
  t.after(() => transport.stop())
  assert.deepEqual([transport.ports, lines], [[first], ['Serving 1 of 2 QUIC endpoints.']])
})

void test('a connection without a session is closed after 5 s', async (t) => {
  const relay = await startQuicBench(t)
  const connection = await dial(t, relay.target())
  // Nothing is written, so the relay never hears of this stream.
  assert.match((await open(connection).closed)?.message ?? '', /no session was opened in time/)
  assert.equal(relay.streams.length, 0)
})
