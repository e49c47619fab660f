/** The API behind a load balancer that announces its clients by the PROXY protocol. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { certificates } from '@static/testkit/certificates'
import { askOver, connectBalanced, proxyHeader, rawProxyHeader } from '@static/testkit/proxy-header'
import { type Bench, startBench } from '../support.ts'

describe('behind a balancer', () => {
  let bench: Bench
  let ca = ''
  before(async () => {
    ca = (await certificates()).authority.cert
    bench = await startBench('sqlite', {
      proxyProtocolFrom: ['127.0.0.1'],
      trustedProxies: ['127.0.0.2', '192.0.2.99'],
      settings: { rates: { failures: { limit: 3, seconds: 60 } }, http: { connectionsPerAddress: 2 } },
    })
  })
  after(() => bench.close())

  const ask = async (path: string, parts: readonly Uint8Array[], headers = ''): Promise<string> => {
    const port = Number(new URL(bench.api.url).port)
    return askOver(await connectBalanced({ port, ca, parts }), path, headers)
  }
  const KEY = 'authorization: Bearer sk_live_no_such_key\r\n'

  test('limits count the clients that a balancer announces, each on its own', async () => {
    for (let round = 0; round < 3; round++) {
      assert.match(await ask('/v1/keys', [proxyHeader('192.0.2.7')], KEY), /^HTTP\/1\.1 401 /)
    }
    assert.match(await ask('/v1/keys', [proxyHeader('192.0.2.7')], KEY), /^HTTP\/1\.1 429 /)
    assert.match(await ask('/v1/keys', [proxyHeader('192.0.2.8')], KEY), /^HTTP\/1\.1 401 /)
    // A forged header does not help, whatever address the balancer announces.
    const forged = `${KEY}x-forwarded-for: 192.0.2.50\r\n`
    assert.match(await ask('/v1/keys', [proxyHeader('192.0.2.7')], forged), /^HTTP\/1\.1 429 /)
    for (let round = 0; round < 3; round++) {
      assert.match(await ask('/v1/keys', [proxyHeader('192.0.2.99')], forged), /^HTTP\/1\.1 401 /)
    }
    assert.match(await ask('/v1/keys', [proxyHeader('192.0.2.99')], forged), /^HTTP\/1\.1 429 /)
  })

  test('clients of a balancer do not share its connections', async () => {
    const port = Number(new URL(bench.api.url).port)
    const open = (client: string): ReturnType<typeof connectBalanced> =>
      connectBalanced({ port, ca, parts: [proxyHeader(client)] })
    const sockets = [await open('192.0.2.20'), await open('192.0.2.20')]
    await assert.rejects(open('192.0.2.20'))
    sockets.push(await open('192.0.2.21'))
    for (const socket of sockets) socket.destroy()
  })

  test('a balancer must announce its client', async () => {
    await assert.rejects(ask('/health', []))
    await assert.rejects(ask('/health', [rawProxyHeader(1, 0x31, Buffer.alloc(216))]))
    assert.match(await ask('/health', [rawProxyHeader(0, 0, Buffer.alloc(0))]), /^HTTP\/1\.1 200 /)
  })
})

test('neither an announced loopback address nor a balancer on this machine opens /metrics', async (t) => {
  const { authority } = await certificates()
  const bench = await startBench('sqlite', { proxyProtocolFrom: ['127.0.0.1'] })
  t.after(() => bench.close())
  const port = Number(new URL(bench.api.url).port)
  const ask = async (parts: readonly Uint8Array[], localAddress: string): Promise<string> =>
    askOver(await connectBalanced({ port, ca: authority.cert, parts, localAddress }), '/metrics')
  for (const header of [proxyHeader('127.0.0.1'), proxyHeader('127.0.0.2'), rawProxyHeader(0, 0, Buffer.alloc(0))]) {
    assert.match(await ask([header], '127.0.0.1'), /^HTTP\/1\.1 401 /)
  }
  assert.match(await ask([], '127.0.0.2'), /^HTTP\/1\.1 200 /)
})
