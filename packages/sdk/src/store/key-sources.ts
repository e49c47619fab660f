/**
 * What can open a slot of keys.json, and how a key-encryption key of 32 bytes comes from it. A source is used as it was
 * asked for or refused; there is no falling back from one to another.
 */
import * as crypto from 'node:crypto'
import { type Argon2Parameters, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { createFile, readPrivateFile, sweepLeftovers } from '@static/node/files'
import { StaticError } from '@static/protocol'

/** The system's keyring, as far as it is needed here. */
export interface Keyring {
  get(name: string): Promise<Uint8Array | undefined>
  set(name: string, secret: Uint8Array): Promise<void>
}

/** What opens the database. */
export type KeySource =
  /**
   * A file of 32 random bytes, 0600; made if a slot is made for it and it does not exist. By default in the agent's
   * directory, where it protects no more than a part of the directory that gets lost.
   */
  | { readonly type: 'file'; readonly path?: string }
  | { readonly type: 'passphrase'; readonly passphrase: string }
  | { readonly type: 'keyring'; readonly keyring: Keyring }

/** How a passphrase was stretched: Argon2id (RFC 9106), memory in KiB. */
export interface Stretching {
  readonly salt: Uint8Array
  readonly memory: number
  readonly passes: number
}

/** Size of every key here. */
export const KEY_BYTES = 32

/** The cost of a new slot: about half a second. */
const MEMORY = 64 * 1024
const PASSES = 3

/** A fresh salt with the cost of today. */
export function newStretching(): Stretching {
  return { salt: randomBytes(16), memory: MEMORY, passes: PASSES }
}

/** The key of a passphrase. The same words typed on another keyboard can be other code points: hence the normal form. */
export async function stretch(passphrase: string, { salt, memory, passes }: Stretching): Promise<Buffer> {
  // Node 24.7 brought it; an import of its name would keep this file from loading in an older one.
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

/** Reads a key file; throws `store_key_wrong` if it is missing or not one. */
export function readKeyFile(directory: string, path: string | undefined): Buffer {
  const file = path ?? defaultKeyFile(directory)
  const key = readPrivateFile(file)
  if (key === undefined) throw new StaticError('store_key_wrong', `The key file ${file} is missing.`)
  sweepLeftovers(file)
  return checkLength(key, file)
}

/** Reads a key file, or makes it. */
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
    throw new StaticError('store_key_wrong', 'The keyring cannot be read: unlock it, or open the agent another way.', {
      cause: error,
    })
  }
  if (key?.length === KEY_BYTES) return Buffer.from(key)
  throw new StaticError('store_key_wrong', 'The keyring does not hold the key of this agent.')
}

/** Puts a fresh key for a slot into the keyring and reads it back: some keyrings forget without a word. */
export async function makeKeyringKey(keyring: Keyring, slot: string): Promise<Buffer> {
  const made = randomBytes(KEY_BYTES)
  await keyring.set(keyringName(slot), made)
  const kept = await readKeyring(keyring, slot)
  if (kept.equals(made)) return made
  throw new StaticError('store_key_wrong', 'The keyring did not keep the key of this agent.')
}

function keyringName(slot: string): string {
  return `static-agent/${slot}`
}

function defaultKeyFile(directory: string): string {
  return join(directory, 'agent.key')
}

function checkLength(key: Buffer, file: string): Buffer {
  if (key.length === KEY_BYTES) return key
  throw new StaticError('store_key_wrong', `${file} is not a key file: that has ${KEY_BYTES} bytes.`)
}
