import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeAuthenticatedContent } from 'ts-mls/authenticatedContent.js'
import { verifyConfirmationTag } from 'ts-mls/framedContent.js'
import { createConfirmedHash, createInterimHash } from 'ts-mls/transcriptHash.js'
import { hex } from '../mls/support.ts'
import { bytesOf, cryptoOf, decodeAll, type OfSuite, readVectors } from './support.ts'

interface Transcript extends OfSuite {
  readonly confirmation_key: string
  readonly authenticated_content: string
  readonly interim_transcript_hash_before: string
  readonly confirmed_transcript_hash_after: string
  readonly interim_transcript_hash_after: string
}

for (const vector of readVectors('transcript-hashes') as readonly Transcript[]) {
  test(`suite ${vector.cipher_suite}: transcript hashes and the confirmation tag`, async () => {
    const { hash } = cryptoOf(vector).provider
    const { wireformat, content, auth } = decodeAll(decodeAuthenticatedContent, vector.authenticated_content)
    assert.ok(content.contentType === 'commit' && auth.contentType === 'commit')
    const { signature, confirmationTag } = auth
    const before = bytesOf(vector.interim_transcript_hash_before)
    const confirmed = await createConfirmedHash(before, { wireformat, content, signature }, hash)
    assert.equal(hex(confirmed), vector.confirmed_transcript_hash_after)
    assert.ok(await verifyConfirmationTag(bytesOf(vector.confirmation_key), confirmationTag, confirmed, hash))
    assert.equal(hex(await createInterimHash(confirmed, confirmationTag, hash)), vector.interim_transcript_hash_after)
  })
}
