/** The port of files behind a stand-alone proxy: who is believed about addresses, and a relay that is away. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { Agent, request as requestHttps, type RequestOptions } from 'node:https'
import { type TestContext, test } from 'node:test'
import { certificates } from '@static/testkit/certificates'
import { quietPort } from '@static/testkit/ports'
import { AGENT_ADDRESS, refuse } from '../../src/files/part-request.ts'
import { type PartHandler, type PartServer, startPartServer } from '../../src/files/part-server.ts'
import { announce } from '../../src/proxy/files.ts'
import { type FilesUpstream, Forwarder } from '../../src/proxy/forwarder.ts'

const PATH = `/v1/files/${'01'.repeat(16)}/${'02'.repeat(16)}/0`
const OTHER = '192.0.2.7'

/** A port with a handler of a test, which takes proxies of the tests' authority. */
async function serve(t: TestContext, handler: PartHandler): Promise<PartServer> {
  const { authority, named } = await certificates()
  const server = await startPartServer(
    {
      host: 'localhost',
      port: 0,
      certificate: named,
      namedCertificate: named,
      proxyProtocolFrom: [],
      proxyCa: authority.cert,
      failed: (error) => assert.fail(String(error)),
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
