import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Code, type ConnectError, createClient } from '@connectrpc/connect'
import { createConnectTransport, createGrpcTransport } from '@connectrpc/connect-node'
import { Health, HealthCheckResponse_ServingStatus as Status } from '@static/protocol/health'
import { type GrpcBench, startGrpcBench } from '../support/grpc-fakes.ts'
import { ask } from '../support/grpc-http.ts'

const VERSIONS = ['1.1', '2'] as const

function healthClients(bench: GrpcBench): ReturnType<typeof createClient<typeof Health>>[] {
  const options = { baseUrl: `https://localhost:${bench.transport.port}`, nodeOptions: { ca: bench.ca } }
  const transports = [createGrpcTransport(options), createConnectTransport({ ...options, httpVersion: '1.1' })]
  return transports.map((transport) => createClient(Health, transport))
}

test('GET /health returns name and version, or that the relay cannot serve', async () => {
  await using bench = await startGrpcBench()
  for (const version of VERSIONS) {
    bench.health.ready = true
    const well = await ask(bench, version, 'GET', '/health?verbose')
    assert.equal(well.status, 200)
    assert.deepEqual(JSON.parse(well.body), { status: 'ok', name: 'localhost', version: '1.2.3' })
    assert.equal(well.headers['content-type'], 'application/json')
    assert.equal((await ask(bench, version, 'HEAD', '/health')).body, '')
    bench.health.files = { port: 5010, url: '' }
    const { files_port: port, files_url: url } = JSON.parse(
      (await ask(bench, version, 'GET', '/health')).body,
    ) as object & {
      files_port?: unknown
      files_url?: unknown
    }
    assert.deepEqual([port, url], [5010, undefined])
    bench.health.files = undefined
    bench.health.ready = false
    const ill = await ask(bench, version, 'GET', '/health')
    assert.deepEqual([ill.status, JSON.parse(ill.body)], [503, { status: 'unavailable' }])
    // A supervisor that restarted it would end sessions, and bring no database back.
    const live = await ask(bench, version, 'GET', '/health/live')
    assert.deepEqual([live.status, JSON.parse(live.body)], [200, { status: 'ok' }])
  }
})

test('GET /health/ready also says whether the relay can use its API, and why not', async () => {
  await using bench = await startGrpcBench()
  const ready = async (): Promise<unknown[]> => {
    const { status, body } = await ask(bench, '2', 'GET', '/health/ready')
    return [status, JSON.parse(body)]
  }
  const rest = { name: 'localhost', version: '1.2.3' }
  assert.deepEqual(await ready(), [200, { status: 'ok', ...rest }], 'a proxy has no API')
  bench.health.api = { problem: undefined, clockOffsetMs: -12 }
  assert.deepEqual(await ready(), [200, { status: 'ok', ...rest, api: { status: 'ok', clock_offset_ms: -12 } }])
  bench.health.api = { problem: 'The API cannot be reached.', clockOffsetMs: undefined }
  const api = { status: 'unavailable', clock_offset_ms: null }
  const without = { status: 'unavailable', reason: 'The API cannot be reached.', ...rest, api }
  assert.deepEqual(await ready(), [503, without])
  assert.equal((await ask(bench, '2', 'GET', '/health')).status, 200, 'agents with a token go on')
  bench.health.ready = false
  const reason = 'The relay is stopping, or cannot write to its database.'
  assert.deepEqual(await ready(), [503, { ...without, reason }])
  for (const [clockOffsetMs, how] of [
    [-2500, '2.5 s behind'],
    [61_000, '61.0 s ahead of'],
  ] as const) {
    bench.health.store = { durability: 'fsync', clockOffsetMs }
    const problem = `The clock of the database is ${how} this node's. Set both by NTP.`
    const store = { durability: 'fsync', clock_offset_ms: clockOffsetMs }
    assert.deepEqual(await ready(), [503, { ...without, reason: problem, store }])
  }
})

