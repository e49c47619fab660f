/** The port of files behind a stand-alone proxy: who is believed about addresses, and a relay that is away. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import { Agent, request as requestHttps, type RequestOptions } from 'node:https'
import { type TestContext, test } from 'node:test'
import { connect as connectTls } from 'node:tls'
import { certificates } from '@static/testkit/certificates'
import { quietPort } from '@static/testkit/ports'
import { AGENT_ADDRESS, refuse } from '../../src/files/part-request.ts'
import { type PartHandler, type PartServer, startPartServer } from '../../src/files/part-server.ts'
import { announce } from '../../src/proxy/files.ts'
import { type FilesUpstream, Forwarder } from '../../src/proxy/forwarder.ts'

const PATH = `/v1/files/${'01'.repeat(16)}/${'02'.repeat(16)}/0`
const OTHER = '192.0.2.7'

/** A port with a handler of a test, which takes proxies of the tests' authority. */
async function serve(
  t: TestContext,
  handler: PartHandler,
  failed: (error: unknown) => void = (error) => assert.fail(String(error)),
): Promise<PartServer> {
  const { authority, named } = await certificates()
  const server = await startPartServer(
    {
      host: 'localhost',
      port: 0,
      certificate: named,
      namedCertificate: named,
      proxyProtocolFrom: [],
      proxyCa: authority.cert,
      failed,
    },
    handler,
  )
  t.after(() => server.stop())
  return server
}

interface Answered {
  readonly status: number
  readonly body: string
}

async function ask(port: number, options: RequestOptions): Promise<Answered> {
  const { authority } = await certificates()
  const request = requestHttps({ host: 'localhost', port, ca: authority.cert, agent: false, path: PATH, ...options })
  request.end()
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  return { status: response.statusCode ?? 0, body: Buffer.concat((await response.toArray()) as Buffer[]).toString() }
}

test('the address of an agent is believed from a proxy alone, and from no resumed session', async (t) => {
  const { client, named } = await certificates()
  const addresses: string[] = []
  const { port } = await serve(t, async (_request, response, address) => {
    addresses.push(address)
    response.end()
  })
  const headers = { [AGENT_ADDRESS]: OTHER }
  const from = async (options: RequestOptions): Promise<string | undefined> => {
    await ask(port, { headers, ...options })
    return addresses.pop()
  }
  assert.equal(await from({ ...client }), OTHER)
  assert.equal(await from({ ...client, headers: { [AGENT_ADDRESS]: '2001:db8::1' } }), '2001:db8:0:0::/64')
  // Others: without a certificate, with one for servers, and a proxy that names nothing.
  const own = /^(127\.0\.0\.1|0:0:0:0::\/64)$/
  for (const options of [{}, { ...named }, { ...client, headers: { [AGENT_ADDRESS]: 'localhost' } }]) {
    assert.match(String(await from(options)), own)
  }
  // Node counts a resumed session as authorized.
  const agent = new Agent({ maxCachedSessions: 10 })
  let isReused = false
  agent.on('keylog', (_line, socket) => socket.once('secureConnect', () => (isReused = socket.isSessionReused())))
  t.after(() => agent.destroy())
  for (let round = 0; round < 5; round++) assert.match(String(await from({ agent, servername: 'localhost' })), own)
  assert.ok(isReused, 'the last session was a resumed one')
})

/** The port of a proxy of a relay. */
async function forward(t: TestContext, relayPort: number): Promise<number> {
  const { authority, client } = await certificates()
  const forwarder = new Forwarder(
    {
      addresses: [{ host: 'localhost', port: relayPort }],
      serverName: 'localhost',
      ca: authority.cert,
      clientCertificate: client,
    },
    (error) => assert.fail(String(error)),
    () => performance.now(),
  )
  t.after(() => forwarder.close())
  const { port } = await serve(t, (request, response) => forwarder.handle(request, response, OTHER))
  return port
}

/** All that a server answers to bytes over TLS, until it closes the connection. */
async function raw(t: TestContext, port: number, texts: readonly string[]): Promise<string> {
  const { authority } = await certificates()
  const socket = connectTls({ host: 'localhost', port, ca: authority.cert, ALPNProtocols: ['http/1.1'] })
  t.after(() => socket.destroy())
  // The server may reset the connection instead of reading the rest.
  const closed = new Promise((resolve) => socket.once('close', resolve))
  socket.on('error', () => {})
  let answered = ''
  socket.on('data', (chunk: Buffer) => (answered += chunk.toString()))
  for (const text of texts) socket.write(text, 'latin1')
  await closed
  return answered
}

