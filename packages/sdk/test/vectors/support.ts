/** The official MLS vectors in `tests/vectors/mls`, whose README names their source and formats. */
import { readFileSync } from 'node:fs'
import { SUITE } from '../../src/mls/aead.ts'
import type { MlsCrypto } from '../../src/mls/ts-mls/key-package.ts'
import { makeProvider } from '../../src/mls/ts-mls/provider.ts'
import { CHACHA_SUITE } from '../mls/chacha-suite.ts'

const FOLDER = new URL('../../../../tests/vectors/mls/', import.meta.url)

/** The entries of a file. Its format is the caller's to know. */
export function readVectors(name: string): unknown {
  return JSON.parse(readFileSync(new URL(`${name}.json`, FOLDER), 'utf8'))
}

/** What the entries that depend on a suite have in common. */
export interface OfSuite {
  readonly cipher_suite: 1 | 3
}

const CRYPTOS: Readonly<Record<OfSuite['cipher_suite'], MlsCrypto>> = {
  1: { suite: SUITE, provider: makeProvider(SUITE) },
  3: { suite: CHACHA_SUITE, provider: makeProvider(CHACHA_SUITE) },
}

/** Our cryptography for an entry. */
export function cryptoOf({ cipher_suite }: OfSuite): MlsCrypto {
  return CRYPTOS[cipher_suite]
}

/** The bytes of a hexadecimal string. */
export function bytesOf(hex: string): Uint8Array {
  return new Uint8Array(Buffer.from(hex, 'hex'))
}

/** Decodes the whole of a hexadecimal string. */
export function decodeAll<Value>(
  decode: (bytes: Uint8Array, at: number) => [Value, number] | undefined,
  hex: string,
): Value {
  const bytes = bytesOf(hex)
  const [value, length] = decode(bytes, 0) ?? []
  if (value === undefined || length !== bytes.length) throw new Error('The vector does not decode.')
  return value
}
