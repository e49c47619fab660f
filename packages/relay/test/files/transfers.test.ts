/** The port of files over real connections: HTTP/1.1 and HTTP/2, hostile and slow peers, and a gate that a test holds. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import type { ClientRequest, IncomingMessage } from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import { Agent, request as requestHttp1 } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { crc32 } from 'node:zlib'
import { certificates } from '@static/testkit/certificates'
import { DirectoryParts } from '../../src/files/directory.ts'
import { Places } from '../../src/files/places.ts'
import { type FilesServer, startFilesServer } from '../../src/files/server.ts'
import type { TransferLimits } from '../../src/files/transfers.ts'
import type { PartAnswer, PartAsk, PartGate, Parts } from '../../src/ports.ts'

const KEY = 'ab'.repeat(16)
const CHANNEL = '01'.repeat(16)
const FILE = '02'.repeat(16)
const PATH = `/v1/files/${CHANNEL}/${FILE}/0`
const BYTES = 300_000

/** Answers as it is told, and writes down what it was asked. */
class Gate implements PartGate {
  readonly asked: PartAsk[] = []
  readonly stored: number[] = []
  readonly going = new Set<number>()
  answer: PartAnswer = { type: 'go', key: KEY, bytes: BYTES, stored: undefined, token: undefined }
  recorded: PartAnswer = { type: 'recorded' }
  #waiting: (() => void)[] = []

  ask(id: number, ask: PartAsk): Promise<PartAnswer> {
    this.asked.push(ask)
    if (this.answer.type === 'go') this.going.add(id)
    return Promise.resolve(this.answer)
  }

  store(_id: number, checksum: number): Promise<PartAnswer> {
    this.stored.push(checksum)
    return Promise.resolve(this.recorded)
  }

  over(id: number): void {
    assert.ok(this.going.delete(id))
    for (const wake of this.#waiting.splice(0)) wake()
  }

  /** Waits until no transfer is under way. */
  async idle(): Promise<void> {
    while (this.going.size > 0) await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }
}

interface Answered {
  readonly status: number
  readonly headers: Record<string, unknown>
  readonly body: Buffer
}

interface Asked {
  readonly method?: string
  readonly path?: string
  readonly body?: Uint8Array
  readonly headers?: Record<string, string>
  /** Whether the length of the body is announced. */
  readonly isCounted?: boolean
}

class Bench {
  readonly gate = new Gate()
  readonly directory: string
  readonly parts: Parts
  readonly server: FilesServer
  readonly ca: string
  readonly failures: unknown[]
  readonly agent: Agent

  constructor(directory: string, parts: Parts, server: FilesServer, ca: string, failures: unknown[], gate: Gate) {
    this.directory = directory
    this.parts = parts
    this.server = server
    this.ca = ca
    this.failures = failures
    this.gate = gate
    this.agent = new Agent({ ca, keepAlive: true })
  }

  static async open(t: TestContext, limits?: TransferLimits, places?: Places): Promise<Bench> {
    const { authority, named } = await certificates()
    const directory = mkdtempSync(join(tmpdir(), 'static-transfers-'))
    const parts = new DirectoryParts(directory)
    const gate = new Gate()
    const failures: unknown[] = []
    const server = await startFilesServer({
      host: 'localhost',
      port: 0,
      certificate: named,
      namedCertificate: named,
      proxyProtocolFrom: [],
      parts,
      gate,
      bytesPerSecond: 1_000_000_000,
      monotonic: () => performance.now(),
      failed: (error) => failures.push(error),
      ...(limits && { limits }),
      ...(places && { places }),
    })
    const bench = new Bench(directory, parts, server, authority.cert, failures, gate)
    t.after(async () => {
      bench.agent.destroy()
      await server.stop()
      rmSync(directory, { recursive: true, force: true })
      assert.deepEqual(failures, [])
      assert.equal(gate.going.size, 0, 'every transfer is over')
      assert.equal(server.transfers.counts.bodies, 0, 'every place is free')
    })
    return bench
  }

  /** Over HTTP/1.1. */
  async http1({ method = 'PUT', path = PATH, body, headers = {}, isCounted = true }: Asked): Promise<Answered> {
    const request = requestHttp1({
      host: 'localhost',
      port: this.server.port,
      agent: this.agent,
      method,
      path,
      headers: {
        'static-session': 'token',
        ...(body && isCounted && { 'content-length': String(body.length) }),
        ...headers,
      },
    })
    request.end(body)
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    const chunks = (await response.toArray()) as Buffer[]
    return { status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }
  }

