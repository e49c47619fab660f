import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { test } from 'node:test'
import { createRegistry } from '@bufbuild/protobuf'
import { files } from '../../../../tests/vectors/cbor/make.ts'
import { decodeCbor, encodeCbor } from '../../src/cbor/cbor.ts'
import { file_static_relay_v1_relay } from '../../src/gen/static/relay/v1/relay_pb.ts'
import { WireError } from '../../src/wire/wire-error.ts'

const folder = resolve(import.meta.dirname, '../../../../tests/vectors/cbor')
const names = readdirSync(folder).filter((name) => name.endsWith('.txt'))
const registry = createRegistry(file_static_relay_v1_relay)

void test('the CBOR vectors match their generator', () => {
  assert.ok(names.length > 80)
  assert.deepEqual(names.toSorted(), [...files.keys()].toSorted())
  for (const name of names) assert.equal(readFileSync(join(folder, name), 'utf8'), files.get(name), name)
})

for (const name of names) {
  const [head = '', body = ''] = readFileSync(join(folder, name), 'utf8').split('\n\n')
  const { expect, type: typeName = '', about } = Object.fromEntries(head.split('\n').map((line) => line.split(': ')))
  void test(`CBOR vector: ${about} → ${expect}`, () => {
    const type = registry.getMessage(typeName)
    assert.ok(type !== undefined)
    const bytes = new Uint8Array(Buffer.from(body.trim(), 'hex'))
    if (expect === 'success') {
      assert.deepEqual(encodeCbor(type, decodeCbor(type, bytes, 4096)), bytes)
      return
    }
    assert.throws(
      () => decodeCbor(type, bytes, 4096),
      (error) => {
        assert.ok(error instanceof WireError)
        assert.equal(error.fault, expect)
        return true
      },
    )
  })
}
