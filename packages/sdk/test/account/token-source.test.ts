import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { inspect } from 'node:util'
import { type ErrorCode, StaticError } from '@static/protocol'
import { makeTokenSource, type TokenOptions } from '../../src/account/token-source.ts'
import { newAuthority } from '@static/testkit/certificates'
import { refused } from '../transport/support.ts'

const authority = await newAuthority()
const pair = await authority.issue(['localhost'])
const KEY = 'sk_live_verySecret123'
const AGENT = 'a1'.repeat(32)

interface Asked {
  readonly method: string | undefined
  readonly path: string | undefined
  readonly authorization: string | undefined
  readonly type: string | undefined
  readonly body: string
}

type Reply = (response: ServerResponse, request: IncomingMessage) => void

/** An API that answers as a test wants, and how to ask it. */
async function serve(
  t: TestContext,
  reply: Reply,
  tls: object = {},
): Promise<{ asked: Asked[]; options: TokenOptions; port: number }> {
  const asked: Asked[] = []
  const server = createServer({ ...pair, ...tls }, (request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const { method, url: path, headers } = request
      const { authorization, 'content-type': type } = headers
      asked.push({ method, path, authorization, type, body: Buffer.concat(chunks).toString() })
      reply(response, request)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const apiUrl = `https://localhost:${port}`
  return { asked, port, options: { apiUrl, apiKey: KEY, ca: authority.cert, agentId: AGENT } }
}

function json(status: number, body: unknown, headers: Record<string, string> = {}): Reply {
  return (response) => void response.writeHead(status, headers).end(JSON.stringify(body))
}

const TOKEN = { token: 'a.b.c', token_type: 'Bearer', expires_in: 3600, expires_at: '2099-01-01T00:00:00.000Z' }

/** Checks the error, and that nobody learns the key from it, however it is printed. */
function told(code: ErrorCode, message: RegExp): (error: unknown) => true {
  return (error) => {
    assert.ok(!inspect(error, { depth: 20, showHidden: true }).includes(KEY), 'the key is in the error')
    return refused(code, message)(error)
  }
}

void test("a key is exchanged for a token for this agent; its lifetime is measured by the agent's clock", async (t) => {
  const { asked, options } = await serve(t, json(200, { ...TOKEN, news: true }))
  const source = makeTokenSource({ ...options, now: () => 1_000_000 })
  assert.deepEqual(await source(), { jwt: 'a.b.c', expiresAt: 1_000_000 + 3_600_000 })
  await source()
  assert.deepEqual(asked[1], {
    method: 'POST',
    path: '/v1/tokens',
    authorization: `Bearer ${KEY}`,
    type: 'application/json',
    body: JSON.stringify({ agent_id: AGENT }),
  })
})

void test('an API below a path is called there', async (t) => {
  const { asked, options } = await serve(t, json(200, TOKEN))
  await makeTokenSource({ ...options, apiUrl: `${options.apiUrl}/static/` })()
  assert.equal(asked[0]?.path, '/static/v1/tokens')
})

const problem = (status: number, code: string, detail: unknown, headers = {}): Reply =>
  json(status, { type: 'x', title: 'x', status, code, detail, request_id: 'x' }, headers)

const REFUSALS: Record<string, [reply: Reply, code: ErrorCode, message: RegExp, retryAfter?: number]> = {
  'an unknown key': [problem(401, 'auth_key_invalid', 'No such key.'), 'auth_key_invalid', /^No such key\.$/],
  'a suspended account': [
    problem(403, 'account_suspended', 'The account is suspended.'),
    'account_suspended',
    /is suspended\.$/,
  ],
  'too many requests': [
    problem(429, 'rate_limited', 'Wait a little.', { 'retry-after': '17' }),
    'rate_limited',
    /^Wait a little\.$/,
    17,
  ],
  'a detail with the key and line breaks in it': [
    problem(401, 'auth_key_invalid', `The key ${KEY}\nis not known\n`),
    'auth_key_invalid',
    /^The key … is not known\.$/,
  ],
  'a code without a detail': [problem(401, 'auth_key_invalid', 7), 'auth_key_invalid', /is not valid.*typos/],
  'a code that does not exist': [
    problem(503, 'made_up', 'x', { 'retry-after': '3' }),
    'unavailable',
    /answered with HTTP status 503\.$/,
    3,
  ],
  'a code that every object has': [problem(503, 'constructor', 'x'), 'unavailable', /HTTP status 503\.$/],
  '401 of somebody else': [(response) => response.writeHead(401).end('<html>'), 'auth_failed', /rejected the API key/],
  'a date in Retry-After': [json(503, null, { 'retry-after': 'Fri, 01 Jan 2027' }), 'unavailable', /HTTP status 503/],
  'an answer without a token': [json(200, { expires_in: 5 }), 'unavailable', /contains no token/],
  'a token without a time': [json(200, { token: 'a', expires_in: 'long' }), 'unavailable', /contains no token/],
  'a page': [(response) => response.end('<html>'), 'unavailable', /contains no token/],
  nothing: [json(200, null), 'unavailable', /contains no token/],
  'more than a token can be': [
    (response) => response.end(JSON.stringify({ ...TOKEN, more: 'x'.repeat(70_000) })),
    'unavailable',
    /longer than 65536 bytes/,
  ],
  'half an answer': [
    (response) => response.writeHead(200, { 'content-length': '100' }).write('{', () => response.destroy()),
    'connection_error',
    /cannot be reached/,
  ],
}

for (const [name, [reply, code, message, retryAfter]] of Object.entries(REFUSALS)) {
  void test(`${name} is reported as ${code}`, async (t) => {
    const { options } = await serve(t, reply)
    await assert.rejects(makeTokenSource(options)(), (error: unknown) => {
      told(code, message)(error)
      assert.ok(error instanceof StaticError)
      assert.equal(error.details.retryAfter, retryAfter)
      return true
    })
  })
}

void test('a redirect is not followed', async (t) => {
  const elsewhere = await serve(t, json(200, TOKEN))
  const location = `${elsewhere.options.apiUrl}/v1/tokens`
  const { options } = await serve(t, (response) => response.writeHead(307, { location }).end())
  await assert.rejects(makeTokenSource(options)(), told('unavailable', /HTTP status 307\.$/))
  assert.deepEqual(elsewhere.asked, [])
})

void test('an API that cannot be reached or trusted is reported, and never gets the key', async (t) => {
  const { asked, options, port } = await serve(t, json(200, TOKEN))
  const fails = (more: Partial<TokenOptions>, message: RegExp): Promise<void> =>
    assert.rejects(makeTokenSource({ ...options, ...more })(), told('connection_error', message))
  const stranger = await newAuthority()
  await fails(
    { ca: stranger.cert },
    /^The API at https:\/\/localhost:\d+ cannot be reached\. The certificate .* trusted/,
  )
  await fails({ ca: undefined }, /is not signed by a trusted CA/)
  await fails({ apiUrl: `https://127.0.0.1:${port}` }, /is not for this name/)
  await fails(
    { apiUrl: 'https://no.invalid' },
    /^The API at https:\/\/no\.invalid cannot be reached\. Could not resolve/,
  )
  await fails({ apiUrl: 'https://localhost:1' }, /Nothing is listening on TCP port 1 of localhost\.$/)
  const old = await serve(t, json(200, TOKEN), { maxVersion: 'TLSv1.2' })
  await assert.rejects(makeTokenSource(old.options)(), told('connection_error', /does not support TLS 1\.3/))
  assert.deepEqual([...asked, ...old.asked], [])
})

void test('an API that does not answer times out', async (t) => {
  const { options } = await serve(t, () => {})
  await assert.rejects(
    makeTokenSource({ ...options, timeoutMs: 100 })(),
    told('connection_error', /Connecting to localhost:\d+ timed out\.$/),
  )
  const drip = await serve(t, (response) => response.writeHead(200).write('{'))
  await assert.rejects(
    makeTokenSource({ ...drip.options, timeoutMs: 200 })(),
    told('connection_error', /Connecting to localhost:\d+ timed out\.$/),
  )
})

void test('an impossible key or API address is refused before anything is sent', () => {
  const options = { apiUrl: 'https://localhost', ca: undefined, agentId: AGENT }
  for (const apiKey of ['', 'two words', 'line\nbreak', 'tab\t', 'schlüssel', 'x'.repeat(513)]) {
    assert.throws(() => makeTokenSource({ ...options, apiKey }), refused('auth_key_invalid', /^The API key contains/))
  }
  const plain = { ...options, apiKey: KEY, apiUrl: 'http://localhost' }
  assert.throws(() => makeTokenSource(plain), told('invalid_request', /https/))
})
