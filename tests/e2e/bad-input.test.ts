/** Bad input gets the right refusal, or a closed connection, and a parallel client does not notice. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import type { Problem } from '@static/protocol'
import { startBystander } from '../support/bystander.ts'
import { type Call, makeClient } from '@static/testkit/server/client'
import { PASSWORD, signUp } from '@static/testkit/server/accounts'
import { exchange, type Heard, type Line, openTcp, openTls } from '../support/raw.ts'
import { startServer } from '@static/testkit/server'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'

const MIB = 1024 * 1024
const IDLE = 500

const workspace = await makeWorkspace()
const { ca } = workspace
const server = await startServer({ workspace, dataDir: workspace.directory('data'), settings: QUICK })
/** Has little patience, but enough for a handshake on a busy machine. */
const hasty = await startServer({
  workspace,
  dataDir: workspace.directory('hasty'),
  settings: { ...QUICK, http: { headersSeconds: 5, requestSeconds: 6 } },
})
const { url } = server
const client = makeClient(url, ca)
const owner = await signUp(client)
const { key } = owner.api_key
const bystanders = [
  startBystander(url, ca, { path: '/v1/keys', key }),
  startBystander(hasty.url, ca, { path: '/health' }),
]
after(async () => {
  for (const bystander of bystanders) await bystander.stop()
  client.close()
  for (const one of [server, hasty]) await one.end('SIGKILL')
  workspace[Symbol.dispose]()
})

/** A refusal as it must be: the status, a problem with the code, and nothing from the inside. */
function refused(text: string, status: number | undefined, expected: number, code: string): void {
  assert.equal(status, expected, text)
  assert.equal((JSON.parse(text) as Problem).code, code)
  clean(text)
}

/** No stack trace, no path of a file, and no secret. */
function clean(text: string): void {
  assert.doesNotMatch(text, /\n\s+at |node:internal|node_modules|packages\/|\.ts:|SQLITE|sk_live_|sk_test_/)
  assert.ok(!text.includes(PASSWORD), text)
}

/** Refused with one of the statuses, or closed without a word. */
function refusedOrClosed(heard: Heard, ...statuses: number[]): void {
  assert.ok(heard.status === undefined || statuses.includes(heard.status), heard.text)
  clean(heard.text)
}

const keys = (raw: string | Uint8Array, headers: Record<string, string> = {}): Call => ({
  method: 'POST',
  path: '/v1/keys',
  key,
  raw,
  headers,
})

describe('bodies', () => {
  const notJson: Record<string, string | Uint8Array> = {
    'an open brace': '{',
    'a trailing comma': '{"name":"a",}',
    'two values': '{} {}',
    'single quotes': "{'name':'a'}",
    'a byte order mark': '\ufeff{}',
    'not UTF-8': Buffer.from([0x7b, 0x22, 0x61, 0x22, 0x3a, 0x22, 0xff, 0xfe, 0x22, 0x7d]),
    'an overlong NUL': Buffer.from([0x22, 0xc0, 0x80, 0x22]),
    'a raw NUL': '{"name":"a\u0000"}',
    'a raw line feed in a text': '{"name":"a\nb"}',
    'UTF-16': Buffer.from('{}', 'utf16le'),
    'a key in it': `{"name":"${key}`,
  }
  for (const [name, raw] of Object.entries(notJson)) {
    test(`not JSON: ${name}`, async () => {
      const { status, text } = await client.call(keys(raw))
      refused(text, status, 400, 'invalid_json')
    })
  }

  const wrong: Record<string, unknown> = {
    'a list': [],
    'a text': 'name',
    null: null,
    'a number for a name': { name: 1 },
    'a list for a name': { name: ['a'] },
    'an unknown field': { nam: 'a' },
    'an unknown mode': { mode: 'prod' },
    'an empty name': { name: '' },
    'a name of spaces': { name: '   ' },
    'a name that is too long': { name: 'x'.repeat(65) },
    'an escaped NUL': { name: 'a\u0000b' },
    'a control character': { name: 'a\u001bb' },
    'a C1 control character': { name: 'a\u0085b' },
    'half a surrogate pair': { name: '\ud83d' },
    'a prototype': JSON.parse('{"__proto__":{"name":"a"}}'),
  }
  for (const [name, body] of Object.entries(wrong)) {
    test(`not the fields of a key: ${name}`, async () => {
      const { status, text } = await client.call(keys(JSON.stringify(body)))
      refused(text, status, 400, 'invalid_request')
    })
  }

  for (const [name, type] of Object.entries({
    text: 'text/plain',
    form: 'application/x-www-form-urlencoded',
    odd: '☃',
  })) {
    test(`the wrong content type: ${name}`, async () => {
      const { status, text } = await client.call(keys('{}', { 'content-type': Buffer.from(type).toString('latin1') }))
      refused(text, status, 415, 'unsupported_media_type')
    })
  }

  test('1 MiB, with a declared length', async () => {
    const { status, text } = await client.call(keys(JSON.stringify({ name: 'x'.repeat(MIB) })))
    refused(text, status, 413, 'body_too_large')
  })

  test('1 MiB, in chunks without a declared length', async () => {
    using line = await openTls(url, ca)
    line.send(
      `POST /v1/keys HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n`,
    )
    for (let sent = 0; sent < MIB; sent += 1024) line.send(`400\r\n${'x'.repeat(1024)}\r\n`)
    const { body, status } = await line.answer()
    refused(body, status, 413, 'body_too_large')
  })

  test('1 MiB to every path that takes a body, without a credential', async () => {
    const paths = ['/v1/accounts', '/v1/sessions', '/v1/tokens', '/v1/keys', `/v1/accounts/${owner.id}/keys`]
    for (const path of paths) {
      const { status, text } = await client.call({ method: 'POST', path, raw: Buffer.alloc(MIB, 0x20) })
      assert.ok(status === 413 || status === 401, `${path} ${status}`)
      clean(text)
    }
  })

  test('deep nesting', async () => {
    const { status, text } = await client.call(keys('['.repeat(8000) + ']'.repeat(8000)))
    refused(text, status, 400, 'invalid_request')
  })
})

