/**
 * The format of an API key (SPEC.md, "Keys"): `sk_live_` or `sk_test_`, 8 characters that identify the row,
 * 32 secret characters (190 bits) and 6 characters of a CRC32 over everything before, all base62.
 * The checksum catches typos before any work is done; it is not a security measure.
 */
import { randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { Mode } from '@static/protocol'

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
/** The value of a character, by its code. */
const DIGITS: readonly number[] = Array.from({ length: 128 }, (_, code) => ALPHABET.indexOf(String.fromCharCode(code)))
const PREFIX_LENGTH = 16
const CHECKSUM_LENGTH = 6
const FORM = /^sk_(live|test)_[0-9A-Za-z]{46}$/

/** The public parts of a key. */
export interface ParsedKey {
  /** The first 16 characters, unique: they identify the row. */
  readonly prefix: string
  readonly mode: Mode
}

export function makeApiKey(mode: Mode): string {
  const body = `sk_${mode}_${base62(40)}`
  return body + checksum(body)
}

/** Parses a key; `undefined` if it is malformed or its checksum is wrong. */
export function parseApiKey(key: string): ParsedKey | undefined {
  if (!FORM.test(key)) return undefined
  const body = key.slice(0, -CHECKSUM_LENGTH)
  if (crc32(body) !== valueOf(key.slice(-CHECKSUM_LENGTH))) return undefined
  return { prefix: key.slice(0, PREFIX_LENGTH), mode: key.startsWith('sk_live_') ? 'live' : 'test' }
}

/** Random base62 characters. */
export function base62(length: number): string {
  let text = ''
  for (let i = 0; i < length; i++) text += ALPHABET.charAt(randomInt(ALPHABET.length))
  return text
}

/** The number that `checksum` writes. */
function valueOf(text: string): number {
  let value = 0
  for (let at = 0; at < text.length; at++) value = value * 62 + (DIGITS[text.charCodeAt(at)] ?? Number.NaN)
  return value
}

function checksum(body: string): string {
  let rest = crc32(body)
  let text = ''
  for (let i = 0; i < CHECKSUM_LENGTH; i++) {
    text = ALPHABET.charAt(rest % 62) + text
    rest = Math.floor(rest / 62)
  }
  return text
}
