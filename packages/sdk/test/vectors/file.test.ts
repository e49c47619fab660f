import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bulkKey, encryptBulk } from '#platform/crypto'
import { filePartBytes, fromHex, paddedFileBytes, toHex } from '@static/protocol'
import { decodeFile, encodeFile } from '../../src/files/file-frame.ts'
import {
  contentBytesOf,
  digestOf,
  fileKey,
  isSigned,
  openPart,
  plainBytesOf,
  sealedBytesOf,
  sealPart,
} from '../../src/files/file-parts.ts'
import { readVectors } from './own.ts'

interface Vector {
  readonly about: string
  readonly size: number
  readonly padded_size: number
  readonly name: string
  readonly type: string
  readonly text: string
  readonly channel_id: string
  readonly file_id: string
  readonly secret: string
  readonly key: string
  readonly parts: readonly {
    readonly bytes: number
    readonly first: string
    readonly last: string
    readonly sha256: string
  }[]
  readonly message: string
}

const vectors = readVectors('file.json') as Vector[]

test('vectors: what a message says about a file', () => {
  for (const { about, message, ...vector } of vectors) {
    const { name, type, text, size } = vector
    const digests = Buffer.from(vector.parts.map(({ sha256 }) => sha256).join(''), 'hex')
    const file = { fileId: fromHex(vector.file_id), secret: fromHex(vector.secret), name, type, text, size, digests }
    assert.equal(toHex(encodeFile(file)), message, about)
    const decoded = decodeFile(fromHex(message))
    assert.deepEqual(decoded && { ...decoded, digests: Buffer.from(decoded.digests) }, file, about)
  }
})

test('vectors: the key and the parts of a file', async () => {
  for (const { about, size, ...vector } of vectors) {
    const key = await fileKey(fromHex(vector.channel_id), {
      fileId: fromHex(vector.file_id),
      secret: fromHex(vector.secret),
    })
    const zeros = new Uint8Array(16)
    const sealed = await encryptBulk(key, zeros.subarray(0, 12), zeros, zeros)
    assert.deepEqual(sealed, await encryptBulk(await bulkKey(fromHex(vector.key)), zeros.subarray(0, 12), zeros, zeros))
    assert.equal(paddedFileBytes(size), vector.padded_size, about)
    const digests = fromHex(vector.parts.map(({ sha256 }) => sha256).join(''))
    for (const [part, { bytes, first, last, sha256 }] of vector.parts.entries()) {
      const content = Uint8Array.from({ length: contentBytesOf(size, part) }, (_, at) => (part * 1_048_576 + at) % 251)
      const plain = new Uint8Array(plainBytesOf(size, part))
      plain.set(content)
      const made = await sealPart(key, part, fromHex(first.slice(0, 24)), plain)
      assert.equal(made.bytes.length, bytes)
      assert.deepEqual([sealedBytesOf(size, part), filePartBytes(vector.padded_size, part)], [bytes, bytes])
      assert.equal(toHex(made.bytes.subarray(0, 32)), first)
      assert.equal(toHex(made.bytes.subarray(-32)), last)
      assert.equal(toHex(made.digest), sha256)
      assert.equal(toHex(digestOf(digests, part)), sha256)
      assert.ok(await isSigned(made.bytes, part, digests))
      assert.ok(Buffer.from(await openPart(key, size, part, made.bytes)).equals(content), about)
    }
  }
})

test('a part is refused unless its sender sealed it so: with this key, as this part, padded with zeros', async () => {
  const channelId = new Uint8Array(16).fill(1)
  const names = { fileId: new Uint8Array(16).fill(2), secret: new Uint8Array(32).fill(3) }
  const key = await fileKey(channelId, names)
  const nonce = new Uint8Array(12)
  const part = await sealPart(key, 0, nonce, new Uint8Array(65_536))
  assert.equal((await openPart(key, 10, 0, part.bytes)).length, 10)
  const others = [
    await fileKey(names.fileId, names),
    await fileKey(channelId, { ...names, fileId: channelId }),
    await fileKey(channelId, { ...names, secret: new Uint8Array(32) }),
  ]
  for (const other of others) await assert.rejects(openPart(other, 10, 0, part.bytes), { code: 'file_corrupt' })
  await assert.rejects(openPart(key, 10, 1, part.bytes), { code: 'file_corrupt' })
  await assert.rejects(openPart(key, 10, 0, part.bytes.with(40, 0).with(41, 0)), { code: 'file_corrupt' })
  const padded = await sealPart(key, 0, nonce, new Uint8Array(65_536).with(10, 1))
  await assert.rejects(openPart(key, 10, 0, padded.bytes), { code: 'file_corrupt' })
  assert.equal((await openPart(key, 11, 0, padded.bytes)).length, 11)
  // Another part of the same file, in its place.
  const digests = part.digest
  assert.equal(await isSigned(padded.bytes, 0, digests), false)
})

test('a message about a file has one form, and numbers that fit', () => {
  const digests = new Uint8Array(32).fill(7)
  const file = {
    fileId: new Uint8Array(16).fill(1),
    secret: new Uint8Array(32).fill(2),
    size: 65_536,
    name: 'a',
    type: 'text/plain',
    text: 'read this',
    digests,
  }
  const bytes = encodeFile(file)
  assert.ok(decodeFile(bytes))
  for (let length = 0; length < bytes.length; length++) assert.equal(decodeFile(bytes.subarray(0, length)), undefined)
  const more = new Uint8Array(64)
  const long = 'x'.repeat(1024)
  const wrong: Readonly<Record<string, Partial<typeof file>>> = {
    'a hash too many': { digests: more },
    'a size that needs one more part': { size: 1_048_577 },
    'a size beyond every relay': { size: 4 * 2 ** 30 + 1, digests: new Uint8Array(32 * 4097) },
    'a size that is not exact': { size: 2 ** 60 },
    'no name': { name: '' },
    'a long name': { name: `${long}x` },
    'control characters in the type': { type: 'text/\u0007' },
    'a long text': { text: long.repeat(64) + long },
  }
  for (const [about, change] of Object.entries(wrong))
    assert.equal(decodeFile(encodeFile({ ...file, ...change })), undefined, about)
  assert.ok(decodeFile(encodeFile({ ...file, name: long, text: long.repeat(64), size: 1_048_577, digests: more })))
  const largest = { ...file, size: 4 * 2 ** 30, digests: new Uint8Array(32 * 4096) }
  assert.ok(encodeFile({ ...largest, name: long, text: long.repeat(64), type: 'x'.repeat(255) }).length <= 262_144)
  assert.ok(decodeFile(encodeFile(largest)))
  // Not UTF-8: in the name, in the text.
  for (const at of [58, bytes.length - 33]) assert.equal(decodeFile(bytes.with(at, 0xff)), undefined)
})
