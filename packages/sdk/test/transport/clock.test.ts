/** What only a transport with a clock has to cope with: there is a thread between the network and the agent. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { makeClockedTransport } from '../../src/transport/clock.ts'
import { newAuthority } from '@static/testkit/certificates'
import { refused } from './support.ts'

/** How long the agent is busy; a relay that floods has sent far more than is kept by then. */
const BUSY_MS = 2000
const KEPT_BYTES = 8 * 1024 * 1024

void test('a relay that floods a busy agent is left before the memory is full', async (t) => {
  const authority = await newAuthority()
  const workerData = await authority.issue(['localhost'])
  const relay = new Worker(new URL('flooding-relay.ts', import.meta.url), { workerData })
  t.after(() => relay.terminate())
  const [port] = (await once(relay, 'message')) as [number]
  const closed = Promise.withResolvers<unknown>()
  let bytes = 0
  const target = { host: '127.0.0.1', port, serverName: 'localhost', ca: authority.cert }
  await makeClockedTransport({ way: 'grpc' }).dial(target, {
    data: (chunk) => {
      // As encryption or the database would do it.
      if (bytes === 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, BUSY_MS)
      bytes += chunk.length
    },
    closed: closed.resolve,
  })
  refused('connection_error', /^The relay sends more than the agent can take\.$/)(await closed.promise)
  assert.ok(bytes <= 2 * KEPT_BYTES, `${bytes} bytes were kept`)
})
