/**
 * KeyPackages (RFC 9420, section 10): made by an agent, used once by the member that adds it. That member checks the
 * lifetime against its clock, and so does the relay; members that only process the Add do not, see commit-rules.ts.
 * A KeyPackage proves that its maker holds the signature key, not who the maker is.
 */
import type { CiphersuiteImpl, KeyPackage, PrivateKeyPackage } from 'ts-mls'
import { generateKeyPackageWithKey, makeKeyPackageRef, verifyKeyPackage } from 'ts-mls/keyPackage.js'
import { verifyLeafNodeSignatureKeyPackage } from 'ts-mls/leafNode.js'
import { mlKem768, randomBytes, sameBytes, type SignatureKeyPair } from '#platform/crypto'
import { AGENT_ID_BYTES, MAX_KEY_PACKAGE_BYTES, PUBLIC_KEY_BYTES, StaticError, toHex } from '@static/protocol'
import type { Suite } from '../aead.ts'
import { concat } from '../../platform/bytes.ts'
import { KEM_SEED_BYTES } from '../../platform/ml-kem.ts'
import { agentIdOf, isIdentity, MAX_IDENTITY_BYTES } from '../credential.ts'
import type { CheckedKeyPackage, NewKeyPackage } from '../engine.ts'
import { encodeSealKey, findSealKey, SEAL_KEY_TYPE } from '../seal-key.ts'
import type { Recipient, SealPair } from '../sealed-welcome.ts'
import { isEncryptionKey } from '../x25519.ts'
import { isKeyPackageBounded, MAX_LIST } from './bounds.ts'
import { capabilitiesOf, CLOCK_SKEW_SECONDS, LIFETIME_SECONDS, lifetimeFrom } from './config.ts'
import { decodeMessage, encodeKeyPackage } from './message.ts'
import { missingCapability } from './view.ts'

const VERSION = 2
/** The length of an X25519 private key. */
const KEY_BYTES = 32

export interface MlsCrypto {
  readonly suite: Suite
  readonly provider: CiphersuiteImpl
}

/** A KeyPackage as MLS has it, with its private keys. */
export interface MlsKeyPackage {
  readonly publicPackage: KeyPackage
  readonly privatePackage: PrivateKeyPackage
}

/** A KeyPackage of this agent, with the keys that open the seal of its Welcome. */
export interface OwnKeyPackage extends MlsKeyPackage {
  readonly sealPair: SealPair
}

/** Creates a KeyPackage for an identity that the caller has checked. */
export async function makeKeyPackage(
  { suite, provider }: MlsCrypto,
  identity: Uint8Array,
  key: SignatureKeyPair,
  now: number,
): Promise<OwnKeyPackage> {
  const seed = randomBytes(KEM_SEED_BYTES)
  const sealKey = mlKem768.publicKeyOf(seed)
  const made = await generateKeyPackageWithKey(
    { credentialType: 'basic', identity },
    capabilitiesOf(suite),
    lifetimeFrom(now),
    [{ extensionType: SEAL_KEY_TYPE, extensionData: encodeSealKey(sealKey) }],
    { signKey: key.seed, publicKey: Uint8Array.from(key.publicKey) },
    provider,
  )
  return { ...made, sealPair: { seed, sealKey } }
}

/**
 * Encodes a KeyPackage for other agents and for the database. The private part is version(1) = 2, init key(32),
 * encryption key(32), seed(64), KeyPackage.
 */
export async function encodeOwn(
  { provider }: MlsCrypto,
  { publicPackage, privatePackage, sealPair }: OwnKeyPackage,
): Promise<NewKeyPackage> {
  const keyPackage = encodeKeyPackage(publicPackage)
  const { initPrivateKey, hpkePrivateKey } = privatePackage
  return {
    keyPackage,
    privatePart: concat(new Uint8Array([VERSION]), initPrivateKey, hpkePrivateKey, sealPair.seed, keyPackage),
    ref: await makeKeyPackageRef(publicPackage, provider.hash),
  }
}

/**
 * Decodes the private part of a KeyPackage of the agent with this signature key.
 *
 * @throws {StaticError} `store_corrupt` if it is malformed or belongs to another key
 */
