/**
 * The key to which an agent's Welcome is sealed (SPEC.md, 4.5): a KeyPackage extension of a private type (RFC 9420,
 * sections 10 and 17.3), covered by the KeyPackage's signature:
 *
 *     version(1) = 1, encapsulation key of ML-KEM-768 (1184)
 */
import { KEM_PUBLIC_BYTES } from '../platform/ml-kem.ts'

/** The extension's type, from the private-use range. */
export const SEAL_KEY_TYPE = 0xf57c
const VERSION = 1

/** The extension's data. */
export function encodeSealKey(publicKey: Uint8Array): Uint8Array {
  const data = new Uint8Array(1 + KEM_PUBLIC_BYTES)
  data[0] = VERSION
  data.set(publicKey, 1)
  return data
}

/**
 * The encapsulation key among the extensions of a KeyPackage; undefined unless there is exactly one, of the right
 * length. Only its form is checked, so every member reaches the same result; the member that adds imports it.
 */
export function findSealKey(
  extensions: readonly { readonly extensionType: unknown; readonly extensionData: Uint8Array }[],
): Uint8Array | undefined {
  const [found, ...more] = extensions.filter(({ extensionType }) => extensionType === SEAL_KEY_TYPE)
  const data = found?.extensionData
  if (data === undefined || more.length > 0) return undefined
  return data[0] === VERSION && data.length === 1 + KEM_PUBLIC_BYTES ? data.subarray(1) : undefined
}
