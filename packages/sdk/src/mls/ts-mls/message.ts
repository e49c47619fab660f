/** Encodes and decodes MLSMessages of one kind (RFC 9420, section 6), with no trailing bytes. */
import type { KeyPackage, PrivateMessage, Welcome } from 'ts-mls'
import { decodeMlsMessage, encodeMlsMessage } from 'ts-mls/message.js'
import { concat } from '../../platform/bytes.ts'
import { lengthBytes, writeLength } from '../framing.ts'

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

export function encodeKeyPackage(keyPackage: KeyPackage): Uint8Array {
  return encodeMlsMessage({ version: 'mls10', wireformat: 'mls_key_package', keyPackage })
}

/** The bytes of a Welcome before those that `encodeGroupInfo` returns. */
export function encodeSecrets(welcome: Welcome): Uint8Array {
  const withNothing = encodeWelcome({ ...welcome, encryptedGroupInfo: new Uint8Array() })
  // The last byte is the length of the empty GroupInfo.
  return withNothing.subarray(0, -1)
}

/** The end of a Welcome's bytes: the encrypted GroupInfo with its length in front. */
export function encodeGroupInfo({ encryptedGroupInfo }: Welcome): Uint8Array {
  const head = new Uint8Array(lengthBytes(encryptedGroupInfo.length))
  writeLength(head, 0, encryptedGroupInfo.length)
  return concat(head, encryptedGroupInfo)
}

export function encodeWelcome(welcome: Welcome): Uint8Array {
  return encodeMlsMessage({ version: 'mls10', wireformat: 'mls_welcome', welcome })
}
