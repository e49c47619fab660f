import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as dialPlain } from 'node:net'
import { after, before, test } from 'node:test'
import { connect, type ConnectionOptions, type TLSSocket } from 'node:tls'
import { LOOPBACKS } from '@static/testkit/ports'
import { groupOf, HYBRID_GROUP, TLS_GROUPS } from '@static/node/tls-groups'
import { certificates } from '@static/testkit/certificates'
import { toStaticError } from '../../src/http/problem.ts'
import { type Bench, startBench } from '../support.ts'

let bench: Bench
before(async () => {
  bench = await startBench('sqlite')
})
after(() => bench.close())

async function dial(options: { host?: string; ecdhCurve?: string; maxVersion?: 'TLSv1.2' } = {}): Promise<TLSSocket> {
  const { authority } = await certificates()
  const port = Number(new URL(bench.api.url).port)
  const socket = connect({ host: '127.0.0.1', port, servername: 'localhost', ca: authority.cert, ...options })
  await once(socket, 'secureConnect')
  return socket
}

test('a client that keeps sending requests without waiting for responses is cut off', async () => {
  const socket = await dial()
  socket.on('error', () => {})
  socket.write('GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n'.repeat(400))
  let answers = 0
  socket.on('data', (chunk: Buffer) => (answers += chunk.toString('latin1').split('HTTP/1.1 200').length - 1))
  await once(socket, 'close')
  assert.ok(answers <= 16, `${answers} answers`)
  assert.equal((await bench.call('GET', '/health')).status, 200)
})

test('pipelined requests on one connection are all answered', async () => {
  const socket = await dial()
  for (let round = 0; round < 20; round++) {
    socket.write('GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n')
    const [chunk] = (await once(socket, 'data')) as [Buffer]
    assert.match(chunk.toString(), /^HTTP\/1\.1 200 /)
  }
  socket.destroy()
})

for (const [what, bytes] of [
  ['what is no request', 'GARBAGE\r\n\r\n'],
  ['a request of HTTP/1.1 without a Host', 'GET /health HTTP/1.1\r\n\r\n'],
  ['a request with two Hosts', 'GET /health HTTP/1.1\r\nHost: localhost\r\nhost: localhost\r\n\r\n'],
] as const) {
  test(`${what} also gets the headers of every response`, async () => {
    const socket = await dial()
    socket.write(bytes)
    const [chunk] = (await once(socket, 'data')) as [Buffer]
    const text = chunk.toString()
    assert.match(text, /^HTTP\/1\.1 400 /)
    for (const header of [
      'x-request-id',
      'cache-control: no-store',
      'ratelimit-policy: "failures"',
      'ratelimit: "failures"',
    ]) {
      assert.ok(text.includes(header), header)
    }
    assert.match(text, /connection: close/)
    assert.match(text, /"code":"invalid_request"/)
  })
}

test('HTTP/1.0 does not need a Host header', async () => {
  const socket = await dial()
  socket.write('GET /health HTTP/1.0\r\n\r\n')
  const [chunk] = (await once(socket, 'data')) as [Buffer]
  assert.match(chunk.toString(), /^HTTP\/1\.1 200 /)
  socket.destroy()
})

test('a client that aborts its request is not mistaken for an unreachable database', async () => {
  const before = bench.lines.length
  const socket = await dial()
  socket.write(
    'POST /v1/accounts HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{',
  )
  // An answer to something else shows that the first bytes have been read.
  for (let turn = 0; turn < 3; turn++) await bench.call('GET', '/health')
  socket.destroy()
  await once(socket, 'close')
  // Answers to what was asked later show that the end of the connection has been read.
  for (let turn = 0; turn < 3; turn++) await bench.call('GET', '/health')
  for (const line of bench.lines.slice(before)) assert.doesNotMatch(line, /database|"level":"(error|fatal)"/)
})

