import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeReceipt, encodeReceipt, RECEIPT_BYTES, type ReceiptClaim, receiptBytes } from '../../src/index.ts'

const filled = (byte: number, length = 32): Uint8Array => new Uint8Array(length).fill(byte)
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

const claim: ReceiptClaim = { mode: 'settled', since: 3, index: 9, hash: filled(4), aside: 5, settled: 8 }
const channelId = filled(7, 16)

void test('a receipt is bound to its channel and to everything that it says', () => {
  const changes: Partial<ReceiptClaim>[] = [
    { mode: 'delivered' },
    { since: 4 },
    { index: 10 },
    { hash: filled(5) },
    { aside: 6 },
    { settled: 9 },
  ]
  const others = changes.map((change) => receiptBytes(channelId, { ...claim, ...change }))
  const all = [receiptBytes(channelId, claim), receiptBytes(filled(8, 16), claim), ...others].map(hex)
  assert.equal(new Set(all).size, all.length)
})

void test('a receipt has the same size whatever it says, and anything else is not one', () => {
  const receipt = { ...claim, signature: filled(6, 64) }
  const bytes = encodeReceipt(receipt)
  assert.equal(bytes.length, RECEIPT_BYTES)
  assert.equal(RECEIPT_BYTES, 129)
  assert.deepEqual(decodeReceipt(bytes), receipt)
  assert.equal(decodeReceipt(bytes.subarray(1)), undefined)
  assert.equal(decodeReceipt(Uint8Array.of(...bytes, 0)), undefined)
  assert.equal(decodeReceipt(new Uint8Array()), undefined)
  assert.equal(decodeReceipt(Uint8Array.of(3, ...bytes.subarray(1))), undefined, 'an unknown mode')
  const beyond: Partial<ReceiptClaim>[] = [
    { settled: 10 },
    { aside: 10 },
    { since: 10 },
    { index: 2 ** 53 },
    { mode: 'delivered' },
    { mode: 'off', settled: 0 },
  ]
  for (const change of beyond) assert.equal(decodeReceipt(encodeReceipt({ ...receipt, ...change })), undefined)
})
