/** Encodes and decodes MLSMessages of one kind (RFC 9420, section 6), with no trailing bytes. */
import { decodeMlsMessage, encodeMlsMessage, type KeyPackage, type PrivateMessage, type Welcome } from 'ts-mls'

interface Kinds {
  readonly mls_key_package: { readonly keyPackage: KeyPackage }
  readonly mls_private_message: { readonly privateMessage: PrivateMessage }
  readonly mls_welcome: { readonly welcome: Welcome }
}

/** Decodes a message of one kind; undefined if it is not one. Copies the bytes first: the library keeps views. */
export function decodeMessage<Kind extends keyof Kinds>(kind: Kind, bytes: Uint8Array): Kinds[Kind] | undefined {
  try {
    const [message, length] = decodeMlsMessage(Uint8Array.from(bytes), 0) ?? []
    if (message?.wireformat !== kind || length !== bytes.length) return undefined
    return message as unknown as Kinds[Kind]
  } catch {
    return undefined
  }
}

/** Encodes a KeyPackage. */
export function encodeKeyPackage(keyPackage: KeyPackage): Uint8Array {
  return encodeMlsMessage({ version: 'mls10', wireformat: 'mls_key_package', keyPackage })
}

/** The bytes of a Welcome. */
export function encodeWelcome(welcome: Welcome): Uint8Array {
  return encodeMlsMessage({ version: 'mls10', wireformat: 'mls_welcome', welcome })
}
