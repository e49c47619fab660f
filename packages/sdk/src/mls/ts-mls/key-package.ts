/**
 * KeyPackages (RFC 9420, section 10): made by an agent, used once by the member that adds it. That member checks the
 * lifetime against its clock, and so does the relay; members that only process the Add do not, see commit-rules.ts.
 * A KeyPackage proves that its maker holds the signature key, not who the maker is.
 */
import type { CiphersuiteImpl, KeyPackage, PrivateKeyPackage } from 'ts-mls'
import { generateKeyPackageWithKey, makeKeyPackageRef, verifyKeyPackage } from 'ts-mls/keyPackage.js'
import { verifyLeafNodeSignatureKeyPackage } from 'ts-mls/leafNode.js'
import { sameBytes, type SignatureKeyPair } from '#platform/crypto'
import { AGENT_ID_BYTES, MAX_KEY_PACKAGE_BYTES, PUBLIC_KEY_BYTES, StaticError, toHex } from '@static/protocol'
import type { Suite } from '../aead.ts'
import { concat } from '../../platform/bytes.ts'
import { agentIdOf, isIdentity, MAX_IDENTITY_BYTES } from '../credential.ts'
import type { CheckedKeyPackage, NewKeyPackage } from '../engine.ts'
import { isEncryptionKey } from '../x25519.ts'
import { isKeyPackageBounded, MAX_LIST } from './bounds.ts'
import { capabilitiesOf, CLOCK_SKEW_SECONDS, LIFETIME_SECONDS, lifetimeFrom } from './config.ts'
import { decodeMessage, encodeKeyPackage } from './message.ts'
import { missingCapability } from './view.ts'

const VERSION = 1
/** The length of an X25519 private key. */
const KEY_BYTES = 32

export interface MlsCrypto {
  readonly suite: Suite
  readonly provider: CiphersuiteImpl
}

/** A KeyPackage of this agent, with its private keys. */
export interface OwnKeyPackage {
  readonly publicPackage: KeyPackage
  readonly privatePackage: PrivateKeyPackage
}

/** Creates a KeyPackage for an identity that the caller has checked. */
export async function makeKeyPackage(
  { suite, provider }: MlsCrypto,
  identity: Uint8Array,
  key: SignatureKeyPair,
  now: number,
): Promise<OwnKeyPackage> {
  return generateKeyPackageWithKey(
    { credentialType: 'basic', identity },
    capabilitiesOf(suite),
    lifetimeFrom(now),
    [],
    { signKey: key.seed, publicKey: Uint8Array.from(key.publicKey) },
    provider,
  )
}

/**
 * Encodes a KeyPackage for other agents and for the database. The private part is version(1), init key(32), encryption
 * key(32), KeyPackage.
 */
export async function encodeOwn(
  { provider }: MlsCrypto,
  { publicPackage, privatePackage }: OwnKeyPackage,
): Promise<NewKeyPackage> {
  const keyPackage = encodeKeyPackage(publicPackage)
  const { initPrivateKey, hpkePrivateKey } = privatePackage
  return {
    keyPackage,
    privatePart: concat(new Uint8Array([VERSION]), initPrivateKey, hpkePrivateKey, keyPackage),
    ref: await makeKeyPackageRef(publicPackage, provider.hash),
  }
}

/**
 * Decodes the private part of a KeyPackage of the agent with this signature key.
 *
 * @throws {StaticError} `store_corrupt` if it is malformed or belongs to another key
 */
export function decodeOwn(privatePart: Uint8Array, key: SignatureKeyPair): OwnKeyPackage {
  const bytes = Uint8Array.from(privatePart)
  const keyPackage = decodeMessage('mls_key_package', bytes.subarray(1 + 2 * KEY_BYTES))?.keyPackage
  if (bytes[0] !== VERSION || !keyPackage || !sameBytes(keyPackage.leafNode.signaturePublicKey, key.publicKey))
    throw StaticError.of(
      'store_corrupt',
      'The private part of a stored KeyPackage is malformed or belongs to another key.',
    )
  return {
    publicPackage: keyPackage,
    privatePackage: {
      initPrivateKey: bytes.slice(1, 1 + KEY_BYTES),
      hpkePrivateKey: bytes.slice(1 + KEY_BYTES, 1 + 2 * KEY_BYTES),
      signaturePrivateKey: key.seed,
    },
  }
}

