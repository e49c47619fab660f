/**
 * Hexadecimal strings, the form of ids in the relay and the agent. Used for every message, so both directions are
 * optimized.
 */

const DIGITS = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))
const VALUES = new Uint8Array(128)
for (let digit = 0; digit < 16; digit++) VALUES[digit.toString(16).charCodeAt(0)] = digit

/**
 * Bytes to lower-case hexadecimal. Uses the engine's function where it exists, which takes a third of the time; Node 24
 * lacks it.
 */
export const toHex: (bytes: Uint8Array) => string = 'toHex' in Uint8Array.prototype ? (bytes) => bytes.toHex() : byTable

function byTable(bytes: Uint8Array): string {
  let text = ''
  for (const byte of bytes) text += DIGITS[byte]
  return text
}

/** The bytes of a string from `toHex`; does not validate. */
export function fromHex(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(text.length >>> 1)
  for (let at = 0; at < bytes.length; at++) {
    const high = VALUES[text.charCodeAt(2 * at)] ?? 0
    bytes[at] = (high << 4) | (VALUES[text.charCodeAt(2 * at + 1)] ?? 0)
  }
  return bytes
}
