/** Files between agents over a real relay: every size at which something changes, and what can go wrong with a path. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { code, takeEnvelope, TestSystem } from '../support/test-system.ts'
import { directoryFor, hashOf, KIB, MIB } from './support.ts'

const SIZES = [0, 1, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, MIB - 1, MIB, MIB + 1, 5 * MIB + 7]

for (const way of ['quic', 'grpc'] as const) {
  test(`files of every size arrive as they were sent, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way, { files: true })
    const directory = directoryFor(t)
    const alice = await world.agent('alice')
    const bob = await world.agent('bob', { account: null })
    const [a, b] = await world.channel(alice, [bob])
    for (const size of way === 'quic' ? SIZES : [70_000]) {
      const path = join(directory, `${size}.bin`)
      const bytes = randomBytes(size)
      writeFileSync(path, bytes)
      const seen: number[] = []
      const sent = await a!.sendFile(path, {
        type: 'image/png',
        text: `${size} bytes`,
        progress: (done) => seen.push(done),
      })
      assert.equal(seen.at(-1), size)
      const envelope = await takeEnvelope(b!)
      assert.equal(envelope.text(), `${size} bytes`)
      const { file = assert.fail() } = envelope
      assert.deepEqual([file.id, file.name, file.type, file.size], [sent.fileId, `${size}.bin`, 'image/png', size])
      assert.deepEqual([file.messageId, file.index], [sent.messageId, sent.index])
      assert.deepEqual(
        b!.files().map(({ id }) => id),
        [sent.fileId],
      )
      // What a stream gives, and then the disk.
      const chunks = await Array.fromAsync(file.stream())
      assert.equal(hashOf(Buffer.concat(chunks)), hashOf(bytes))
      const target = join(directory, `${size}.saved`)
      assert.equal(await file.save(target), target)
      assert.equal(hashOf(readFileSync(target)), hashOf(bytes))
      assert.equal(statSync(target).mode & 0o777, 0o600)
      assert.ok(!existsSync(`${target}.part`))
      assert.deepEqual(b!.files(), [])
      await assert.rejects(file.save(`${target}2`), code('file_expired'))
    }
    // A stream, from a guest.
    const bytes = randomBytes(3 * MIB + 5)
    const pieces = [bytes.subarray(0, 10), bytes.subarray(10, 2 * MIB), bytes.subarray(2 * MIB)]
    await b!.sendFile(Readable.from(pieces), { name: 'log.txt' })
    const { file = assert.fail(), payload } = await takeEnvelope(a!)
    assert.equal(payload.length, 0)
    assert.equal(file.name, 'log.txt')
    assert.equal(await file.save(directory), join(directory, 'log.txt'))
    assert.equal(hashOf(readFileSync(join(directory, 'log.txt'))), hashOf(bytes))
    assert.ok(readdirSync(directory).every((name) => !name.endsWith('.part')))
  })
}
