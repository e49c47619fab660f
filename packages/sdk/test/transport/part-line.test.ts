/** The port of files as an agent meets it: a server that lies, is another one, or speaks another protocol. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type ServerOptions } from 'node:https'
import type { AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { certificates } from '@static/testkit/certificates'
import type { PartLine, PartRequest } from '../../src/ports/index.ts'
import { makePartLine } from '../../src/transport/part-line.ts'

type Answer = (request: IncomingMessage, response: ServerResponse) => void

async function serve(t: TestContext, answer: Answer, options: ServerOptions = {}): Promise<number> {
  const { named } = await certificates()
  const server = createServer({ ...named, ...options }, answer)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

async function lineFor(t: TestContext, ca?: string): Promise<PartLine> {
  const line = makePartLine({ ca: ca ?? (await certificates()).authority.cert, connectTimeoutMs: 5000 })
  t.after(() => line.close())
  return line
}

const asked = (port: number, serverName = 'localhost', signal = new AbortController().signal): PartRequest => ({
  place: { host: 'localhost', port, serverName },
  path: '/v1/files/a/b/0',
  token: 'a token',
  signal,
})

test('a part goes out and comes in, with the token, over connections that are used again', async (t) => {
  const seen: string[] = []
  const ports = new Set<number | undefined>()
  const port = await serve(t, (request, response) => {
    ports.add(request.socket.remotePort)
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const { method, url, headers } = request
      seen.push(`${method} ${url} ${String(headers['static-session'])} ${Buffer.concat(chunks).toString()}`)
      response.setHeader('static-session', 'another')
      response.writeHead(method === 'PUT' ? 204 : 200)
      response.end(method === 'PUT' ? undefined : 'part')
    })
  })
  const line = await lineFor(t)
  const put = await line.put(asked(port), Uint8Array.from(Buffer.from('sent')))
  assert.deepEqual(put, { type: 'done', token: 'another', bytes: new Uint8Array() })
  const got = await line.get(asked(port), 4)
  assert.equal(got.type === 'done' && Buffer.from(got.bytes).toString(), 'part')
  assert.deepEqual(seen, ['PUT /v1/files/a/b/0 a token sent', 'GET /v1/files/a/b/0 a token '])
  assert.equal(ports.size, 1)
})

test('a part of another length is none, and a refusal is what its code says', async (t) => {
  const answers: Answer[] = [
    (_request, response) => response.end('longer'),
    (_request, response) => response.end('sho'),
    (_request, response) => {
      response.writeHead(200, { 'content-length': 4 })
      response.write('x', () => response.destroy())
    },
    (_request, response) => response.writeHead(302, { location: 'https://localhost:1/' }).end(),
    (_request, response) => response.writeHead(500).end('x'.repeat(1_000_000)),
    (_request, response) =>
      response.writeHead(429, { 'retry-after': '7' }).end(JSON.stringify({ code: 'rate_limited', detail: 'Slowly.' })),
    (_request, response) => response.writeHead(429, { 'retry-after': '-1' }).end('[1]'),
  ]
  const port = await serve(t, (request, response) => answers.shift()?.(request, response))
  const line = await lineFor(t)
  for (let left = 3; left > 0; left--) await assert.rejects(line.get(asked(port), 4), { code: 'connection_error' })
  const refused = { type: 'refused', code: '', message: '', retryAfterMs: undefined }
  assert.deepEqual(await line.get(asked(port), 4), { ...refused, status: 302 })
  assert.deepEqual(await line.get(asked(port), 4), { ...refused, status: 500 })
  const limited = { code: 'rate_limited', message: 'Slowly.', retryAfterMs: 7000 }
  assert.deepEqual(await line.get(asked(port), 4), { ...refused, ...limited, status: 429 })
  assert.deepEqual(await line.get(asked(port), 4), { ...refused, status: 429 })
})

test('a server without the right certificate, or with an old TLS, gets neither token nor part', async (t) => {
  let heard = 0
  const answer: Answer = (_request, response) => {
    heard++
    response.end('part')
  }
  const port = await serve(t, answer)
  const old = await serve(t, answer, { maxVersion: 'TLSv1.2' })
  const line = await lineFor(t)
  const { authority } = await certificates()
  const strange = makePartLine({ ca: undefined })
  t.after(() => strange.close())
  assert.ok(authority)
  const part = new Uint8Array(4)
  await assert.rejects(strange.put(asked(port), part), { code: 'connection_error' })
  await assert.rejects(line.put(asked(port, 'other.test'), part), { code: 'connection_error', message: /other.test/ })
  await assert.rejects(line.put(asked(port, '127.0.0.1'), part), { code: 'connection_error', message: /DNS name/ })
  await assert.rejects(line.put(asked(old), part), { code: 'connection_error' })
  assert.equal(heard, 0)
  const reason = new Error('enough')
  await assert.rejects(line.put(asked(port, 'localhost', AbortSignal.abort(reason)), part), reason)
})
