/** What only a transport with a clock has to cope with: there is a thread between the network and the agent. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { CELL_BYTES } from '@static/protocol'
import { makeClockedTransport } from '../../src/transport/clock.ts'
import { newAuthority } from '@static/testkit/certificates'
import type { FloodingRelay } from './flooding-relay.ts'
import { refused } from './support.ts'

/** What the relay sends at once. */
const FRAME_BYTES = 64 * CELL_BYTES
const KEPT_BYTES = 8 * 1024 * 1024
/** How much the relay has sent when the agent is no longer busy: also without what is still on its way, far too much. */
const SENT_BYTES = 4 * KEPT_BYTES

void test('a relay that floods a busy agent is disconnected before memory is full', async (t) => {
  const authority = await newAuthority()
  const sent = new Int32Array(new SharedArrayBuffer(4))
  const workerData: FloodingRelay = { ...(await authority.issue(['localhost'])), sent }
  const relay = new Worker(new URL('flooding-relay.ts', import.meta.url), { workerData })
  t.after(() => relay.terminate())
  const [port] = (await once(relay, 'message')) as [number]
  const closed = Promise.withResolvers<unknown>()
  let bytes = 0
  const target = { host: '127.0.0.1', port, serverName: 'localhost', ca: authority.cert }
  await makeClockedTransport({ way: 'grpc' }).dial(target, {
    data: (chunk) => {
      // As encryption or the database would do it.
      for (let frames = 0; bytes === 0 && frames * FRAME_BYTES < SENT_BYTES; frames = Atomics.load(sent, 0)) {
        Atomics.wait(sent, 0, frames)
      }
      bytes += chunk.length
    },
    closed: closed.resolve,
  })
  refused('connection_error', /^The relay sends faster than the agent can read\.$/)(await closed.promise)
  assert.ok(bytes <= 2 * KEPT_BYTES, `${bytes} bytes were kept`)
})