test('a proxy passes a part with its agent’s address on, and goes to another node when one is away', async (t) => {
  const { authority, client } = await certificates()
  const seen: unknown[] = []
  const relay = await serve(t, async ({ headers, method }, response, address) => {
    const { 'static-session': token, cookie } = headers
    seen.push([method, address, token, cookie])
    if (token === 'unknown') return refuse(response, { refused: 'rate_limited', retryAfterMs: 3000 })
    response.writeHead(200, { 'content-length': 4, 'x-internal': 'no' }).end('part')
  })
  const addresses = [
    { host: 'localhost', port: await quietPort() },
    { host: 'localhost', port: relay.port },
  ]
  const upstream: FilesUpstream = { addresses, serverName: 'localhost', ca: authority.cert, clientCertificate: client }
  const failures: unknown[] = []
  const forwarder = new Forwarder(
    upstream,
    (error) => failures.push(error),
    () => performance.now(),
  )
  t.after(() => forwarder.close())
  const { port } = await serve(t, (request, response) => forwarder.handle(request, response, OTHER))
  const headers = { 'static-session': 'token', cookie: 'x', [AGENT_ADDRESS]: '198.51.100.1' }
  const away = await ask(port, { headers })
  assert.deepEqual([away.status, JSON.parse(away.body).code, failures.length], [503, 'unavailable', 1])
  assert.deepEqual(await ask(port, { headers }), { status: 200, body: 'part' })
  assert.equal((await ask(port, { headers: { 'static-session': 'unknown' } })).status, 429)
  assert.deepEqual(seen, [
    ['GET', OTHER, 'token', undefined],
    ['GET', OTHER, 'unknown', undefined],
  ])
  assert.equal((await ask(port, { headers, path: '/metrics' })).status, 404)
  assert.equal(seen.length, 2)
})

test('the body of a GET never becomes a request of its own behind a proxy', async (t) => {
  const { authority } = await certificates()
  const seen: unknown[] = []
  const relay = await serve(t, async ({ url, method }, response, address) => {
    seen.push([method, url, address])
    response.writeHead(200, { 'content-length': 4 }).end('part')
  })
  const port = await forward(t, relay.port)
  const hidden = PATH.replace(/0$/, '7')
  const smuggled = `GET ${hidden} HTTP/1.1\r\nhost: localhost\r\n${AGENT_ADDRESS}: 198.51.100.1\r\n\r\n`
  const session = connectHttp2(`https://localhost:${port}`, { ca: authority.cert })
  t.after(() => session.close())
  for (const length of [{}, { 'content-length': String(smuggled.length) }]) {
    const stream = session.request({ ':method': 'GET', ':path': PATH, ...length }, { endStream: false })
    stream.on('error', () => {})
    stream.end(smuggled)
    const [answer] = (await once(stream, 'response')) as [Record<string, unknown>]
    assert.equal(answer[':status'], 400)
    stream.resume()
    await once(stream, 'close')
  }
  const chunked = await raw(t, port, [
    `GET ${PATH} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n`,
    `${smuggled.length.toString(16)}\r\n${smuggled}\r\n0\r\n\r\n`,
  ])
  assert.match(chunked, /^HTTP\/1\.1 400 /)
  assert.equal((await ask(port, {})).status, 200)
  assert.deepEqual(seen, [['GET', PATH, OTHER]])
})

test('a proxy passes on what it has understood alone', async (t) => {
  const seen: unknown[] = []
  const relay = await serve(t, async (request, response) => {
    const { method, headers } = request
    const body = Buffer.concat((await request.toArray()) as Buffer[]).toString()
    seen.push([method, body, headers['static-session'], headers['expect'] ?? headers['upgrade'] ?? headers['trailer']])
    response.writeHead(204).end()
  })
  const port = await forward(t, relay.port)
  const request = (method: string, headers: readonly string[], body = ''): string =>
    [`${method} ${PATH} HTTP/1.1`, 'host: localhost', 'connection: close', ...headers, '', body].join('\r\n')
  const status = async (text: string): Promise<string> => (await raw(t, port, [text])).slice(9, 12)
  const hidden = `GET ${PATH} HTTP/1.1\r\nhost: localhost\r\n\r\n`
  for (const [text, expected] of [
    [request('PUT', [], 'part'), '400'],
    [request('PUT', ['content-length: 0'], hidden), '400'],
    [request('PUT', ['content-length: +4'], 'part'), '400'],
    [request('PUT', ['content-length: 4', 'content-length: 5'], 'part'), '400'],
    [request('PUT', ['content-length: 4', 'transfer-encoding: chunked'], '0\r\n\r\n'), '400'],
    [request('PUT', ['transfer-encoding: chunked'], '4\r\npart\r\n0\r\n\r\n'), '400'],
    [request('PUT', ['transfer-encoding: gzip'], hidden), '400'],
    [request('GET', ['content-length: 4'], 'part'), '400'],
    [request('GET', ['static-session: a\u0001b']), '400'],
    [request('PUT', ['content-length: 4', 'expect: something'], 'part'), '417'],
    [request('CONNECT', []), ''],
  ] as const) {
    assert.equal(await status(text), expected, text)
    assert.deepEqual(seen, [])
  }
  const token = 'static-session: a\u00e9'
  assert.equal(await status(request('PUT', ['content-length: 4', token], 'part')), '204')
  assert.equal(await status(request('GET', ['upgrade: websocket', 'connection: upgrade', token])), '204')
  assert.match(
    await raw(t, port, [request('PUT', ['content-length: 4', 'expect: 100-continue', token], 'part')]),
    /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 204 /,
  )
  assert.deepEqual(seen, [
    ['PUT', 'part', 'a\u00e9', undefined],
    ['GET', '', 'a\u00e9', undefined],
    ['PUT', 'part', 'a\u00e9', undefined],
  ])
})

