/** The requests that `static mcp --http` accepts, and its token. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { gateRefusal } from '../../src/mcp/http-gate.ts'
import { httpToken } from '../../src/mcp/http-token.ts'

const TOKEN = 'T'.repeat(43)
const GOOD = { host: '127.0.0.1:4440', authorization: `Bearer ${TOKEN}` }

function status(headers: Record<string, string>, url = '/mcp', method = 'POST'): number {
  return gateRefusal({ method, url, headers }, 4440, TOKEN)?.status ?? 200
}

test('only a request to this server, from no other web page, with the token, passes', () => {
  assert.equal(status(GOOD), 200)
  assert.equal(status({ ...GOOD, host: 'localhost:4440', origin: 'http://localhost:4440' }), 200)
  for (const host of ['', 'evil.example', 'evil.example:4440', '127.0.0.1', '127.0.0.1:4441', 'localhost:4440.evil']) {
    assert.equal(status({ ...GOOD, host }), 403, host)
  }
  for (const origin of ['null', '', 'https://evil.example', 'http://localhost:4441', 'https://localhost:4440']) {
    assert.equal(status({ ...GOOD, origin }), 403, origin)
  }
  for (const authorization of [
    '',
    TOKEN,
    'Bearer',
    'Bearer x',
    `Bearer ${TOKEN}T`,
    `Basic ${TOKEN}`,
    'Bearer undefined',
  ]) {
    assert.equal(status({ ...GOOD, authorization }), 401, authorization)
  }
  const { authorization: _, ...without } = GOOD
  assert.equal(status(without), 401)
  assert.deepEqual([status(GOOD, '/'), status(GOOD, '/mcp/x'), status(GOOD, '/mcp', 'PUT')], [404, 404, 405])
})

test('the token is made once, for its user alone', (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'static-token-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const { token, path, isNew } = httpToken(directory)
  assert.deepEqual([isNew, token.length, statSync(path).mode & 0o777], [true, 43, 0o600])
  assert.deepEqual(httpToken(directory), { token, path, isNew: false })
  writeFileSync(path, 'short')
  assert.throws(() => httpToken(directory), { code: 'store_corrupt' })
})
