/** Which relay a client takes from the announcement of an API. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { HYBRID_GROUP } from '@static/node/tls-groups'
import { newAuthority } from '@static/testkit/certificates'
import { type AnnouncedRelay, relayIn } from '../../src/account/announced-relay.ts'
import { announcedRelay } from '../../src/account/announcement.ts'

const authority = await newAuthority()
const pair = await authority.issue(['localhost'])

/** What a client takes from an answer of an API on this machine. */
async function taken(status: number, body: unknown, ca = authority.cert): Promise<AnnouncedRelay | undefined> {
  // Lets in only clients that offer the hybrid: a recording of their calls stays closed.
  const server = createServer({ ...pair, ecdhCurve: HYBRID_GROUP }, (request, response) => {
    assert.equal(request.headers.authorization, undefined)
    const found = request.url === '/.well-known/static-server.json'
    response.writeHead(found ? status : 404).end(JSON.stringify(body))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    const { port } = server.address() as AddressInfo
    return await announcedRelay({ apiUrl: `https://localhost:${port}`, ca })
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

test('the first endpoint that the client understands is taken, with the name in its certificate', async () => {
  const relay = ['wss://new.example', 'quic://relay.example', 'https://relay.example:5000']
  const quic = { endpoint: 'quic://relay.example:4433', grpcPort: 5000 }
  assert.deepEqual(await taken(200, { relay, signup: 'open' }), quic)
  const named = { endpoint: 'quic://192.0.2.1:4433', relayName: 'relay.example' }
  assert.deepEqual(await taken(200, { relay: ['quic://192.0.2.1'], relay_name: 'relay.example' }), named)
})

test('the gRPC port is that of an endpoint at the same host, for where UDP is blocked', () => {
  const portOf = (...relay: readonly string[]): number | undefined =>
    relayIn({ relay }, 'https://api.example')?.grpcPort
  assert.equal(portOf('quic://relay.example', 'https://other.example:1', 'https://relay.example:5443'), 5443)
  assert.equal(portOf('quic://a.example', 'https://b.example:5443'), undefined)
  assert.equal(portOf('https://relay.example:5443', 'https://relay.example:6000'), undefined)
  assert.equal(portOf('quic://relay.example', 'https://relay.example:0'), undefined)
})

test('an API that announces no relay, or nothing that makes sense, gives none', async () => {
  const long = `quic://${'a.'.repeat(2000)}example`
  const late = [...Array.from({ length: 8 }, () => 'wss://new.example'), 'quic://relay.example']
  for (const relay of [[], undefined, 'quic://relay.example', [5], [long], ['quic://192.0.2.1'], late])
    assert.equal(await taken(200, { relay }), undefined, JSON.stringify(relay))
  assert.equal(await taken(404, { relay: ['quic://relay.example'] }), undefined)
  assert.equal(await taken(200, null), undefined)
})

test('nothing is taken from a server that TLS does not verify', async () => {
  const { cert } = await newAuthority()
  await assert.rejects(taken(200, { relay: ['quic://relay.example'] }, cert), { code: 'connection_error' })
})

test('an API on another machine leads nobody to a relay on this one', () => {
  const relay = ['quic://localhost:4433', 'https://127.0.0.1:5000', 'quic://relay.example']
  assert.equal(relayIn({ relay }, 'https://localhost:8443')?.endpoint, 'quic://localhost:4433')
  assert.equal(relayIn({ relay }, 'https://[::1]:8443')?.endpoint, 'quic://localhost:4433')
  assert.equal(relayIn({ relay }, 'https://api.example')?.endpoint, 'quic://relay.example:4433')
  const hosts = ['0.0.0.0', '[::]', '[::1]', '[::ffff:127.0.0.1]', 'any.localhost', '127.0.0.1,quic://192.0.2.1']
  for (const host of hosts) {
    const announcement = { relay: [`quic://${host}`], relay_name: 'relay.example' }
    assert.equal(relayIn(announcement, 'https://api.example'), undefined, host)
  }
})
