/**
 * Verification words, for comparison out of band. They depend on the keys of the epoch and on every log entry, so they
 * match for two members exactly if both have seen the same group and the same log. Twelve words encode 128 bits.
 */
import { createHash } from 'node:crypto'
import { entropyToMnemonic } from '@scure/bip39'
import { wordlist } from '@scure/bip39/wordlists/english.js'
import type { PositionRecord } from '../ports/index.ts'

const LABEL = 'static verify 1'
const ENTROPY_BYTES = 16

/** The words for an epoch and a position in the log. */
export function verificationWords(epochAuthenticator: Uint8Array, { index, hash }: PositionRecord): string {
  const place = Buffer.alloc(8)
  place.writeBigUInt64BE(BigInt(index))
  const digest = createHash('sha256').update(LABEL).update(epochAuthenticator).update(place).update(hash).digest()
  return entropyToMnemonic(new Uint8Array(digest.subarray(0, ENTROPY_BYTES)), wordlist)
}
