import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { ERROR_MEANINGS, type ErrorCode, ERRORS } from '@static/protocol'
import { quietPort } from '@static/testkit/ports'
import { startApi } from '../../src/index.ts'
import { assertProblem, type Bench, makeDatabase, onEachEngine, startBench } from '../support.ts'

const RELAY = `relay_${'0'.repeat(32)}`

onEachEngine('plumbing', (engine) => {
  let bench: Bench
  before(async () => {
    bench = await startBench(engine, { internal: RELAY })
  })
  after(() => bench.close())

  test('health and readiness respond with ok', async () => {
    for (const path of ['/health', '/health/live', '/health/ready']) {
      const answer = await bench.call('GET', path)
      assert.deepEqual([answer.status, answer.body], [200, { status: 'ok' }])
    }
  })

  test('every response has its id, is not cached and reports the limits; no HSTS on loopback names', async () => {
    const { key } = (await bench.signUp()).api_key
    const answers = [
      await bench.call('GET', '/health'),
      await bench.call('GET', '/v1/keys', { key }),
      await bench.call('GET', '/v1/keys'),
      await bench.call('GET', '/nothing-here'),
      await bench.call('PATCH', '/v1/keys'),
      await bench.call('GET', '/%ff'),
      await bench.call('POST', '/v1/accounts', { headers: { 'content-type': 'text/plain', 'content-length': '0' } }),
    ]
    for (const { headers } of answers) {
      assert.match(String(headers['x-request-id']), /^[0-9a-f-]{36}$/)
      assert.equal(headers['cache-control'], 'no-store')
      assert.match(String(headers['ratelimit-policy']), /^"\S+";q=\d+;w=\d+/)
      assert.match(String(headers['ratelimit']), /^"\S+";r=\d+;t=\d+/)
      assert.equal(headers['strict-transport-security'], undefined)
    }
    const jwks = await bench.call('GET', '/.well-known/jwks.json')
    assert.equal(jwks.headers['cache-control'], 'public, max-age=300')
  })

  test('a NUL, which PostgreSQL cannot store, is refused wherever text is taken', async () => {
    const { id, api_key: first, password } = await bench.signUp()
    const { key } = first
    const text = 'a\0b'
    for (const [method, path, ask] of [
      ['POST', '/v1/accounts', { body: { email: 'a\0@example.com', password } }],
      ['POST', '/v1/accounts', { body: { email: 'nul@example.com', password, name: text } }],
      ['POST', '/v1/accounts', { body: { email: 'nul-2@example.com', password, invite: text } }],
      ['POST', '/v1/sessions', { body: { email: 'a\0@example.com', password } }],
      ['POST', '/v1/sessions', { body: { email: 'nul@example.com', password: `${text}${text}${text}` } }],
      ['GET', '/v1/accounts/a%00b', { key }],
      ['PUT', '/v1/accounts/a%00b/password', { body: { current_password: password, new_password: 'new password' } }],
      ['DELETE', '/v1/accounts/a%00b', { body: { password } }],
      ['POST', `/v1/accounts/${id}/keys`, { body: { password: text } }],
      ['POST', '/v1/keys', { key, body: { name: text } }],
      ['DELETE', '/v1/keys/a%00b', { key }],
      ['POST', '/v1/tokens', { key, body: { agent_id: text } }],
      ['POST', '/v1/passwords', { body: { token: text, password } }],
      ['POST', '/internal/v1/quota/leases', { key: RELAY, body: { account_id: text, mode: 'live' } }],
      ['POST', '/internal/v1/quota/leases/a%00b/settle', { key: RELAY, body: { spent: 1, final: true } }],
      ['POST', '/internal/v1/accounts/blocked', { key: RELAY, body: { account_ids: [text] } }],
      ['GET', '/v1/audit?before=a%00b', { key }],
    ] as const) {
      const { status, body } = await bench.call(method, path, ask)
      assert.ok(status < 500, `${method} ${path} ${JSON.stringify(ask)}: ${status} ${JSON.stringify(body)}`)
    }
  })

  test('a path that supports other methods names them', async () => {
    for (const [method, path, allow] of [
      ['PATCH', '/v1/keys', 'POST, GET, HEAD'],
      ['GET', '/v1/tokens', 'POST'],
      ['POST', '/health', 'GET, HEAD'],
      ['OPTIONS', '/v1/accounts', 'POST'],
    ] as const) {
      const answer = await bench.call(method, path)
      assertProblem(answer, 405, 'method_not_allowed')
      assert.equal(answer.headers.allow, allow)
    }
    assertProblem(await bench.call('GET', '/v2/keys'), 404, 'not_found')
    const { key } = (await bench.signUp()).api_key
    assertProblem(await bench.call('DELETE', `/v1/keys/${'x'.repeat(3000)}`, { key }), 404, 'not_found')
    assertProblem(await bench.call('GET', '/v1/keys?page=2', { key }), 400, 'invalid_request')
  })

  test('the body must be small, well-formed JSON', async () => {
    const json = { 'content-type': 'application/json' }
    for (const [body, headers, status, code] of [
      ['{', json, 400, 'invalid_json'],
      [Buffer.from([0x22, 0xff, 0x22]), json, 400, 'invalid_json'],
      ['"text"', json, 400, 'invalid_request'],
      ['null', json, 400, 'invalid_request'],
      ['a=b', { 'content-type': 'application/x-www-form-urlencoded' }, 415, 'unsupported_media_type'],
      ['{}', { 'content-type': 'text/plain' }, 415, 'unsupported_media_type'],
      [`{"email":"${'a'.repeat(17_000)}"}`, json, 413, 'body_too_large'],
    ] as const) {
      assertProblem(await bench.send('POST', '/v1/accounts', body, headers), status, code)
    }
  })

  test('the API serves its own description, and its pages load nothing external', async () => {
    const { body: document } = await bench.call('GET', '/openapi.json')
    assert.equal(document.openapi, '3.1.0')
    assert.deepEqual(Object.keys(document.paths).sort(), [
      '/.well-known/jwks.json',
      '/.well-known/static-server.json',
      '/health',
      '/health/live',
      '/health/ready',
      '/v1/accounts',
      '/v1/accounts/me',
      '/v1/accounts/{id}',
      '/v1/accounts/{id}/keys',
      '/v1/accounts/{id}/password',
      '/v1/audit',
      '/v1/channels',
      '/v1/channels/deletions',
      '/v1/keys',
      '/v1/keys/{id}',
      '/v1/passwords',
      '/v1/sessions',
      '/v1/sessions/current',
      '/v1/sessions/{id}',
      '/v1/signup',
      '/v1/tokens',
      '/v1/usage',
    ])
    assert.deepEqual(document.servers, [{ url: bench.api.url }])
    const ids = Object.values<Record<string, { operationId?: string }>>(document.paths).flatMap((path) =>
      Object.values(path).map(({ operationId }) => operationId ?? ''),
    )
    for (const id of ids) assert.match(id, /^[a-z]+([A-Z][a-z]+)+$/)
    assert.equal(new Set(ids).size, ids.length, 'generators make one function of each operation')
    for (const path of ['/docs', '/docs/errors']) {
      const page = await bench.call('GET', path)
      assert.equal(page.status, 200)
      assert.match(String(page.headers['content-security-policy']), /^default-src 'none'/)
    }
    const { body: errors } = await bench.call('GET', '/docs/errors')
    const text = errors
      .replaceAll(/<[^>]+>/g, '')
      .replaceAll(/&#(\d+);/g, (_entity: string, point: string) => String.fromCharCode(Number(point)))
    for (const [code, { remedy }] of Object.entries(ERRORS)) {
      assert.ok(errors.includes(`id="${code}"`), code)
      for (const words of [ERROR_MEANINGS[code as ErrorCode], remedy]) {
        assert.ok(text.includes(words.replaceAll('`', '')), words)
      }
    }
    const { body: docs } = await bench.call('GET', '/docs')
    assert.ok(docs.includes('id="post-v1-keys"') && docs.includes('href="#post-v1-keys"'))
  })

  test('metrics are Prometheus text without any data about callers', async () => {
    const { email, id, api_key: first } = await bench.signUp()
    await bench.call('DELETE', `/v1/keys/${first.id}`, { key: first.key })
    const { body, headers } = await bench.call('GET', '/metrics')
    assert.match(String(headers['content-type']), /^text\/plain/)
    assert.match(body, /static_api_request_seconds_count\{method="DELETE",route="\/v1\/keys\/:id",status="204"\} 1/)
    assert.match(body, /# TYPE static_api_argon2_runs_total counter\nstatic_api_argon2_runs_total \d+/)
    for (const secret of [email, id, first.id, first.key]) assert.ok(!body.includes(secret))
  })
})

describe('plumbing of a public server', () => {
  test('a flood of refused requests writes a few lines for each route and status, not one for each', async (t) => {
    const bench = await startBench('sqlite', { logLevel: 'info' })
    t.after(() => bench.close())
    const ask = async (path: string, times: number): Promise<void> => {
      const answers = Array.from({ length: times }, (_, at) => bench.call('GET', path.replace('N', String(at))))
      for (const { status } of await Promise.all(answers)) assert.ok(status >= 400)
    }
    await ask('/nothing/N', 200)
    await ask('/v1/keys', 200)
    // The flood of one kind does not hide the others.
    await ask('/v1/usage', 3)
    const lines = bench.lines.map((line) => JSON.parse(line) as Record<string, unknown>)
    const ofRoute = (route: string | null): number =>
      lines.filter((line) => line['msg'] === 'request completed' && line['route'] === route).length
    assert.deepEqual([ofRoute(null), ofRoute('/v1/keys'), ofRoute('/v1/usage')], [10, 10, 3])
  })

  test('a public name gets HSTS, and metrics behind a proxy require the token', async () => {
    const { database, remove } = await makeDatabase('sqlite')
    const port = await quietPort()
    const api = await startApi({
      database,
      masterKey: randomBytes(32),
      host: '127.0.0.1',
      port,
      name: 'api.example.com:443',
      metricsToken: 'the metrics token',
      trustedProxies: ['127.0.0.1'],
      log: { write: () => {}, pretty: false, level: 'silent' },
    })
    assert.equal(api.url, 'http://api.example.com:443')
    const ask = (path: string, headers: Record<string, string> = {}): Promise<Response> =>
      fetch(`http://127.0.0.1:${port}${path}`, { headers })
    const health = await ask('/health')
    assert.match(health.headers.get('strict-transport-security') ?? '', /max-age=/)
    assert.equal((await ask('/metrics')).status, 401, 'behind a proxy, this machine is everybody')
    const outside = { 'x-forwarded-for': '192.0.2.7' }
    assert.equal((await ask('/metrics', outside)).status, 401)
    assert.equal((await ask('/metrics', { ...outside, authorization: 'Bearer the metrics token' })).status, 200)
    assert.equal((await ask('/metrics', { ...outside, authorization: 'Bearer another token' })).status, 401)
    await api.close()
    await remove()
  })

  test('plain HTTP works only on loopback', async () => {
    const { database, remove } = await makeDatabase('sqlite')
    const options = {
      database,
      masterKey: randomBytes(32),
      port: 0,
      log: { write: () => {}, pretty: false, level: 'silent' as const },
    }
    await assert.rejects(startApi({ ...options, host: '0.0.0.0' }), { code: 'invalid_request' })
    const lines: string[] = []
    const log = { write: (line: string) => lines.push(line), pretty: true, level: 'warn' as const }
    const api = await startApi({ ...options, host: '127.0.0.1', log })
    assert.match(lines.join(''), /plain HTTP/)
    await api.close()
    await remove()
  })

  test('while the database is unreachable, readiness reports why and requests get a retry time', async () => {
    const { database, remove } = await makeDatabase('postgres')
    const bench = await startBench('postgres', { database })
    const { key } = (await bench.signUp()).api_key
    await remove()
    const ready = await bench.call('GET', '/health/ready')
    assertProblem(ready, 503, 'unavailable')
    assert.equal(ready.headers['retry-after'], '2')
    assertProblem(await bench.call('GET', '/v1/keys', { key }), 503, 'unavailable')
    assert.equal((await bench.call('GET', '/health')).status, 200)
    await bench.close()
  })
})
