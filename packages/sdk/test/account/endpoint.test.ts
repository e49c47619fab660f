import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isLocal, isLoopback, parseApiUrl, parseEndpoint } from '../../src/account/endpoint.ts'
import { refused } from '../transport/support.ts'

const GOOD: readonly [text: string, relayName: string | undefined, url: string, host: string, serverName: string][] = [
  ['quic://relay.example:4433', undefined, 'quic://relay.example:4433', 'relay.example', 'relay.example'],
  ['quic://relay.example', undefined, 'quic://relay.example:4433', 'relay.example', 'relay.example'],
  ['https://relay.example', undefined, 'https://relay.example:5000', 'relay.example', 'relay.example'],
  ['https://relay.example:443/', undefined, 'https://relay.example:443', 'relay.example', 'relay.example'],
  ['QUIC://Relay.EXAMPLE.:65535', undefined, 'quic://relay.example:65535', 'relay.example', 'relay.example'],
  [
    'quic://bücher.example',
    undefined,
    'quic://xn--bcher-kva.example:4433',
    'xn--bcher-kva.example',
    'xn--bcher-kva.example',
  ],
  ['quic://my_relay:1', undefined, 'quic://my_relay:1', 'my_relay', 'my_relay'],
  ['quic://10-0-0-7.example', 'relay.example', 'quic://10-0-0-7.example:4433', '10-0-0-7.example', 'relay.example'],
  ['quic://localhost', undefined, 'quic://localhost:4433', 'localhost', 'localhost'],
  ['quic://127.0.0.1:1', undefined, 'quic://127.0.0.1:1', '127.0.0.1', 'localhost'],
  ['quic://127.9.9.9', 'Relay.example', 'quic://127.9.9.9:4433', '127.9.9.9', 'relay.example'],
  ['https://[::1]', undefined, 'https://[::1]:5000', '::1', 'localhost'],
  ['https://[0:0:0:0:0:0:0:1]:7', undefined, 'https://[::1]:7', '::1', 'localhost'],
  ['quic://192.0.2.1', 'relay.example', 'quic://192.0.2.1:4433', '192.0.2.1', 'relay.example'],
  ['quic://[2001:DB8::1]:9', 'relay.example', 'quic://[2001:db8::1]:9', '2001:db8::1', 'relay.example'],
]

for (const [text, relayName, url, host, serverName] of GOOD) {
  void test(`${text} is ${url}`, () => {
    const endpoint = parseEndpoint(text, { relayName })
    const way = url.startsWith('quic') ? 'quic' : 'grpc'
    assert.deepEqual(endpoint, { way, addresses: [{ host, port: Number(url.split(':').at(-1)) }], serverName, url })
    assert.deepEqual(parseEndpoint(endpoint.url, { relayName }), endpoint)
  })
}