test('grpc.health.v1 knows the server as a whole and the relay, and nothing else', async () => {
  await using bench = await startGrpcBench()
  for (const client of healthClients(bench)) {
    for (const service of ['', 'static.relay.v1.Relay']) {
      bench.health.ready = true
      assert.equal((await client.check({ service })).status, Status.SERVING)
      bench.health.ready = false
      assert.equal((await client.check({ service })).status, Status.NOT_SERVING)
    }
    await assert.rejects(client.check({ service: 'something.Else' }), { code: Code.NotFound })
  }
})

test('Watch of grpc.health.v1 reports each change, and its end when the port stops', async () => {
  await using bench = await startGrpcBench()
  const watches = healthClients(bench).flatMap((client) =>
    ['', 'static.relay.v1.Relay'].map((service) => client.watch({ service })[Symbol.asyncIterator]()),
  )
  const all = async (): Promise<unknown[]> =>
    await Promise.all(watches.map(async (watch) => (await watch.next()).value?.status))
  assert.deepEqual(
    await all(),
    watches.map(() => Status.SERVING),
  )
  bench.health.ready = false
  assert.deepEqual(
    await all(),
    watches.map(() => Status.NOT_SERVING),
  )
  bench.health.ready = true
  assert.deepEqual(
    await all(),
    watches.map(() => Status.SERVING),
  )
  const last = all()
  await bench.transport.stop()
  assert.deepEqual(
    await last,
    watches.map(() => Status.NOT_SERVING),
  )
  assert.deepEqual(
    await all(),
    watches.map(() => undefined),
  )
  assert.deepEqual(bench.failures, [])
})

test('Watch of an unknown service says so and stays open', async () => {
  await using bench = await startGrpcBench()
  for (const client of healthClients(bench)) {
    const watch = client.watch({ service: 'something.Else' })[Symbol.asyncIterator]()
    assert.equal((await watch.next()).value?.status, Status.SERVICE_UNKNOWN)
    await watch.return?.()
  }
})

test('one address has 64 watches; one that ends makes room for another', async () => {
  await using bench = await startGrpcBench()
  const [client] = healthClients(bench)
  assert.ok(client)
  const open = async (): Promise<AbortController> => {
    const gone = new AbortController()
    const watch = client.watch({}, { signal: gone.signal })[Symbol.asyncIterator]()
    await watch.next()
    return gone
  }
  const [first] = await Promise.all(Array.from({ length: 64 }, open))
  await assert.rejects(open(), { code: Code.ResourceExhausted })
  first?.abort()
  for (;;) {
    // The abort and the next call travel on one connection, in this order, but the stream closes a little later.
    const again = await open().catch((error: unknown) => error)
    if (again instanceof AbortController) break
    assert.equal((again as ConnectError).code, Code.ResourceExhausted)
  }
  assert.deepEqual(bench.failures, [])
})

test('when all watches are taken, the oldest of the address with the most ends in favour of one with fewer', async () => {
  await using bench = await startGrpcBench()
  const { port } = bench.transport
  const open = async (localAddress: string, count: number): Promise<AsyncIterator<{ readonly status: Status }>[]> => {
    const nodeOptions = { ca: bench.ca, localAddress }
    const client = createClient(Health, createGrpcTransport({ baseUrl: `https://localhost:${port}`, nodeOptions }))
    const watches = Array.from({ length: count }, () => client.watch({})[Symbol.asyncIterator]())
    await Promise.all(watches.map((watch) => watch.next()))
    return watches
  }
  const [first] = await open('127.0.0.10', 64)
  for (let last = 11; last < 26; last++) await open(`127.0.0.${last}`, 62)
  await open('127.0.0.26', 1000 - 64 - 15 * 62)
  const [newcomer] = await open('127.0.0.99', 1)
  await assert.rejects(async () => await first?.next(), { code: Code.ResourceExhausted })
  bench.health.ready = false
  assert.equal((await newcomer?.next())?.value.status, Status.NOT_SERVING)
  await assert.rejects(open('127.0.0.11', 1), { code: Code.ResourceExhausted }, 'no other has many more')
  assert.deepEqual(bench.failures, [])
})

