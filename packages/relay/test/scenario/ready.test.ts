import assert from 'node:assert/strict'
import { test } from 'node:test'
import { certificates } from '@static/testkit/certificates'
import { quietPort } from '@static/testkit/ports'
import { makeClient } from '@static/testkit/server/client'
import { openMemoryStore } from '@static/testkit/store/relay-memory'
import { startRelay } from '../../src/index.ts'

test('a relay starts while its API is down, serves agents, and is not ready', async (t) => {
  const { authority } = await certificates()
  const nowhere = `https://localhost:${await quietPort()}`
  const relay = await startRelay({
    name: 'localhost',
    database: (options, listener) => openMemoryStore(options, listener),
    host: 'localhost',
    grpcPort: 0,
    quicPort: 0,
    certificate: await authority.issue(['localhost']),
    api: { urls: [nowhere], internalUrls: [nowhere], credential: 'none', ca: authority.cert },
    log: { write: () => {}, pretty: false, level: 'silent' },
  })
  t.after(() => relay.close())
  using client = makeClient(`https://localhost:${relay.grpcPort}`, authority.cert)
  const { status, text } = await client.call({ path: '/health/ready' })
  assert.equal(status, 503)
  const { reason, api } = JSON.parse(text) as { reason: string; api: object }
  assert.match(reason, /^The API (cannot be reached|has not answered yet)\.$/)
  assert.deepEqual(api, { status: 'unavailable', clock_offset_ms: null })
  assert.equal((await client.call({ path: '/health' })).status, 200)
  const { text: figures } = await client.call({ path: '/metrics' })
  assert.match(figures, /^static_relay_certificate_expiry_timestamp_seconds \d+$/m)
})