/** A valid KeyPackage, with the library's parsed form. */
export interface ParsedKeyPackage extends CheckedKeyPackage {
  readonly parsed: KeyPackage
}

/**
 * Parses and checks a KeyPackage: suite, capabilities (`extensions` are those the group requires), signatures and
 * lifetime; if an agent id is given, also that the KeyPackage belongs to that agent.
 *
 * @throws {StaticError} `invalid_request`, or `key_package_unavailable` outside its lifetime
 */
export async function checkKeyPackage(
  { suite, provider }: MlsCrypto,
  bytes: Uint8Array,
  extensions: readonly number[],
  now: number,
  agentId?: Uint8Array,
): Promise<ParsedKeyPackage> {
  const parsed = bytes.length <= MAX_KEY_PACKAGE_BYTES ? decodeMessage('mls_key_package', bytes)?.keyPackage : undefined
  if (parsed === undefined)
    throw bad(`Not a KeyPackage of at most ${MAX_KEY_PACKAGE_BYTES} bytes: ${bytes.length} bytes.`)
  if (!isKeyPackageBounded(parsed))
    throw bad(`The KeyPackage is too large: a list has more than ${MAX_LIST} entries, or the leaf too many bytes.`)
  const { leafNode, cipherSuite, version, initKey } = parsed
  const { credential, signaturePublicKey, hpkePublicKey, lifetime } = leafNode
  if (version !== 'mls10' || cipherSuite !== suite.name)
    throw bad(`The KeyPackage is for ${version} and ${cipherSuite}; channels use mls10 and ${suite.name}.`)
  const missing = missingCapability(leafNode, { version, cipherSuite, extensions })
  if (missing !== undefined) throw bad(`The KeyPackage cannot be used for a channel: it ${missing}.`)
  if (credential.credentialType !== 'basic' || !isIdentity(credential.identity))
    throw bad(`The KeyPackage has no identity of 1 to ${MAX_IDENTITY_BYTES} bytes, the first not zero.`)
  if (signaturePublicKey.length !== PUBLIC_KEY_BYTES)
    throw bad(`The KeyPackage's signature key must be ${PUBLIC_KEY_BYTES} bytes, not ${signaturePublicKey.length}.`)
  if (!isEncryptionKey(hpkePublicKey) || !isEncryptionKey(initKey))
    throw bad('An encryption key of the KeyPackage is not a usable X25519 key.')
  if (sameBytes(initKey, hpkePublicKey)) throw bad('The init key and the encryption key of the KeyPackage must differ.')
  const { signature } = provider
  const signed =
    (await verifyLeafNodeSignatureKeyPackage(leafNode, signature)) && (await verifyKeyPackage(parsed, signature))
  if (!signed) throw bad('The KeyPackage is not signed with its signature key.')
  const id = agentIdOf(signaturePublicKey)
  if (agentId !== undefined && (agentId.length !== AGENT_ID_BYTES || !sameBytes(agentId, id)))
    throw bad(`The KeyPackage belongs to another agent: ${toHex(id)}, not ${toHex(agentId)}.`)
  const seconds = BigInt(Math.floor(now / 1000))
  const { notBefore, notAfter } = lifetime
  const maximum = LIFETIME_SECONDS + 2n * CLOCK_SKEW_SECONDS
  if (notAfter - notBefore > maximum)
    throw bad(`The lifetime of the KeyPackage is too long: ${notAfter - notBefore} seconds; the limit is ${maximum}.`)
  if (notBefore > seconds || notAfter < seconds) throw outsideLifetime(seconds, notBefore, notAfter)
  const ref = await makeKeyPackageRef(parsed, provider.hash)
  const encryptionKey = leafNode.hpkePublicKey
  const { identity } = credential
  return { parsed, ref, agentId: id, identity, signatureKey: signaturePublicKey, encryptionKey, madeAt: notBefore }
}

function outsideLifetime(now: bigint, notBefore: bigint, notAfter: bigint): StaticError {
  const state = notAfter < now ? 'has expired' : 'is not valid yet'
  return StaticError.of(
    'key_package_unavailable',
    `The KeyPackage ${state}: it is valid from ${notBefore} to ${notAfter} (seconds since 1970), now is ${now}. ` +
      'Ask the agent for a new one, and check the clocks of both machines.',
  )
}

function bad(message: string): StaticError {
  return StaticError.of('invalid_request', message)
}
