/**
 * The sources that can open a slot of keys.json, and how each yields a key-encryption key of 32 bytes. A source is used
 * as requested or refused; there is no fallback from one to another.
 */
import * as crypto from 'node:crypto'
import { type Argon2Parameters, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { createFile, readPrivateFile, sweepLeftovers } from '@static/node/files'
import { StaticError } from '@static/protocol'

/** The functions needed from a system keyring. */
export interface Keyring {
  /** The secret of this name; undefined if there is none. */
  get(name: string): Promise<Uint8Array | undefined>
  /** Stores a secret. */
  set(name: string, secret: Uint8Array): Promise<void>
}

/** The key that opens the agent's database. */
export type KeySource =
  /**
   * A file of 32 random bytes, mode 0600, created along with its slot if it does not exist. By default it is in the
   * agent's directory, where it only protects against losing a part of that directory.
   */
  | { readonly type: 'file'; readonly path?: string }
  /** A passphrase, stretched with Argon2id. */
  | { readonly type: 'passphrase'; readonly passphrase: string }
  /** An entry of a system keyring. */
  | { readonly type: 'keyring'; readonly keyring: Keyring }

/** Argon2id parameters of a passphrase (RFC 9106), memory in KiB. */
export interface Stretching {
  readonly salt: Uint8Array
  readonly memory: number
  readonly passes: number
}

/** Size of all keys. */
export const KEY_BYTES = 32

/** The cost of a new slot: about half a second. */
const MEMORY = 64 * 1024
const PASSES = 3

/** A random salt with the current cost. */
export function newStretching(): Stretching {
  return { salt: randomBytes(16), memory: MEMORY, passes: PASSES }
}

/**
 * Derives the key from a passphrase. Normalized, because the same words typed on another keyboard can have different
 * code points.
 */
export async function stretch(passphrase: string, { salt, memory, passes }: Stretching): Promise<Buffer> {
  // Added in Node 24.7. A named import would keep this file from loading in an older version.
  const { argon2 } = crypto
  if (typeof argon2 !== 'function') {
    throw new StaticError('invalid_request', `A passphrase needs Node 24.7 or newer; this is ${process.version}.`)
  }
  const message = Buffer.from(passphrase.normalize('NFC'))
  const parameters: Argon2Parameters = { message, nonce: salt, memory, passes, parallelism: 1, tagLength: KEY_BYTES }
  try {
    return await promisify(argon2)('argon2id', parameters)
  } finally {
    message.fill(0)
  }
}

/** Reads a key file. Throws `store_key_wrong` if it is missing or invalid. */
export function readKeyFile(directory: string, path: string | undefined): Buffer {
  const file = path ?? defaultKeyFile(directory)
  const key = readPrivateFile(file)
  if (key === undefined) throw new StaticError('store_key_wrong', `The key file ${file} does not exist.`)
  sweepLeftovers(file)
  return checkLength(key, file)
}

/** Reads a key file, or creates it. */
export function ensureKeyFile(directory: string, path: string | undefined): Buffer {
  const file = path ?? defaultKeyFile(directory)
  const present = readPrivateFile(file)
  if (present !== undefined) return checkLength(present, file)
  const made = randomBytes(KEY_BYTES)
  if (createFile(file, made, 0o600)) return made
  made.fill(0)
  return readKeyFile(directory, path)
}

/** Reads the key of a slot from the keyring. */
export async function readKeyring(keyring: Keyring, slot: string): Promise<Buffer> {
  let key: Uint8Array | undefined
  try {
    key = await keyring.get(keyringName(slot))
  } catch (error) {
    throw new StaticError(
      'store_key_wrong',
      'The keyring cannot be read. Unlock it, or use another key to open the agent.',
      {
        cause: error,
      },
    )
  }
  if (key?.length === KEY_BYTES) return Buffer.from(key)
  throw new StaticError('store_key_wrong', 'The keyring does not contain the key of this agent.')
}

/** Stores a new key for a slot in the keyring and reads it back, because some keyrings silently drop entries. */
export async function makeKeyringKey(keyring: Keyring, slot: string): Promise<Buffer> {
  const made = randomBytes(KEY_BYTES)
  await keyring.set(keyringName(slot), made)
  const kept = await readKeyring(keyring, slot)
  if (kept.equals(made)) return made
  throw new StaticError('store_key_wrong', 'The keyring did not store the key of this agent.')
}

function keyringName(slot: string): string {
  return `static-agent/${slot}`
}

function defaultKeyFile(directory: string): string {
  return join(directory, 'agent.key')
}

function checkLength(key: Buffer, file: string): Buffer {
  if (key.length === KEY_BYTES) return key
  throw new StaticError('store_key_wrong', `${file} is not a key file. A key file has ${KEY_BYTES} bytes.`)
}
