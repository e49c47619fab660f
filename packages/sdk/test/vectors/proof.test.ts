import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ed25519, signatureKeyPairOf } from '../../src/platform/node/crypto.ts'
import { fromHex, toHex } from '@static/protocol'
import { audienceOf, decodeProof, isCountersigned, makeProof } from '../../src/proofs/proof.ts'
import { revocationOf } from '../../src/proofs/keys.ts'
import { readVectors } from './own.ts'

interface ProofVector {
  readonly about: string
  readonly channel_id: string
  readonly owner: string
  readonly kind: 1 | 2
  readonly salt: string
  readonly jwt: string
  readonly place: number | string
  readonly seed: string
  readonly proof: string
}

const { audience, proofs, revocation } = readVectors('proof.json') as {
  readonly audience: { readonly channel_id: string; readonly salt: string; readonly audience: string }
  readonly proofs: readonly ProofVector[]
  readonly revocation: { readonly jti: string; readonly entry: string }
}

for (const vector of proofs) {
  test(`vectors: ${vector.about}`, () => {
    const { channel_id: channel, owner, kind, salt, jwt, place, seed, proof } = vector
    const key = signatureKeyPairOf(fromHex(seed))
    const context = {
      channelId: fromHex(channel),
      ownerId: fromHex(owner),
      publicKey: key.publicKey,
      place: typeof place === 'number' ? place : fromHex(place),
    }
    const parts = { kind: kind === 1 ? ('token' as const) : ('statement' as const), salt: fromHex(salt), jwt }
    assert.equal(toHex(makeProof(parts, context, ed25519.signer(key)) ?? new Uint8Array()), proof)
    const decoded = decodeProof(fromHex(proof)) ?? assert.fail()
    assert.deepEqual([decoded.kind, toHex(decoded.salt), decoded.jwt], [parts.kind, salt, jwt])
    assert.ok(isCountersigned(decoded, context))
    assert.equal(
      audienceOf({ ...context, channelId: fromHex(audience.channel_id) }, fromHex(audience.salt)),
      audience.audience,
    )
  })
}

test('vectors: the entry of a revoked statement', () => {
  assert.equal(revocationOf(revocation.jti), revocation.entry)
})
