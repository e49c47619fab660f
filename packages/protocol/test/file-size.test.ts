import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  FILE_PART_BYTES,
  filePartBytes,
  filePartCount,
  MAX_FILE_BYTES,
  paddedFileBytes,
  storedFileBytes,
} from '../src/index.ts'

const KIB = 1024

void test('a file is padded to a quarter step of a power of two', () => {
  for (const [bytes, padded] of [
    [0, 64 * KIB],
    [1, 64 * KIB],
    [64 * KIB, 64 * KIB],
    [64 * KIB + 1, 80 * KIB],
    [80 * KIB, 80 * KIB],
    [113 * KIB, 128 * KIB],
    [1024 * KIB, 1024 * KIB],
    [1024 * KIB + 1, 1280 * KIB],
    [2 ** 30, 2 ** 30],
    [2 ** 30 - 1, 2 ** 30],
    [MAX_FILE_BYTES - 1, MAX_FILE_BYTES],
  ] as const) {
    assert.equal(paddedFileBytes(bytes), padded, String(bytes))
    assert.equal(paddedFileBytes(padded), padded)
  }
})

void test('the parts of a file hold all of it', () => {
  for (const padded of [64 * KIB, 1024 * KIB, 1280 * KIB, 2048 * KIB, 3584 * KIB]) {
    const sizes = Array.from({ length: filePartCount(padded) }, (_, part) => filePartBytes(padded, part))
    assert.equal(
      sizes.reduce((sum, bytes) => sum + bytes, 0),
      storedFileBytes(padded),
    )
    assert.ok(sizes.every((bytes) => bytes > 28 && bytes <= FILE_PART_BYTES + 28))
  }
  assert.deepEqual([filePartCount(1280 * KIB), filePartBytes(1280 * KIB, 1)], [2, 256 * KIB + 28])
})