  /** Over HTTP/2, on a connection of its own. */
  async http2({ method = 'PUT', path = PATH, body, headers = {}, isCounted = true }: Asked): Promise<Answered> {
    const session = connectHttp2(`https://localhost:${this.server.port}`, { ca: this.ca })
    try {
      const length = body && isCounted && { 'content-length': String(body.length) }
      const stream = session.request(
        { ':method': method, ':path': path, 'static-session': 'token', ...length, ...headers },
        { endStream: body === undefined },
      )
      stream.on('error', () => {})
      if (body) stream.end(body)
      const [answer] = (await once(stream, 'response')) as [Record<string, unknown>]
      const chunks = (await stream.toArray()) as Buffer[]
      return { status: Number(answer[':status']), headers: answer, body: Buffer.concat(chunks) }
    } finally {
      session.close()
    }
  }

  /** A request whose body a test sends bit by bit. */
  slow(): ClientRequest {
    const request = requestHttp1({
      host: 'localhost',
      port: this.server.port,
      ca: this.ca,
      agent: false,
      method: 'PUT',
      path: PATH,
      headers: { 'static-session': 'token', 'content-length': String(BYTES) },
    })
    request.on('error', () => {})
    return request
  }

  /** What is on disk of the file. */
  stored(): string[] {
    const path = join(this.directory, 'ab', KEY)
    return existsSync(path) ? readdirSync(path) : []
  }
}

function problem({ status, headers, body }: Answered): readonly [number, string] {
  assert.equal(headers['content-type'], 'application/problem+json')
  const { code, status: told, title, detail } = JSON.parse(body.toString()) as Record<string, unknown>
  assert.deepEqual([told, typeof title, typeof detail], [status, 'string', 'string'])
  return [status, String(code)]
}

for (const way of ['http1', 'http2'] as const) {
  test(`${way}: a part is stored, recorded and given as it came`, async (t) => {
    const bench = await Bench.open(t)
    const body = randomBytes(BYTES)
    const put = await bench[way]({ body })
    assert.deepEqual([put.status, put.body.length], [204, 0])
    assert.deepEqual(bench.gate.stored, [crc32(body)])
    assert.deepEqual(bench.gate.asked, [{ verb: 'put', channel: CHANNEL, file: FILE, part: 0, token: 'token' }])
    bench.gate.answer = { type: 'go', key: KEY, bytes: BYTES, stored: undefined, token: 'a newer one' }
    const got = await bench[way]({ method: 'GET' })
    assert.deepEqual(
      [got.status, got.headers['content-length'], got.headers['static-session']],
      [200, '300000', 'a newer one'],
    )
    assert.deepEqual(got.body, body)
    await bench.gate.idle()
    const { stored, sent } = bench.server.transfers.counts
    assert.deepEqual(
      [stored, sent],
      [
        { parts: 1, bytes: BYTES },
        { parts: 1, bytes: BYTES },
      ],
    )
  })

  test(`${way}: a repeated part is compared, not stored`, async (t) => {
    const bench = await Bench.open(t)
    const body = randomBytes(BYTES)
    bench.gate.answer = { type: 'go', key: KEY, bytes: BYTES, stored: crc32(body), token: undefined }
    assert.equal((await bench[way]({ body })).status, 204)
    assert.deepEqual(problem(await bench[way]({ body: randomBytes(BYTES) })), [400, 'invalid_request'])
    assert.deepEqual([bench.gate.stored, bench.stored()], [[], []])
  })

  test(`${way}: what is not a part is refused before it is read`, async (t) => {
    const bench = await Bench.open(t)
    const paths = [
      '/',
      '/v1/files',
      PATH.toUpperCase(),
      `${PATH}0000`,
      `${PATH}0`,
      `/v1/files/../${FILE}/0`,
      `${PATH}?x`,
    ]
    for (const path of paths)
      assert.deepEqual(problem(await bench[way]({ method: 'GET', path })), [404, 'not_found'], path)
    for (const method of ['POST', 'DELETE', 'OPTIONS']) {
      const answer = await bench[way]({ method })
      assert.deepEqual([problem(answer), answer.headers['allow']], [[405, 'method_not_allowed'], 'GET, PUT'])
    }
    assert.deepEqual(problem(await bench[way]({ method: 'GET', body: randomBytes(9) })), [400, 'invalid_request'])
    // How much will come must be known before anything comes.
    const headers = way === 'http1' ? { 'transfer-encoding': 'chunked' } : {}
    const endless = await bench[way]({ body: randomBytes(BYTES), headers, isCounted: false })
    assert.deepEqual(problem(endless), [400, 'invalid_request'])
    if (way === 'http1') assert.equal(endless.headers['connection'], 'close')
    assert.equal(bench.gate.asked.length, 0)
    for (const length of [BYTES - 1, BYTES + 1]) {
      assert.deepEqual(problem(await bench[way]({ body: randomBytes(length) })), [400, 'invalid_request'])
    }
    assert.deepEqual([bench.gate.stored, bench.stored()], [[], []])
  })

  test(`${way}: a refusal has its status, code and wait`, async (t) => {
    const bench = await Bench.open(t)
    for (const [refused, status, wait] of [
      ['auth_failed', 401, undefined],
      ['file_expired', 410, undefined],
      ['file_incomplete', 409, undefined],
      ['not_allowed', 403, undefined],
      ['quota_exceeded', 429, '1'],
      ['rate_limited', 429, '3'],
      ['files_unavailable', 503, '1'],
    ] as const) {
      bench.gate.answer = { type: 'refused', refusal: { refused, ...(wait === '3' && { retryAfterMs: 2500 }) } }
      const answer = await bench[way]({ body: randomBytes(BYTES) })
      assert.deepEqual([problem(answer), answer.headers['retry-after']], [[status, refused], wait])
    }
    bench.gate.answer = { type: 'go', key: KEY, bytes: BYTES, stored: undefined, token: undefined }
    bench.gate.recorded = { type: 'refused', refusal: { refused: 'file_expired' } }
    assert.deepEqual(problem(await bench[way]({ body: randomBytes(BYTES) })), [410, 'file_expired'])
    // The file has ended while the part was on its way: nobody pays for these bytes, or looks for them soon.
    assert.deepEqual(bench.stored(), [])
    // Of a part that was recorded, the bytes are gone.
    await bench.parts.delete(KEY, 1)
    assert.deepEqual(problem(await bench[way]({ method: 'GET' })), [410, 'file_expired'])
  })
}

test('a body that breaks off, or passes nothing for too long, leaves nothing', async (t) => {
  const bench = await Bench.open(t, { stallMs: 50, totalMs: 60_000 })
  const broken = bench.slow()
  broken.write(randomBytes(100_000))
  await once(broken, 'socket')
  while (bench.gate.asked.length === 0) await new Promise(setImmediate)
  broken.destroy()
  await bench.gate.idle()
  const stalled = bench.slow()
  stalled.write(randomBytes(100_000))
  await new Promise((resolve) => stalled.once('close', resolve))
  await bench.gate.idle()
  assert.deepEqual([bench.gate.asked.length, bench.gate.stored, bench.stored()], [2, [], []])
  const body = randomBytes(BYTES)
  assert.equal((await bench.http1({ body })).status, 204)
})

test('a reader that reads nothing is disconnected', async (t) => {
  const bench = await Bench.open(t, { stallMs: 50, totalMs: 60_000 })
  // More than the buffers of both ends hold.
  const bytes = 64 * 1_048_576
  bench.gate.answer = { type: 'go', key: KEY, bytes, stored: undefined, token: undefined }
  await bench.parts.put(KEY, 0, [Buffer.alloc(bytes)] as unknown as AsyncIterable<Uint8Array>, bytes)
  const request = requestHttp1({ host: 'localhost', port: bench.server.port, ca: bench.ca, agent: false, path: PATH })
  request.on('error', () => {})
  request.end()
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  response.on('error', () => {})
  response.pause()
  await bench.gate.idle()
  assert.equal(bench.server.transfers.counts.sent.parts, 0)
  response.destroy()
})

test('when the places are taken, the slowest body goes, and a fast one is stored', async (t) => {
  const places = new Places({ total: 2, perAddress: 2 })
  const bench = await Bench.open(t, undefined, places)
  // As if from other addresses, and for a while already.
  const ended: number[] = []
  const slow = places.take('192.0.2.1', -10_000, () => ended.push(1))
  const quick = places.take('192.0.2.2', -10_000, () => ended.push(2))
  assert.ok(slow && quick)
  quick.bytes = 1_000_000_000_000
  const body = randomBytes(BYTES)
  assert.equal((await bench.http1({ body })).status, 204)
  assert.deepEqual([ended, bench.server.transfers.counts.ousted], [[1], 0])
  const now = performance.now()
  // Both have just begun: the next one waits.
  const young = places.take('192.0.2.3', now, () => ended.push(3))
  const other = places.take('192.0.2.4', now, () => ended.push(4))
  assert.ok(young && other)
  const answer = await bench.http1({ body })
  assert.deepEqual([problem(answer), answer.headers['retry-after']], [[429, 'rate_limited'], '1'])
  for (const place of [slow, quick, young, other]) places.leave(place)
})

test('many connections at once get their parts, four files at a time', async (t) => {
  const bench = await Bench.open(t)
  const body = randomBytes(BYTES)
  const answers = await Promise.all(Array.from({ length: 12 }, (_, at) => bench[at % 2 ? 'http1' : 'http2']({ body })))
  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([204]))
  assert.deepEqual(bench.stored(), ['0'])
})
