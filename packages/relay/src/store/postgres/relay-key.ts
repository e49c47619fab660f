/**
 * `relay.key`: 32 random bytes that all nodes of a deployment have in a file, so that access to the database alone is
 * not enough to issue session tokens or impersonate a node. The database has its fingerprint, so that a node with a
 * different key is refused.
 */
import { createHash, hkdfSync, randomBytes } from 'node:crypto'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { StaticError } from '@static/protocol'

const KEY_BYTES = 32

/** Reads the key; undefined if there is no file. Throws `invalid_request` if it is not a key. */
export function readRelayKey(path: string): Uint8Array | undefined {
  let text: string
  try {
    text = readFileSync(path, 'utf8').trim()
  } catch (error) {
    if ((error as { code?: string }).code === 'ENOENT') return undefined
    throw StaticError.of('unavailable', `${path} cannot be read.`, { cause: error })
  }
  if (!/^[0-9a-f]{64}$/.test(text)) {
    throw StaticError.of('invalid_request', `${path} must contain 64 hexadecimal digits. Copy it from another node.`)
  }
  chmodSync(path, 0o600)
  return Buffer.from(text, 'hex')
}

/** Creates the key of a new deployment. */
export function makeRelayKey(path: string): Uint8Array {
  const key = randomBytes(KEY_BYTES)
  writeFileSync(path, `${key.toString('hex')}\n`, { mode: 0o600, flag: 'wx' })
  return key
}

/** The form of the key that the database stores. */
export function fingerprint(key: Uint8Array): Buffer {
  return createHash('sha256').update('static relay.key\0').update(key).digest().subarray(0, 16)
}

const PURPOSES = { token: 'static-relay/1 token', bus: 'static-relay/1 bus' } as const

/** A key for one purpose. */
export function deriveKey(key: Uint8Array, relayId: Uint8Array, purpose: keyof typeof PURPOSES): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', key, relayId, PURPOSES[purpose], KEY_BYTES))
}
