/** What a bare program and its server agree on: parts of 1 MiB, four at a time, encrypted and hashed as those of files. */

export const PART_BYTES = 1_048_576
const NONCE_BYTES = 12
const TAG_BYTES = 16
export const STORED_BYTES: number = PART_BYTES + NONCE_BYTES + TAG_BYTES
export const AT_ONCE = 4

/** Options of the bare server. */
export interface BareOptions {
  readonly cert: string
  readonly key: string
  readonly port: number
  readonly directory: string
  readonly bytesPerSecond: number
}

const key = await crypto.subtle.importKey('raw', new Uint8Array(32).fill(7), 'AES-GCM', false, ['encrypt', 'decrypt'])

/** Encrypts a part and hashes it. */
export async function seal(plaintext: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const iv = crypto.getRandomValues(new Uint8Array(NONCE_BYTES))
  const sealed = await crypto.subtle.encrypt({ name: 'AES-GCM', iv }, key, plaintext)
  const bytes = new Uint8Array(STORED_BYTES)
  bytes.set(iv)
  bytes.set(new Uint8Array(sealed), NONCE_BYTES)
  await digestOf(bytes)
  return bytes
}

/** Hashes a part and decrypts it. */
export async function open(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  await digestOf(bytes)
  const iv = bytes.subarray(0, NONCE_BYTES)
  return new Uint8Array(await crypto.subtle.decrypt({ name: 'AES-GCM', iv }, key, bytes.subarray(NONCE_BYTES)))
}

async function digestOf(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
}
