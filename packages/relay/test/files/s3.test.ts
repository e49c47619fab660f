/** Parts in a bucket: over a server in memory, and with STATIC_TEST_RCLONE (`npm run proof -- files`) over rclone. */
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { rcloneProgram, startRclone } from '@static/testkit/s3'
import { openParts } from '../../src/files/open-parts.ts'
import { S3Parts } from '../../src/files/s3/parts.ts'
import { FakeS3 } from '../support/fake-s3.ts'
import { chunks, KEY, OTHER, read, suite } from './parts-suite.ts'

const PAUSES = [1, 1]

function temporary(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'static-s3-'))
  t.after(() => {
    assert.deepEqual(readdirSync(directory), [], 'nothing stays of bodies')
    rmSync(directory, { recursive: true, force: true })
  })
  return directory
}

async function open(t: TestContext): Promise<{ server: FakeS3; parts: S3Parts; spool: string }> {
  const server = await FakeS3.start()
  t.after(() => server.stop())
  const spool = temporary(t)
  return { server, parts: new S3Parts(server.access(spool), 60_000, PAUSES), spool }
}

suite('s3', async (t) => (await open(t)).parts)

test('a part is one object, and what is not a part in the bucket is left alone', async (t) => {
  const { server, parts } = await open(t)
  const others = ['static/files/README', `static/files/${KEY}/x`, `static/files/${KEY}/01`, `other/${KEY}/0`]
  for (const name of others) server.objects.set(name, { bytes: Buffer.from('theirs'), changedAt: 0 })
  for (const part of [0, 1, 10]) await parts.put(KEY, part, chunks(Buffer.from('x')), 1)
  server.changedAt += 5000
  await parts.put(KEY, 2, chunks(Buffer.from('x')), 1)
  assert.ok(server.objects.has(`static/files/${KEY}/10`))
  assert.deepEqual(await Array.fromAsync(parts.list('')), [{ key: KEY, changedAt: server.changedAt }])
  await parts.delete(KEY)
  assert.deepEqual([...server.objects.keys()], others)
  for (const key of ['..', 'A'.repeat(32), '']) {
    await assert.rejects(parts.put(key, 0, chunks(Buffer.from('x')), 1), { code: 'internal_error' })
  }
})

test('a body that does not arrive whole never reaches the server', async (t) => {
  const { server, parts } = await open(t)
  await assert.rejects(parts.put(KEY, 0, chunks(Buffer.from('short')), 6), { code: 'invalid_request' })
  await assert.rejects(parts.put(KEY, 0, chunks(Buffer.from('too long')), 6), { code: 'invalid_request' })
  assert.deepEqual(server.asked, [])
})

test('a server that fails is asked again, and one that refuses is not', async (t) => {
  const { server, parts } = await open(t)
  const bytes = Buffer.alloc(300_000, 'again')
  server.moods = [503, 'reset']
  await parts.put(KEY, 0, chunks(bytes), bytes.length)
  server.moods = [429, 500]
  assert.deepEqual(await read(parts, KEY, 0, bytes.length), bytes)
  assert.equal(server.asked.length, 6)
  server.moods = [500, 500, 500]
  await assert.rejects(parts.put(OTHER, 0, chunks(bytes), bytes.length), /500 SlowDown/)
  server.moods = [403]
  await assert.rejects(parts.put(OTHER, 0, chunks(bytes), bytes.length), /403 SlowDown/)
  assert.deepEqual([server.asked.length, server.objects.size], [10, 1])
})

test('a server that says nothing is given up', async (t) => {
  const { server, spool } = await open(t)
  const parts = new S3Parts(server.access(spool), 50, [])
  server.moods = ['silent', 'silent']
  await assert.rejects(parts.put(KEY, 0, chunks(Buffer.from('x')), 1), /no byte for 50 ms/)
  await assert.rejects(parts.get(KEY, 0, 1), /no byte for 50 ms/)
})

test('wrong keys and buckets are noticed at the start, and a server that is away is waited for', async (t) => {
  const { server, spool } = await open(t)
  const access = server.access(spool)
  const failures: unknown[] = []
  const failed = (error: unknown): number => failures.push(error)
  const wrong = [
    [{ secretAccessKey: 'wrong' }, /403 SignatureDoesNotMatch/],
    [{ bucket: 'none' }, /404 NoSuchBucket/],
    [{ endpoint: access.endpoint.replace('https', 'http') }, /not an HTTPS address/],
  ] as const
  for (const [change, message] of wrong) {
    await assert.rejects(openParts({ ...access, ...change }, failed), { code: 'invalid_request', message })
  }
  assert.deepEqual([failures.length, server.asked.length], [0, 2])
  server.moods = [500]
  const parts = await openParts(access, failed)
  assert.match(String(failures[0]), /500/)
  await parts.put(KEY, 0, chunks(Buffer.from('x')), 1)
})

const program = rcloneProgram()
if (program !== undefined) {
  suite('rclone', async (t) => {
    const server = await startRclone(program)
    t.after(() => server.stop())
    const access = { ...server.access, spool: temporary(t) }
    await assert.rejects(
      openParts({ ...access, secretAccessKey: 'wrong' }, () => {}),
      { code: 'invalid_request' },
    )
    return openParts(access, (error) => assert.fail(String(error)))
  })
}