test('everything else is 404, with the headers of every response', async () => {
  await using bench = await startGrpcBench()
  const paths = [
    ['GET', '/'],
    ['POST', '/health'],
    ['GET', '/static.relay.v1.Relay/Session'],
    ['OPTIONS', '/health'],
    ['DELETE', '/../etc/passwd'],
  ] as const
  for (const version of VERSIONS) {
    for (const [method, path] of paths) {
      const { status, body, headers } = await ask(bench, version, method, path)
      assert.deepEqual([status, body], [404, '{"code":"not_found"}'], `${method} ${path}`)
      assert.equal(headers['cache-control'], 'no-store')
      assert.equal(headers['x-content-type-options'], 'nosniff')
    }
  }
})

test('HSTS is for public names, not for this machine', async () => {
  await using bench = await startGrpcBench()
  const hsts = async (host: string): Promise<unknown> =>
    (await ask(bench, '1.1', 'GET', '/health', { host })).headers['strict-transport-security']
  assert.match(String(await hsts('relay.example:5000')), /^max-age=31536000/)
  assert.equal(await hsts('localhost:5000'), undefined)
})

test('no page may read anything unless its origin is configured', async () => {
  await using bench = await startGrpcBench()
  for (const version of VERSIONS) {
    const { headers } = await ask(bench, version, 'GET', '/health', { origin: 'https://app.example' })
    assert.equal(headers['access-control-allow-origin'], undefined)
    const preflight = { origin: 'https://app.example', 'access-control-request-method': 'POST' }
    const refused = await ask(bench, version, 'OPTIONS', '/static.relay.v1.Relay/Ack', preflight)
    assert.equal(refused.status, 405)
    assert.equal(refused.headers['access-control-allow-origin'], undefined)
  }
})

test('pages of configured origins may call the relay, and read tokens and errors', async () => {
  await using bench = await startGrpcBench({ origins: ['https://app.example'] })
  bench.calls.token = 'renewed'
  bench.calls.answer = () => ({ case: 'getChallenge', value: { relayName: 'localhost', nonce: new Uint8Array(3) } })
  const path = '/static.relay.v1.Relay/GetChallenge'
  for (const version of VERSIONS) {
    const origin = 'https://app.example'
    const preflight = await ask(bench, version, 'OPTIONS', path, { origin, 'access-control-request-method': 'POST' })
    assert.equal(preflight.status, 204)
    assert.equal(preflight.headers['access-control-allow-origin'], origin)
    assert.match(String(preflight.headers['access-control-allow-headers']), /content-type.*static-session/i)
    const json = { origin, 'content-type': 'application/json' }
    const { status, headers, body } = await ask(bench, version, 'POST', path, json, '{"revision":2}')
    assert.equal(status, 200)
    assert.deepEqual(JSON.parse(body), { relayName: 'localhost', nonce: 'AAAA' })
    assert.equal(headers['static-session'], 'renewed')
    assert.equal(headers['access-control-allow-origin'], origin)
    assert.match(String(headers['access-control-expose-headers']), /static-session.*static-error-bin/)
    const read = await ask(bench, version, 'GET', '/health', { origin })
    assert.equal(read.headers['access-control-allow-origin'], origin)

    const stranger = { origin: 'https://evil.example', 'access-control-request-method': 'POST' }
    assert.equal((await ask(bench, version, 'OPTIONS', path, stranger)).status, 405)
    const blind = await ask(bench, version, 'GET', '/health', stranger)
    assert.equal(blind.headers['access-control-allow-origin'], undefined)
    assert.equal(blind.headers.vary, 'origin')
  }
})

test('an invalid host name is reported and does no harm', async () => {
  await using bench = await startGrpcBench()
  const headers = { 'content-type': 'application/json', host: 'a b' }
  assert.equal((await ask(bench, '1.1', 'POST', '/static.relay.v1.Relay/GetChallenge', headers, '{}')).status, 400)
  assert.deepEqual(bench.failures, [])
  assert.equal((await ask(bench, '1.1', 'GET', '/health')).status, 200)
})
