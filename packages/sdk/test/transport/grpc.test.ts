/** What only gRPC's client has to cope with: servers that do not behave like a relay. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { constants, createSecureServer, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2'
import { createServer as createHttpsServer } from 'node:https'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { test, type TestContext } from 'node:test'
import { createServer as createTlsServer } from 'node:tls'
import { HYBRID_GROUP } from '@static/node/tls-groups'
import { CELL_BYTES, type ErrorCode, frameCells } from '@static/protocol'
import type { Target } from '../../src/ports/index.ts'
import { makeGrpcTransport } from '../../src/transport/grpc.ts'
import { newAuthority } from '@static/testkit/certificates'
import { dial, refused } from './support.ts'

const authority = await newAuthority()
const pair = await authority.issue(['localhost'])
const transport = makeGrpcTransport()
const GRPC = { ':status': 200, 'content-type': 'application/grpc+proto' }
const CELLS = Buffer.alloc(3 * CELL_BYTES, 'cells')

/** Serves calls the way a test wants; the last session is told. */
async function serve(
  t: TestContext,
  answer: (stream: ServerHttp2Stream) => void,
): Promise<{ target: Target; session: () => ServerHttp2Session }> {
  const sessions: ServerHttp2Session[] = []
  // Only who offers the hybrid gets in: what is recorded of an agent stays closed.
  const server = createSecureServer({ ...pair, minVersion: 'TLSv1.3', ecdhCurve: HYBRID_GROUP })
  server.on('session', (session) => sessions.push(session.on('error', () => {})))
  server.on('stream', (stream: ServerHttp2Stream) => {
    stream.on('error', () => {})
    answer(stream)
  })
  const target = await listen(t, server)
  t.after(() => {
    for (const session of sessions) session.destroy()
  })
  return { target, session: () => sessions.at(-1)! }
}

async function listen(t: TestContext, server: Server): Promise<Target> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  const { port } = server.address() as AddressInfo
  return { host: '127.0.0.1', port, serverName: 'localhost', ca: authority.cert }
}

/** Answers with headers, then bytes, then trailers. */
function reply(bytes: Uint8Array, trailers: Record<string, string>): (stream: ServerHttp2Stream) => void {
  return (stream) => {
    stream.respond(GRPC, { waitForTrailers: true })
    stream.on('wantTrailers', () => stream.sendTrailers(trailers))
    stream.end(bytes)
  }
}

void test('cells that arrive at once, in any pieces, are delivered when the caller has the stream', async (t) => {
  const { target, session } = await serve(t, (stream) => {
    stream.respond(GRPC, { waitForTrailers: true })
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
    const frames = frameCells(CELLS)
    for (let at = 0; at < frames.length; at += 7) stream.write(frames.subarray(at, at + 7))
    stream.end()
  })
  const line = await dial(transport, target)
  assert.ok((await line.received(CELLS.length)).equals(CELLS))
  assert.equal(session().remoteSettings.initialWindowSize, 8 * 1024 * 1024)
  assert.ok((session().state.remoteWindowSize ?? 0) > 4 * 1024 * 1024, 'the connection has a wide window too')
  assert.equal(await line.closed, undefined)
  assert.deepEqual(line.lastWords, [undefined])
})

const ENDS: Record<string, [answer: (stream: ServerHttp2Stream) => void, code: ErrorCode, message: RegExp]> = {
  'a status that is not 0': [
    reply(CELLS.subarray(0, 0), { 'grpc-status': '8', 'grpc-message': encodeURIComponent('Too much\nis waiting') }),
    'connection_error',
    /^The relay at 127\.0\.0\.1:\d+ ended the session: Too much is waiting\.$/,
  ],
  'a message in bad encoding': [
    reply(CELLS.subarray(0, 0), { 'grpc-status': '14', 'grpc-message': '100 % full' }),
    'unavailable',
    /ended the session: 100 % full\.$/,
  ],
  'a status without words': [reply(CELLS.subarray(0, 0), { 'grpc-status': '13' }), 'connection_error', /status 13\.$/],
  'no status': [reply(CELLS.subarray(0, 0), {}), 'connection_error', /was lost\.$/],
  'half a cell': [
    reply(frameCells(CELLS).subarray(0, 1500), { 'grpc-status': '0' }),
    'connection_error',
    /was lost\.$/,
  ],
  'something else than cells': [
    reply(Buffer.from([0, 0, 0, 0, 1, 0]), { 'grpc-status': '0' }),
    'connection_error',
    /sent a message that is not a cell\.$/,
  ],
  'a compressed message': [
    reply(Buffer.from([1, 0, 0, 4, 3]), { 'grpc-status': '0' }),
    'connection_error',
    /is not a cell\.$/,
  ],
  'a reset': [
    (stream) => {
      stream.respond(GRPC)
      stream.on('data', () => stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM))
    },
    'connection_error',
    /was reset by the relay \(HTTP\/2 code 11\)\.$/,
  ],
  'a GOAWAY with an error': [
    (stream) => {
      stream.respond(GRPC)
      stream.session?.goaway(constants.NGHTTP2_INTERNAL_ERROR)
    },
    'connection_error',
    /^The connection to 127\.0\.0\.1:\d+ was /,
  ],
  'a connection that is gone': [
    (stream) => {
      stream.respond(GRPC)
      stream.write(frameCells(CELLS), () => stream.session?.destroy())
    },
    'connection_error',
    /^The connection to 127\.0\.0\.1:\d+ was /,
  ],
}