describe('requests', () => {
  const post = (...headers: string[]): string =>
    ['POST /v1/tokens HTTP/1.1', 'host: x', ...headers, '', ''].join('\r\n')
  const bad: Record<string, [bytes: string | Uint8Array, ...statuses: number[]]> = {
    'a header of 20 KiB': [post(`x-long: ${'x'.repeat(20 * 1024)}`), 431],
    '2,000 headers': [post(...Array.from({ length: 2000 }, (_, at) => `x-${at}: ${at}`)), 431, 401],
    'a path of 20 KiB': [`GET /${'x'.repeat(20 * 1024)} HTTP/1.1\r\n\r\n`, 431],
    'a NUL in a header': [post('x-nul: a\u0000b'), 400],
    'a line feed alone': ['GET /health HTTP/1.1\nhost: x\n\n', 400],
    'a space before the colon': [post('content-length : 0'), 400],
    'a header without a colon': [post('nonsense'), 400],
    'a folded header': [post('x-a: b', ' c'), 400],
    'two lengths': [post('content-length: 0', 'content-length: 5'), 400],
    'a length and chunks': [post('content-length: 5', 'transfer-encoding: chunked'), 400],
    'a negative length': [post('content-length: -1'), 400],
    'a length that is no number': [post('content-length: 0x10'), 400],
    'a chunk size that is no number': [`${post('transfer-encoding: chunked')}zz\r\n`, 400, 415],
    'an unknown transfer coding': [post('transfer-encoding: gzip'), 400, 415],
    'no Host': ['GET /health HTTP/1.1\r\n\r\n', 400],
    'an unknown method': ['BREW /v1/keys HTTP/1.1\r\nhost: x\r\n\r\n', 400],
    'HTTP/2 in the clear': ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
    'HTTP/9.9': ['GET /health HTTP/9.9\r\n\r\n', 400],
    zeros: [new Uint8Array(4096), 400],
    'line feeds without end': ['\r\n'.repeat(4096), 400, 408],
    'all byte values': [Uint8Array.from({ length: 1024 }, (_, at) => at % 256), 400],
    'an SSH client': ['SSH-2.0-OpenSSH_9.2\r\n', 400],
    'another TLS hello inside': [Uint8Array.of(0x16, 0x03, 0x01, 0x00, 0x05, 0x01, 0x00, 0x00, 0x01, 0x03), 400],
  }
  for (const [name, [bytes, ...statuses]] of Object.entries(bad)) {
    test(name, async () => {
      refusedOrClosed(await exchange(url, ca, bytes), ...statuses)
    })
  }

  for (const version of [' HTTP/1.0', '']) {
    test(`old${version || ' HTTP/0.9'} is answered and the connection closed`, async () => {
      using line = await openTls(url, ca)
      line.send(`GET /health${version}\r\n\r\n`)
      const { status, body } = await line.closed
      assert.equal(status, 200)
      assert.equal(body, '{"status":"ok"}')
    })
  }

  test('a path with broken escapes, dots or a scheme is a plain 4xx', async () => {
    for (const target of [
      '/%',
      '/%ff',
      '/v1/keys/%00',
      '/v1/../v1/keys/%2e%2e',
      '//evil/v1/keys',
      '*',
      'http://evil/x',
    ]) {
      const { status, text } = await exchange(url, ca, `GET ${target} HTTP/1.1\r\nhost: x\r\n\r\n`)
      assert.ok(status !== undefined && status >= 400 && status < 500, `${target}: ${status}`)
      clean(text)
    }
  })

  test('a control character in the Authorization header is not echoed', async () => {
    const { status, text } = await exchange(
      url,
      ca,
      post('authorization: Bearer \u0001\u001b[31m', 'content-length: 0'),
    )
    refusedOrClosed({ text, status, body: '' }, 400, 401)
    // oxlint-disable-next-line no-control-regex -- that is the point.
    assert.doesNotMatch(text, /\u001b/)
  })
})

