/** The agent's directory (SPEC.md, 5.7 and 5.8): a slot that opens the database, and records of the ring. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fromHex, toHex } from '@static/protocol'
import { unwrapKey, type WrappedSlot } from '../../src/store/keys/slot-file.ts'
import { RecordOpener, ringSecret } from '../../src/store/ring/record.ts'
import { readVectors } from './own.ts'

test('vectors: slots that open the database', () => {
  interface Vector {
    readonly slot_key: string
    readonly database_key: string
    readonly slot: Record<'id' | 'type' | 'nonce' | 'wrapped', string> & {
      readonly salt?: string
      readonly memory?: number
      readonly passes?: number
    }
  }
  const types: string[] = []
  for (const { slot_key, database_key, slot } of readVectors('key-slot.json') as Vector[]) {
    const { id, type, salt = '', memory, passes } = slot
    const bytes = (text: string): Uint8Array => Buffer.from(text, 'base64')
    const stretching = { salt: bytes(salt), memory, passes }
    const wrapped = { id, type, stretching, nonce: bytes(slot.nonce), wrapped: bytes(slot.wrapped) } as WrappedSlot
    assert.equal(toHex(unwrapKey(wrapped, fromHex(slot_key)) ?? assert.fail(id)), database_key)
    types.push(type)
  }
  assert.deepEqual(types, ['file', 'passphrase'])
})

test('vectors: records of the ring', () => {
  interface Ring {
    readonly database_key: string
    readonly secret: { readonly key: string }
    readonly records: readonly {
      readonly kind: string
      readonly number: number
      readonly before: string
      readonly changes: string
      readonly record: string
    }[]
  }
  const ring = readVectors('ring.json') as Ring
  const secret = ringSecret(fromHex(ring.database_key))
  assert.equal(secret.export().toString('hex'), ring.secret.key)
  for (const { kind, number, before, changes, record } of ring.records) {
    const bytes = Buffer.from(record, 'hex')
    const opened = new RecordOpener(secret).open(bytes, 0, number) ?? assert.fail(kind)
    assert.deepEqual([opened.kind, toHex(opened.before), toHex(opened.changes)], [kind, before, changes])
    assert.equal(opened.size, bytes.length)
  }
})
