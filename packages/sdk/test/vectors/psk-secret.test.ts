import assert from 'node:assert/strict'
import { test } from 'node:test'
import { computePskSecret, type PreSharedKeyID } from 'ts-mls/presharedkey.js'
import { hex } from '../mls/support.ts'
import { bytesOf, cryptoOf, type OfSuite, readVectors } from './support.ts'

interface PskVector extends OfSuite {
  readonly psks: readonly { readonly psk_id: string; readonly psk: string; readonly psk_nonce: string }[]
  readonly psk_secret: string
}

test('the secret of any number of pre-shared keys', async () => {
  for (const vector of readVectors('psk_secret') as readonly PskVector[]) {
    const psks = vector.psks.map(({ psk_id, psk, psk_nonce }): [PreSharedKeyID, Uint8Array] => [
      { psktype: 'external', pskId: bytesOf(psk_id), pskNonce: bytesOf(psk_nonce) },
      bytesOf(psk),
    ])
    assert.equal(hex(await computePskSecret(psks, cryptoOf(vector).provider)), vector.psk_secret)
  }
})