test('a part that the relay refuses early costs no agent its answer, and its connection takes no other part', async (t) => {
  const { authority } = await certificates()
  const bodies: number[] = []
  const relay = await serve(t, async (request, response) => {
    if (request.headers['static-session'] === 'unknown') return refuse(response, { refused: 'auth_failed' })
    bodies.push(Buffer.concat((await request.toArray()) as Buffer[]).length)
    response.writeHead(204).end()
  })
  const port = await forward(t, relay.port)
  const body = Buffer.alloc(1_000_000, 'x')
  const agent = new Agent({ ca: authority.cert, keepAlive: true, maxSockets: 1 })
  t.after(() => agent.destroy())
  const put = async (token: string): Promise<number> => {
    const headers = { 'static-session': token, 'content-length': body.length }
    const request = requestHttps({ host: 'localhost', port, agent, method: 'PUT', path: PATH, headers })
    request.write(body.subarray(0, 1000))
    // The answer comes before the rest of the body is sent.
    if (token === 'known') request.end(body.subarray(1000))
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    if (token !== 'known') {
      request.end(body.subarray(1000))
      await once(request, 'finish')
    }
    await response.resume().toArray()
    return response.statusCode ?? 0
  }
  for (let round = 0; round < 3; round++) {
    assert.equal(await put('unknown'), 401)
    assert.equal(await put('known'), 204)
  }
  const session = connectHttp2(`https://localhost:${port}`, { ca: authority.cert })
  t.after(() => session.close())
  const headers = { ':method': 'PUT', ':path': PATH, 'static-session': 'unknown', 'content-length': '1000000' }
  for (let round = 0; round < 3; round++) {
    const stream = session.request(headers)
    stream.on('error', () => {})
    stream.write(body.subarray(0, 100_000))
    const closed = once(stream, 'close')
    const [answer] = (await once(stream, 'response')) as [Record<string, unknown>]
    assert.equal(answer[':status'], 401)
    stream.resume()
    await closed
  }
  assert.deepEqual(bodies, [body.length, body.length, body.length])
})

test('a request that fails unforeseen fails alone', async (t) => {
  const failures: unknown[] = []
  let calls = 0
  const handler: PartHandler = (_request, response) => {
    if (++calls === 1) throw new Error('at once')
    if (calls === 2) return Promise.reject(new Error('later'))
    response.end()
    return Promise.resolve()
  }
  const { port } = await serve(t, handler, (error) => failures.push(String(error)))
  for (let round = 0; round < 2; round++)
    await assert.rejects(ask(port, { signal: AbortSignal.timeout(20_000) }), /hang up/)
  assert.equal((await ask(port, {})).status, 200)
  assert.deepEqual(failures, ['Error: at once', 'Error: later'])
})

test('agents behind a proxy learn its port of files, and none where the relay takes none', () => {
  const opened = (filesPort: number, filesUrl = ''): Parameters<typeof announce>[0] =>
    ({ grpcPort: 5000, filesPort, filesUrl }) as Parameters<typeof announce>[0]
  const told = (value: ReturnType<typeof opened>, files: number, filesUrl = ''): unknown[] => {
    announce(value, { grpc: 1, files, filesUrl })
    return [value.grpcPort, value.filesPort, value.filesUrl]
  }
  assert.deepEqual(told(opened(5010), 2), [1, 2, ''])
  assert.deepEqual(told(opened(5010, 'https://files.example.com'), 2), [1, 2, ''])
  assert.deepEqual(told(opened(5010), 2, 'https://proxy.example.com'), [1, 2, 'https://proxy.example.com'])
  assert.deepEqual(told(opened(5010), 0, 'https://proxy.example.com'), [1, 0, ''])
  assert.deepEqual(told(opened(0), 2, 'https://proxy.example.com'), [1, 0, ''])
})
