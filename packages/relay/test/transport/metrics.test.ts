import assert from 'node:assert/strict'
import { test } from 'node:test'
import { metricsAnswer } from '../../src/transport/http2/metrics.ts'
import { startGrpcBench } from '../support/grpc-fakes.ts'
import { ask } from '../support/grpc-http.ts'

const TOKEN = 'a token for the metrics'
const text = (): Promise<string> => Promise.resolve('static_relay_sessions 3\n')

test('this machine can read /metrics over both versions of HTTP, without a token', async () => {
  await using bench = await startGrpcBench({ metrics: { text, token: undefined }, origins: ['https://app.example'] })
  for (const version of ['1.1', '2'] as const) {
    const { status, headers, body } = await ask(bench, version, 'GET', '/metrics', { origin: 'https://app.example' })
    assert.deepEqual([status, body], [200, 'static_relay_sessions 3\n'])
    assert.match(String(headers['content-type']), /^text\/plain; version=0\.0\.4/)
    assert.equal(headers['cache-control'], 'no-store')
    assert.equal(headers['access-control-allow-origin'], undefined)
    assert.equal((await ask(bench, version, 'POST', '/metrics')).status, 404)
  }
})

test('other machines need the token', async () => {
  const status = async (isLocal: boolean, authorization?: string, token: string | undefined = TOKEN): Promise<number> =>
    (await metricsAnswer({ text, token }, isLocal, authorization)).status
  assert.equal(await status(true), 200)
  assert.equal(await status(false), 401)
  assert.equal(await status(false, `Bearer ${TOKEN}`), 200)
  for (const wrong of [TOKEN, `Bearer ${TOKEN} `, 'Bearer ', 'Bearer undefined']) {
    assert.equal(await status(false, wrong), 401)
  }
  const { headers, body } = await metricsAnswer({ text, token: undefined }, false, 'Bearer undefined')
  assert.deepEqual(JSON.parse(body), { code: 'auth_failed' })
  assert.equal(headers['content-type'], 'application/json')
})

test('failing metrics end the request, and nothing else', async () => {
  const broken = { text: () => Promise.reject(new Error('no figures')), token: undefined }
  await using bench = await startGrpcBench({ metrics: broken })
  await assert.rejects(ask(bench, '1.1', 'GET', '/metrics'), /socket hang up/)
  assert.match(String(bench.failures[0]), /no figures/)
  assert.equal((await ask(bench, '1.1', 'GET', '/health')).status, 200)
})

test('a proxy has no metrics: 404', async () => {
  await using bench = await startGrpcBench()
  assert.equal((await ask(bench, '2', 'GET', '/metrics')).status, 404)
})
