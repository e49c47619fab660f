/**
 * KeyPackages (RFC 9420, section 10): made by an agent, used once by whoever adds it. The adder checks the lifetime,
 * by its clock, and so does the relay; a member that only hears of the Add does not, see commit-rules.ts.
 * A KeyPackage proves that its maker holds the signature key, not who that is.
 */
import type { CiphersuiteImpl, KeyPackage, PrivateKeyPackage } from 'ts-mls'
import { generateKeyPackageWithKey, makeKeyPackageRef, verifyKeyPackage } from 'ts-mls/keyPackage.js'
import { verifyLeafNodeSignatureKeyPackage } from 'ts-mls/leafNode.js'
import type { SignatureKeyPair } from '@static/node/ed25519'
import { AGENT_ID_BYTES, MAX_KEY_PACKAGE_BYTES, PUBLIC_KEY_BYTES, StaticError } from '@static/protocol'
import { concat, equal } from './bytes.ts'
import { agentIdOf, isIdentity } from './credential.ts'
import type { CheckedKeyPackage, NewKeyPackage } from './engine.ts'
import type { Suite } from './provider.ts'
import { isKeyPackageBounded } from './ts-mls/bounds.ts'
import { capabilitiesOf, CLOCK_SKEW_SECONDS, LIFETIME_SECONDS, lifetimeFrom } from './ts-mls/config.ts'
import { decodeMessage, encodeKeyPackage } from './ts-mls/message.ts'
import { isEncryptionKey } from './x25519.ts'

const VERSION = 1
/** An X25519 private key. */
const KEY_BYTES = 32

/** A suite and its cryptography. */
export interface Crypto {
  readonly suite: Suite
  readonly provider: CiphersuiteImpl
}

/** A KeyPackage that is being made, with its private keys. */
export interface OwnKeyPackage {
  readonly publicPackage: KeyPackage
  readonly privatePackage: PrivateKeyPackage
}

/** Makes a KeyPackage for an identity that the caller has checked. */
export async function makeKeyPackage(
  { suite, provider }: Crypto,
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

/** A KeyPackage in the forms that leave the engine: version(1), init key(32), encryption key(32), the KeyPackage. */
export async function encodeOwn(
  { provider }: Crypto,
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
 * Reads the private part of a KeyPackage of the agent with this signature key.
 *
 * @throws {StaticError} `store_corrupt` when it is none
 */
export function decodeOwn(privatePart: Uint8Array, key: SignatureKeyPair): OwnKeyPackage {
  const bytes = Uint8Array.from(privatePart)
  const keyPackage = decodeMessage('mls_key_package', bytes.subarray(1 + 2 * KEY_BYTES))?.keyPackage
  if (bytes[0] !== VERSION || !keyPackage || !equal(keyPackage.leafNode.signaturePublicKey, key.publicKey))
    throw StaticError.of('store_corrupt', 'The private part of a KeyPackage cannot be read.')
  return {
    publicPackage: keyPackage,
    privatePackage: {
      initPrivateKey: bytes.slice(1, 1 + KEY_BYTES),
      hpkePrivateKey: bytes.slice(1 + KEY_BYTES, 1 + 2 * KEY_BYTES),
      signaturePrivateKey: key.seed,
    },
  }
}

/** A KeyPackage that may be added, as the library reads it. */
export interface ParsedKeyPackage extends CheckedKeyPackage {
  readonly parsed: KeyPackage
}

/**
 * Reads and checks a KeyPackage: suite, capabilities (`extensions` are those that the group needs), signatures,
 * lifetime, and whose it is when an agent id is given.
 *
 * @throws {StaticError} `invalid_request`, or `key_package_unavailable` when it has run out
 */
export async function checkKeyPackage(
  { suite, provider }: Crypto,
  bytes: Uint8Array,
  extensions: readonly number[],
  now: number,
  agentId?: Uint8Array,
): Promise<ParsedKeyPackage> {
  const parsed = bytes.length <= MAX_KEY_PACKAGE_BYTES ? decodeMessage('mls_key_package', bytes)?.keyPackage : undefined
  if (parsed === undefined) throw bad('This is no KeyPackage.')
  if (!isKeyPackageBounded(parsed)) throw bad('The KeyPackage has a list of more than 32 entries.')
  const { leafNode, cipherSuite, version, initKey } = parsed
  const { credential, capabilities, signaturePublicKey, hpkePublicKey, lifetime } = leafNode
  if (version !== 'mls10' || cipherSuite !== suite.name) throw bad('The KeyPackage is of another suite.')
  const able =
    capabilities.versions.includes('mls10') &&
    capabilities.ciphersuites.includes(suite.name) &&
    capabilities.credentials.includes('basic') &&
    extensions.every((type) => capabilities.extensions.includes(type)) &&
    leafNode.extensions.length === 0
  if (!able) throw bad('The agent of the KeyPackage cannot do what a channel needs.')
  if (credential.credentialType !== 'basic' || !isIdentity(credential.identity))
    throw bad('The KeyPackage names no identity.')
  const usable = signaturePublicKey.length === PUBLIC_KEY_BYTES && isEncryptionKey(hpkePublicKey)
  if (!usable || !isEncryptionKey(initKey) || equal(initKey, hpkePublicKey))
    throw bad('The keys of the KeyPackage are wrong.')
  const { signature } = provider
  const signed =
    (await verifyLeafNodeSignatureKeyPackage(leafNode, signature)) && (await verifyKeyPackage(parsed, signature))
  if (!signed) throw bad('The KeyPackage is not signed by its key.')
  const id = agentIdOf(signaturePublicKey)
  if (agentId !== undefined && (agentId.length !== AGENT_ID_BYTES || !equal(agentId, id)))
    throw bad('The KeyPackage is of another agent.')
  const seconds = BigInt(Math.floor(now / 1000))
  if (lifetime.notAfter - lifetime.notBefore > LIFETIME_SECONDS + 2n * CLOCK_SKEW_SECONDS)
    throw bad('The KeyPackage lasts too long.')
  if (lifetime.notBefore > seconds || lifetime.notAfter < seconds)
    throw StaticError.of('key_package_unavailable', 'The KeyPackage has run out: get a new one.')
  const ref = await makeKeyPackageRef(parsed, provider.hash)
  return { parsed, ref, agentId: id, identity: credential.identity, signatureKey: signaturePublicKey }
}

function bad(message: string): StaticError {
  return StaticError.of('invalid_request', message)
}
