import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lengthBytes, readSpan, writeLength } from '../../src/mls/framing.ts'
import { hex } from '../mls/support.ts'
import { bytesOf, readVectors } from './support.ts'

interface Header {
  readonly vlbytes_header: string
  readonly length: number
}

for (const { vlbytes_header, length } of readVectors('deserialization') as readonly Header[]) {
  test(`a length of ${length} is read and written`, () => {
    const header = bytesOf(vlbytes_header)
    // Zeros that nobody touches take no memory, even if they are a gigabyte.
    const bytes = new Uint8Array(header.length + length)
    bytes.set(header)
    assert.deepEqual(readSpan(bytes, 0), { start: header.length, end: bytes.length })
    if (length > 0) assert.equal(readSpan(bytes.subarray(0, -1), 0), undefined)
    const written = new Uint8Array(lengthBytes(length))
    assert.equal(writeLength(written, 0, length), header.length)
    assert.equal(hex(written), vlbytes_header)
  })
}