const BAD: readonly [text: string, message: RegExp, relayName?: string][] = [
  ['', /Use quic:\/\/host:4433 or https:\/\/host:5000/],
  ['relay.example:4433', /^Invalid endpoint /],
  ['http://relay.example', /^Invalid endpoint /],
  ['tcp://relay.example', /^Invalid endpoint /],
  ['quic://', /^Invalid endpoint /],
  ['quic://user:secret@relay.example', /^Invalid endpoint "quic:\/\/…@relay\.example"\. Use /],
  ['quic://relay.example/path', /^Invalid endpoint /],
  ['quic://relay.example?query', /^Invalid endpoint /],
  ['quic://relay.example#part', /^Invalid endpoint /],
  ['quic://relay.example:', /^Invalid endpoint /],
  ['quic://relay.example:x', /^Invalid endpoint /],
  ['quic://relay.example:0', /^Invalid port .* from 1 to 65535/],
  ['quic://relay.example:65536', /^Invalid port .* from 1 to 65535/],
  ['quic://::1', /^Invalid endpoint /],
  ['quic://[::1', /^Invalid endpoint /],
  ['quic://[127.0.0.1]', /^Invalid host in the endpoint /],
  ['quic://[fe80::1%eth0]', /^Invalid host in the endpoint /],
  ['quic://300.0.0.1', /^Invalid host in the endpoint /],
  ['quic://127.1', /^Invalid host in the endpoint /],
  ['quic://-relay.example', /^Invalid host in the endpoint /],
  ['quic://relay..example', /^Invalid host in the endpoint /],
  ['quic://re lay', /^Invalid endpoint /],
  ['quic://192.0.2.1', /STATIC_RELAY_NAME/],
  ['quic://[2001:db8::1]', /STATIC_RELAY_NAME/],
  ['quic://192.0.2.1', /^Invalid relay name /, '192.0.2.1'],
  ['quic://relay.example', /^Invalid relay name /, 'not a name'],
  ['quic://relay.example,', /^Invalid endpoint /],
  ['quic://relay.example,other.example', /^Invalid endpoint /],
  ['quic://relay.example,https://relay.example', /mixes quic:\/\/ and https:\/\//],
  ['quic://one.example,quic://two.example', /several host names\. Set `relayName` or STATIC_RELAY_NAME/],
  ['quic://relay.example,quic://192.0.2.1', /STATIC_RELAY_NAME/],
  [Array.from({ length: 9 }, () => 'quic://relay.example').join(','), /has 9 addresses\. Use at most 8/],
]

for (const [text, message, relayName] of BAD) {
  void test(`${JSON.stringify(text)}${relayName === undefined ? '' : ` with ${relayName}`} is refused`, () => {
    assert.throws(() => parseEndpoint(text, { relayName }), refused('invalid_request', message))
  })
}

void test('several addresses lead to the nodes of one relay', () => {
  const nodes = parseEndpoint('quic://192.0.2.1, quic://[2001:db8::2]:7,quic://node-3.example', {
    relayName: 'relay.example',
  })
  assert.deepEqual(nodes, {
    way: 'quic',
    addresses: [
      { host: '192.0.2.1', port: 4433 },
      { host: '2001:db8::2', port: 7 },
      { host: 'node-3.example', port: 4433 },
    ],
    serverName: 'relay.example',
    url: 'quic://192.0.2.1:4433,quic://[2001:db8::2]:7,quic://node-3.example:4433',
  })
  assert.deepEqual(parseEndpoint(nodes.url, { relayName: 'relay.example' }), nodes)
  assert.equal(parseEndpoint('https://127.0.0.1:1,https://localhost:2').serverName, 'localhost')
})

void test('an endpoint is local only with all its addresses', () => {
  const local = (text: string): boolean => isLocal(parseEndpoint(text, { relayName: 'relay.example' }))
  assert.ok(local('quic://127.0.0.1:1,quic://[::1]:2'))
  assert.ok(!local('quic://127.0.0.1:1,quic://192.0.2.1'))
})

void test('only this machine is loopback', () => {
  for (const host of ['localhost', '127.0.0.1', '127.255.0.1', '::1']) assert.ok(isLoopback(host), host)
  for (const host of ['localhost.example', '127.example', '128.0.0.1', '::2', '0.0.0.0']) {
    assert.ok(!isLoopback(host), host)
  }
})

void test('the API is reached only over https', () => {
  assert.equal(parseApiUrl('https://API.example/'), 'https://api.example')
  assert.equal(parseApiUrl('https://api.example:8443/static/'), 'https://api.example:8443/static')
  for (const [text, message] of [
    ['api.example', /is not a URL/],
    ['http://api.example', /must start with https:\/\/, not http:\/\//],
    ['http://localhost:8080', /must start with https/],
    ['https://user:secret@api.example', /user or password/],
    ['https://api.example?key=secret', /query/],
    ['https://api.example#secret', /fragment/],
  ] as const) {
    assert.throws(
      () => parseApiUrl(text),
      (error: unknown) => {
        assert.doesNotMatch(String(error), /secret/)
        return refused('invalid_request', message)(error)
      },
    )
  }
})