export function decodeOwn(privatePart: Uint8Array, key: SignatureKeyPair): OwnKeyPackage {
  const seedAt = 1 + 2 * KEY_BYTES
  const publicPackage = decodeMessage('mls_key_package', privatePart.subarray(seedAt + KEM_SEED_BYTES))?.keyPackage
  if (privatePart[0] !== VERSION || !publicPackage) throw corrupt('is malformed or of another version')
  if (!sameBytes(publicPackage.leafNode.signaturePublicKey, key.publicKey)) throw corrupt('belongs to another key')
  const sealKey = findSealKey(publicPackage.extensions)
  const seed = privatePart.slice(seedAt, seedAt + KEM_SEED_BYTES)
  if (!sealKey || !sameBytes(mlKem768.publicKeyOf(seed), sealKey)) throw corrupt('has a seed of another KeyPackage')
  const privatePackage = {
    initPrivateKey: privatePart.slice(1, 1 + KEY_BYTES),
    hpkePrivateKey: privatePart.slice(1 + KEY_BYTES, seedAt),
    signaturePrivateKey: key.seed,
  }
  return { publicPackage, privatePackage, sealPair: { seed, sealKey } }
}

/** Overwrites the private keys of a KeyPackage. */
export function wipeOwn({ privatePackage, sealPair }: OwnKeyPackage): void {
  for (const secret of [privatePackage.initPrivateKey, privatePackage.hpkePrivateKey, sealPair.seed]) secret.fill(0)
}

function corrupt(what: string): StaticError {
  return StaticError.of('store_corrupt', `The private part of a stored KeyPackage ${what}.`)
}

/** A valid KeyPackage, with the library's parsed form. */
export interface ParsedKeyPackage extends CheckedKeyPackage {
  readonly parsed: KeyPackage
  /** To seal its Welcome. */
  readonly recipient: Recipient
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
  const { leafNode, cipherSuite, version, initKey, extensions: own } = parsed
  const { credential, signaturePublicKey, hpkePublicKey, lifetime } = leafNode
  if (version !== 'mls10' || cipherSuite !== suite.name)
    throw bad(`The KeyPackage is for ${version} and ${cipherSuite}; channels use mls10 and ${suite.name}.`)
  const sealKey = findSealKey(own)
  if (sealKey === undefined)
    throw bad(`The KeyPackage has no key to seal its Welcome (extension 0x${SEAL_KEY_TYPE.toString(16)}). ${OLD}`)
  const missing = missingCapability(leafNode, { version, cipherSuite, extensions })
  if (missing !== undefined) throw bad(`The KeyPackage cannot be used for a channel: it ${missing}.`)
  if (credential.credentialType !== 'basic' || !isIdentity(credential.identity))
    throw bad(`The KeyPackage has no identity of 1 to ${MAX_IDENTITY_BYTES} bytes, the first not zero.`)
  if (signaturePublicKey.length !== PUBLIC_KEY_BYTES)
    throw bad(`The KeyPackage's signature key must be ${PUBLIC_KEY_BYTES} bytes, not ${signaturePublicKey.length}.`)
  if (!isEncryptionKey(hpkePublicKey) || !isEncryptionKey(initKey))
    throw bad('An encryption key of the KeyPackage is not a usable X25519 key.')
  if (sameBytes(initKey, hpkePublicKey)) throw bad('The init key and the encryption key of the KeyPackage must differ.')
  const encapsulate = encapsulatorOf(sealKey)
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
  const recipient = { ref, sealKey, encapsulate }
  const madeAt = notBefore
  return { parsed, recipient, ref, agentId: id, identity, signatureKey: signaturePublicKey, encryptionKey, madeAt }
}

const OLD = 'Its agent runs an older version, which can join no channel. Update it.'

/** Imported here, so that a bad key keeps out only its own agent. */
function encapsulatorOf(sealKey: Uint8Array): Recipient['encapsulate'] {
  try {
    return mlKem768.encapsulator(sealKey)
  } catch (cause) {
    throw StaticError.of('invalid_request', 'The key to seal the Welcome of the KeyPackage is not one of ML-KEM-768.', {
      cause,
    })
  }
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
