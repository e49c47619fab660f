/** What only QUIC's client has to cope with. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test, type TestContext } from 'node:test'
import { Worker } from 'node:worker_threads'
import { ALPN, CELL_BYTES } from '@static/protocol'
import { createQuicServer, type QuicServerSession } from '@currentspace/http3'
import type { Target } from '../../src/ports/index.ts'
import { makeQuicTransport } from '../../src/transport/quic.ts'
import { newAuthority } from '@static/testkit/certificates'
import { dial, refused } from './support.ts'

const authority = await newAuthority()
const pair = await authority.issue(['localhost'])
const transport = makeQuicTransport()

/** Serves connections the way a test wants. */
async function serve(
  t: TestContext,
  answer: (session: QuicServerSession) => void,
  alpn: string = ALPN,
): Promise<Target> {
  const server = createQuicServer({
    ...pair,
    alpn: [alpn],
    runtimeMode: 'portable',
    disableRetry: false,
    maxConnections: 9,
  })
  server.on('session', (session) => {
    session.on('error', () => {})
    answer(session)
  })
  const { port } = await server.listen(0, '127.0.0.1')
  t.after(() => server.close())
  return { host: '127.0.0.1', port, serverName: 'localhost', ca: authority.cert }
}

void test('a server that speaks another protocol is reported', async (t) => {
  const target = await serve(t, () => {}, 'other/1')
  await assert.rejects(
    dial(makeQuicTransport({ connectTimeoutMs: 500 }), target),
    refused(
      'connection_error',
      /^A QUIC server answers .* does not speak static-relay\/1, or it has no room\. Check the port/,
    ),
  )
})

void test('an expired certificate is reported', async (t) => {
  const past = await newAuthority(() => new Date(Date.now() - 10 * 86_400_000))
  const server = createQuicServer({
    ...(await past.issue(['localhost'], { days: 1 })),
    alpn: [ALPN],
    runtimeMode: 'portable',
    disableRetry: false,
    maxConnections: 9,
  })
  const { port } = await server.listen(0, '127.0.0.1')
  t.after(() => server.close())
  const target = { host: '127.0.0.1', port, serverName: 'localhost', ca: past.cert }
  await assert.rejects(
    dial(transport, target),
    refused('connection_error', /has expired or is not valid yet\. Renew it/),
  )
})

void test('the reason why a relay closes the connection is reported, in one line', async (t) => {
  const target = await serve(t, (session) =>
    session.on('stream', (stream) => {
      stream.on('error', () => {})
      stream.on('data', () => queueMicrotask(() => session.close(4, 'too much is\nwaiting to be read')))
    }),
  )
  const line = await dial(transport, target)
  line.stream.write(new Uint8Array(CELL_BYTES))
  refused(
    'connection_error',
    /^The connection to the relay was closed: too much is waiting to be read\.$/,
  )(await line.closed)
  assert.equal(line.lastWords.length, 1)
})

void test('a reset stream ends the connection', async (t) => {
  const { promise: over, resolve } = Promise.withResolvers<unknown>()
  const target = await serve(t, (session) => {
    session.on('close', resolve)
    session.on('stream', (stream) => {
      stream.on('error', () => {})
      stream.on('data', () => queueMicrotask(() => stream.close(7)))
    })
  })
  const line = await dial(transport, target)
  line.stream.write(new Uint8Array(CELL_BYTES))
  refused('connection_error', /was cut off\.$/)(await line.closed)
  await over
  assert.equal(line.lastWords.length, 1)
})

void test('a relay that does not answer the end of a stream is dropped after a while', async (t) => {
  const { promise: over, resolve } = Promise.withResolvers<unknown>()
  const target = await serve(t, (session) => {
    session.on('close', resolve)
    session.on('stream', (stream) => stream.on('error', () => {}).resume())
  })
  const line = await dial(transport, target)
  line.stream.write(new Uint8Array(CELL_BYTES))
  line.stream.end()
  refused('connection_error', /./)(await line.closed)
  await over
  assert.equal(line.lastWords.length, 1)
})

void test('an unreadable authority is reported', async (t) => {
  const target = await serve(t, () => {})
  await assert.rejects(
    dial(transport, { ...target, ca: 'nonsense' }),
    refused('connection_error', /^The CA certificate for 127\.0\.0\.1:\d+ cannot be read\.$/),
  )
})

void test('threads other than the main one use gRPC, with a clock or without', async () => {
  const module = JSON.stringify(new URL('../../src/public/agent-parts.ts', import.meta.url).href)
  const target = { host: '127.0.0.1', port: 1, serverName: 'localhost' }
  for (const traffic of ['standard', 'strict']) {
    const code = `import { parentPort } from 'node:worker_threads'
      const { transportsFor } = await import(${module})
      const handlers = { data() {}, closed() {} }
      await transportsFor('${traffic}').quic.dial(${JSON.stringify(target)}, handlers)
        .catch((error) => parentPort.postMessage(error.message))`
    const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(code)}`))
    const [message] = (await once(worker, 'message')) as [string]
    assert.match(message, /^QUIC works on the main thread only/)
  }
})
