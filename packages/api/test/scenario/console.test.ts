import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { assertProblem, type Bench, startBench } from '../support.ts'

const directory = mkdtempSync(join(tmpdir(), 'static-console-'))
const page = '<!doctype html><title>console</title>'
let relayIsReady = true
const relay = Promise.withResolvers<{ readonly relay: readonly string[] }>()
let bench: Bench

before(async () => {
  mkdirSync(join(directory, 'assets'))
  writeFileSync(join(directory, 'index.html'), page)
  writeFileSync(join(directory, 'assets/index-a1b2.js'), 'export {}')
  writeFileSync(join(directory, 'assets/index-c3d4.css'), 'p {}')
  bench = await startBench('sqlite', { console: directory, relayIsReady: () => relayIsReady, relay: relay.promise })
})
after(async () => {
  await bench.close()
  rmSync(directory, { recursive: true })
})

test('the page allows its own files and calls, and nothing else', async () => {
  for (const path of ['/console', '/console/']) {
    const { status, headers, body } = await bench.call('GET', path)
    assert.deepEqual([status, headers['content-type'], body], [200, 'text/html; charset=utf-8', page])
    assert.equal(headers['cache-control'], 'no-store')
    assert.equal(headers['x-content-type-options'], 'nosniff')
    assert.equal(headers['referrer-policy'], 'no-referrer')
    const policy = String(headers['content-security-policy']).split('; ')
    assert.deepEqual(
      policy.filter((rule) => !/^(script|style|img|connect)-src 'self'$/.test(rule)),
      [
        "default-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
      ],
    )
    assert.ok(!policy.join().includes('unsafe'))
  }
})

test('/ leads to the console, where there is one', async () => {
  const { status, headers } = await bench.call('GET', '/')
  assert.deepEqual([status, headers.location], [302, '/console'])
  const bare = await startBench('sqlite')
  try {
    const other = await bare.call('GET', '/')
    assert.deepEqual([other.status, other.headers.location], [302, '/docs'])
  } finally {
    await bare.close()
  }
})

test('files named by their hash are cached forever', async () => {
  const { status, headers, body } = await bench.call('GET', '/console/assets/index-a1b2.js')
  assert.deepEqual([status, headers['content-type'], body], [200, 'text/javascript; charset=utf-8', 'export {}'])
  assert.equal(headers['cache-control'], 'public, max-age=31536000, immutable')
  const style = await bench.call('GET', '/console/assets/index-c3d4.css')
  assert.equal(style.headers['content-type'], 'text/css; charset=utf-8')
})

test('a client that accepts gzip gets gzip', async () => {
  const asked = { headers: { 'accept-encoding': 'gzip, br' } }
  const { headers } = await bench.call('HEAD', '/console', asked)
  assert.deepEqual([headers['content-encoding'], headers.vary], ['gzip', 'accept-encoding'])
  assert.equal(headers['content-length'], String(gzipSync(page).length))
  for (const encodings of ['', 'br', 'gzip;q=0', 'br, gzip; q=0.000, *', 'x-gzip']) {
    const plain = await bench.call('HEAD', '/console', { headers: { 'accept-encoding': encodings } })
    assert.deepEqual(
      [plain.headers['content-encoding'], plain.headers['content-length']],
      [undefined, String(page.length)],
      encodings,
    )
  }
})

test('nothing outside the page is served', async () => {
  for (const path of [
    '/console/assets/other.js',
    '/console/assets/..%2Findex.html',
    '/console/assets/../../../package.json',
    '/console/assets/%2e%2e%2f%2e%2e%2fpackage.json',
    '/console/assets/',
    '/console/index.html',
    '/console/assets/__proto__',
  ]) {
    assertProblem(await bench.call('GET', path), 404, 'not_found')
  }
  assertProblem(await bench.call('POST', '/console'), 405, 'method_not_allowed')
})

test('a client that asks for the relay while it starts gets it once it runs', async () => {
  const early = bench.call('GET', '/.well-known/static-server.json')
  // Answered after it: the first is not.
  await bench.call('GET', '/health/ready')
  relay.resolve({ relay: ['quic://relay.example:4433'] })
  assert.deepEqual((await early).body, { relay: ['quic://relay.example:4433'], signup: 'open' })
})

test('readiness reports the state of the relay; the API stays ready without it', async () => {
  const ask = async (): Promise<unknown> => (await bench.call('GET', '/health/ready')).body
  assert.deepEqual(await ask(), { status: 'ok', relay: 'ok' })
  relayIsReady = false
  assert.deepEqual(await ask(), { status: 'ok', relay: 'unavailable' })
})

test('without a built page the API works, logs a warning, and has no /console', async () => {
  const bare = await startBench('sqlite', { console: join(directory, 'nothing') })
  assertProblem(await bare.call('GET', '/console'), 404, 'not_found')
  assert.ok(bare.lines.some((line) => line.includes('the console was not built')))
  await bare.close()
})