test('requests whose senders have reset the connection before they are read end quietly', async () => {
  const before = bench.lines.length
  const { authority } = await certificates()
  for (let at = 0; at < 10; at++) {
    const raw = dialPlain({ host: '127.0.0.1', port: Number(new URL(bench.api.url).port) })
    const socket = connect({ socket: raw, servername: 'localhost', ca: authority.cert })
    await once(socket, 'secureConnect')
    socket.write('GET /v1/keys HTTP/1.1\r\nhost: localhost\r\n\r\n', () => raw.resetAndDestroy())
    await once(raw, 'close')
  }
  for (let turn = 0; turn < 3; turn++) await bench.call('GET', '/health')
  for (const line of bench.lines.slice(before)) assert.doesNotMatch(line, /"level":"(error|fatal)"|"status":500/)
})

test('the same error code means an unreachable database, or a disconnected client if Fastify has set a status', () => {
  const reset = (): Error => Object.assign(new Error('aborted'), { code: 'ECONNRESET' })
  assert.equal(toStaticError(reset()).code, 'unavailable')
  assert.equal(toStaticError(Object.assign(reset(), { statusCode: 400 })).code, 'invalid_request')
})

test('an unknown Expect header does no harm', async () => {
  const answer = await bench.call('GET', '/health', { headers: { expect: 'the unexpected' } })
  assert.deepEqual([answer.status, answer.body], [200, { status: 'ok' }])
})

test('localhost means both loopback addresses', async () => {
  for (const host of LOOPBACKS) (await dial({ host })).destroy()
})

test('TLS 1.2 and other curves are refused, before and after a new certificate', async () => {
  for (const certificate of [undefined, (await certificates()).certificate]) {
    if (certificate) bench.api.renew(certificate)
    // Whatever a client prefers, a recording stays closed if it can; one that cannot is served as before.
    for (const [ecdhCurve, group] of [
      [TLS_GROUPS, HYBRID_GROUP],
      [HYBRID_GROUP, HYBRID_GROUP],
      ['X25519', 'X25519'],
    ] as const) {
      const socket = await dial({ ecdhCurve })
      assert.equal(groupOf(socket), group)
      socket.destroy()
    }
    ;(await dial({ ecdhCurve: 'P-384' })).destroy()
    await assert.rejects(dial({ maxVersion: 'TLSv1.2' }))
    await assert.rejects(dial({ ecdhCurve: 'P-521' }))
  }
})

test('a certificate that does not match its key is rejected, and the old one stays', async () => {
  const { authority, certificate } = await certificates()
  const other = await authority.issue(['localhost'])
  assert.throws(() => bench.api.renew({ cert: certificate.cert, key: other.key }))
  assert.equal((await bench.call('GET', '/health')).status, 200)
  ;(await dial()).destroy()
})

test('ten addresses that hold all connections do not keep another one out', async (t) => {
  const http = { connections: 20, connectionsPerAddress: 2 }
  const full = await startBench('sqlite', { settings: { http } })
  t.after(() => full.close())
  const { authority } = await certificates()
  const port = Number(new URL(full.api.url).port)
  const from = async (localAddress: string): Promise<TLSSocket> => {
    const place = { host: '127.0.0.1', port, localAddress }
    const socket = connect({ ...place, servername: 'localhost', ca: authority.cert } as ConnectionOptions)
    socket.on('error', () => {})
    await once(socket, 'secureConnect')
    return socket
  }
  const health = 'GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n'
  /** Has a status answered; what follows it has been read by then. */
  const ask = async (socket: TLSSocket, more = ''): Promise<void> => {
    socket.write(health + more)
    const [chunk] = (await once(socket, 'data')) as [Buffer]
    assert.match(chunk.toString(), /^HTTP\/1\.1 200/)
  }
  const json = 'content-type: application/json\r\ncontent-length: 9'
  const endless = `POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\n${json}\r\n\r\n{`
  const busy: TLSSocket[] = []
  for (let last = 10; last < 20; last++) busy.push(await from(`127.0.0.${last}`), await from(`127.0.0.${last}`))
  const idle = busy.pop()
  assert.ok(idle)
  for (const socket of busy) await ask(socket, endless)

  const gone = Promise.race([idle, ...busy].map(async (socket) => once(socket, 'close').then(() => socket)))
  const first = await from('127.0.0.30')
  assert.equal(await gone, idle)
  await ask(first, endless)
  // None is idle now: one of those that have two gives way.
  const lost = Promise.race(busy.map((socket) => once(socket, 'close')))
  await ask(await from('127.0.0.31'))
  await lost
})