for (const [name, [answer, code, message]] of Object.entries(ENDS)) {
  void test(`a session ends with ${name}`, async (t) => {
    const { target, session } = await serve(t, answer)
    const line = await dial(transport, target)
    line.stream.write(CELLS)
    refused(code, message)(await line.closed)
    if (!session().destroyed) await once(session(), 'close')
    assert.equal(line.lastWords.length, 1)
  })
}

void test('a graceful GOAWAY lets the session continue to its end', async (t) => {
  const { target } = await serve(t, (stream) => {
    stream.respond(GRPC, { waitForTrailers: true })
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
    stream.session?.goaway()
    stream.on('data', () => stream.end(frameCells(CELLS)))
  })
  const line = await dial(transport, target)
  line.stream.write(CELLS)
  assert.ok((await line.received(CELLS.length)).equals(CELLS))
  assert.equal(await line.closed, undefined)
})

const REFUSALS: Record<string, [answer: (stream: ServerHttp2Stream) => void, code: ErrorCode, message: RegExp]> = {
  'takes no more sessions': [
    (stream) =>
      stream.respond({ ...GRPC, 'grpc-status': '14', 'grpc-message': 'The%20relay%20is%20full.' }, { endStream: true }),
    'unavailable',
    /ended the session: The relay is full\.$/,
  ],
  'does not know the call': [
    (stream) => stream.respond({ ':status': 404 }, { endStream: true }),
    'connection_error',
    /^The server at .* is not a relay\.$/,
  ],
  'is a web site': [
    (stream) => {
      stream.respond({ ':status': 200, 'content-type': 'text/html' })
      stream.end('<h1>Hello</h1>')
    },
    'connection_error',
    /is not a relay\.$/,
  ],
  'resets the call': [
    (stream) => stream.close(constants.NGHTTP2_REFUSED_STREAM),
    'connection_error',
    /was reset by the relay \(HTTP\/2 code 7\)\.$/,
  ],
  'does not answer the call': [() => {}, 'connection_error', /^Connecting to 127\.0\.0\.1:\d+ timed out\.$/],
}

for (const [name, [answer, code, message]] of Object.entries(REFUSALS)) {
  void test(`a server that ${name} is reported clearly`, async (t) => {
    const { target, session } = await serve(t, answer)
    const chosen = name === 'does not answer the call' ? makeGrpcTransport({ connectTimeoutMs: 500 }) : transport
    await assert.rejects(dial(chosen, target), refused(code, message))
    if (!session().destroyed) await once(session(), 'close')
  })
}

void test('servers that are not relays are distinguished from those that are', async (t) => {
  const web = await listen(t, createHttpsServer(pair))
  await assert.rejects(dial(transport, web), refused('connection_error', /does not speak HTTP\/2\.$/))
  const other = createTlsServer(pair)
  const left = once(other, 'connection').then(async ([socket]: Socket[]) => once(socket!, 'close'))
  await assert.rejects(
    dial(transport, await listen(t, other)),
    refused('connection_error', /does not speak HTTP\/2\.$/),
  )
  await left
  const plain = createServer((socket) => socket.on('error', () => {}).end('HTTP/1.1 400 Bad Request\r\n\r\n'))
  await assert.rejects(
    dial(transport, await listen(t, plain)),
    refused('connection_error', /does not support TLS 1\.3/),
  )
  const old = createTlsServer({ ...pair, maxVersion: 'TLSv1.2', ALPNProtocols: ['h2'] })
  old.on('tlsClientError', () => {})
  await assert.rejects(dial(transport, await listen(t, old)), refused('connection_error', /does not support TLS 1\.3/))
  const rude = createServer((socket) => socket.on('error', () => {}).destroy())
  await assert.rejects(dial(transport, await listen(t, rude)), refused('connection_error', /closed the connection/))
})

void test('an expired certificate is reported', async (t) => {
  const past = await newAuthority(() => new Date(Date.now() - 10 * 86_400_000))
  const server = createSecureServer({ ...(await past.issue(['localhost'], { days: 1 })), minVersion: 'TLSv1.3' })
  const target = { ...(await listen(t, server)), ca: past.cert }
  await assert.rejects(
    dial(transport, target),
    refused('connection_error', /has expired or is not valid yet\. Renew it/),
  )
})

void test('a relay that does not answer the end of a stream is dropped after a while', async (t) => {
  const { target, session } = await serve(t, (stream) => stream.respond(GRPC))
  const line = await dial(transport, target)
  line.stream.write(CELLS)
  line.stream.end()
  refused('connection_error', /was lost\.$/)(await line.closed)
  if (!session().destroyed) await once(session(), 'close')
  assert.equal(line.lastWords.length, 1)
})

void test('a relay that accepts the call but reads nothing is dropped, despite its signs of life', async (t) => {
  const { target } = await serve(t, (stream) => stream.respond(GRPC))
  const line = await dial(transport, target)
  const cells = new Uint8Array(1024 * CELL_BYTES)
  for (let count = 0; count < 9; count++) line.stream.write(cells)
  refused('connection_error', /^The relay at 127\.0\.0\.1:\d+ stopped reading\.$/)(await line.closed)
})
