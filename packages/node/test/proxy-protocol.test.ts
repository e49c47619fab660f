import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { readProxyHeader } from '../src/proxy-protocol.ts'

interface Case {
  readonly note: string
  readonly bytes: string
  readonly expect: 'partial' | 'invalid' | { readonly address: string | null }
}

const { cases } = JSON.parse(readFileSync(join(import.meta.dirname, 'vectors/proxy-protocol.json'), 'utf8')) as {
  readonly cases: readonly Case[]
}

for (const { note, bytes, expect } of cases) {
  test(`PROXY protocol: ${note}`, () => {
    const input = Buffer.from(bytes, 'hex')
    const header = readProxyHeader(input)
    if (typeof expect === 'string') return assert.deepEqual(header, { state: expect })
    const length = 16 + input.readUInt16BE(14)
    assert.deepEqual(header, { state: 'whole', length, address: expect.address ?? undefined })
    for (let end = 0; end < length; end++) {
      assert.equal(readProxyHeader(input.subarray(0, end)).state, 'partial', `${end} bytes`)
    }
  })
}