// All of them only wait, for the same few seconds.
describe('slow clients', { concurrency: true }, () => {
  const slowly = async (line: Line, bytes: string): Promise<Heard> => {
    const drip = setInterval(() => line.send(bytes), 100)
    try {
      return await line.closed
    } finally {
      clearInterval(drip)
    }
  }

  test('headers that never end are cut off', async () => {
    using line = await openTls(hasty.url, ca)
    line.send('GET /v1/keys HTTP/1.1\r\n')
    refusedOrClosed(await slowly(line, 'x-a: b\r\n'), 408)
  })

  test('a body that never ends is cut off', async () => {
    using line = await openTls(hasty.url, ca)
    line.send(
      `POST /v1/keys HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n\r\n`,
    )
    refusedOrClosed(await slowly(line, ' '), 408)
  })

  test('a body that stops halfway is cut off', async () => {
    using line = await openTls(hasty.url, ca)
    line.send(
      'POST /v1/sessions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"email"',
    )
    refusedOrClosed(await line.closed, 408)
  })

  test('a handshake that never comes is cut off', async () => {
    using line = await openTcp(hasty.url)
    const { text } = await line.closed
    assert.equal(text, '')
  })

  test('a client that disconnects in the middle of its body is forgotten', async () => {
    for (let left = 0; left < 20; left++) {
      using line = await openTls(url, ca)
      line.send(
        `POST /v1/keys HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{`,
      )
    }
    assert.equal((await client.call({ path: '/v1/keys', key })).status, 200)
  })
})

describe('connections', () => {
  test(`${IDLE} idle ones, with TLS and half-open, do not lock out others`, async () => {
    const lines: Line[] = []
    try {
      for (let at = 0; at < IDLE; at += 20) {
        const opened = Array.from({ length: 20 }, (_, n) => (n % 2 === 0 ? openTls(url, ca) : openTcp(url)))
        lines.push(...(await Promise.all(opened)))
      }
      assert.equal(lines.length, IDLE)
      for (let asked = 0; asked < 20; asked++) assert.equal((await client.call({ path: '/v1/keys', key })).status, 200)
    } finally {
      for (const line of lines) line[Symbol.dispose]()
    }
  })

  test('TLS 1.2 is refused, TLS 1.3 is not', async () => {
    await assert.rejects(openTls(url, ca, { minVersion: 'TLSv1.2', maxVersion: 'TLSv1.2' }), /protocol version/)
    using line = await openTls(url, ca, { minVersion: 'TLSv1.3' })
    line.send('GET /health HTTP/1.1\r\nhost: x\r\n\r\n')
    assert.equal((await line.answer()).status, 200)
  })

  test('plain HTTP on the TLS port is closed', async () => {
    using line = await openTcp(url)
    line.send('GET /health HTTP/1.1\r\nhost: x\r\n\r\n')
    const { status, text } = await line.closed
    assert.equal(status, undefined)
    clean(text)
  })

  test('garbage in place of a handshake is closed', async () => {
    for (const bytes of [new Uint8Array(600), Uint8Array.from({ length: 600 }, (_, at) => (at * 37) % 256)]) {
      using line = await openTcp(url)
      line.send(bytes)
      assert.equal((await line.closed).status, undefined)
    }
  })
})
