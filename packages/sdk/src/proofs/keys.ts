/** The keys of a root, and what a file of keys must look like (SPEC.md, 7.3). A file that is not right counts as none. */
import { sha256 } from '#platform/crypto'
import { isRecord } from './json.ts'
import { fromBase64url, toBase64url, utf8 } from '../platform/bytes.ts'
import { shownClaim } from './names.ts'
import { issuerOfRoot, type Root } from './roots.ts'

/** A public key as in RFC 7517. */
export interface IssuerKey {
  readonly kty: 'RSA' | 'EC' | 'OKP'
  readonly kid?: string
  readonly alg?: string
  readonly crv?: string
  readonly x?: string
  readonly y?: string
  readonly n?: string
  readonly e?: string
}

/** The keys of a root at one time. */
export interface KeySet {
  readonly keys: readonly IssuerKey[]
  /** Statements issued before this are void; in seconds. */
  readonly notBefore: number
  /** Of statements that are void: see `revocationOf`. */
  readonly revoked: readonly string[]
}

export const MOST_DOMAIN_KEYS = 8
export const MOST_REVOKED = 2048
/** Maximum size of a file of keys. */
export const MAX_KEYS_BYTES = 65_536
const MOST_KEYS = 64
const VERSION = 1
const REVOKED_BYTES = 16
const DOMAIN_FIELDS = ['version', 'issuer', 'keys', 'not_before', 'revoked']

/** The parts of a key that make it up, in the order of RFC 7638. */
const PARTS = { RSA: ['e', 'n'], EC: ['crv', 'x', 'y'], OKP: ['crv', 'x'] } as const
const CURVES = { RSA: [undefined], EC: ['P-256', 'P-384'], OKP: ['Ed25519'] } as const

/** The entry of `revoked` for a statement: 16 bytes of a hash, so that the file does not list them. */
export function revocationOf(statementId: string): string {
  return toBase64url(sha256(utf8(`static revoked 1${statementId}`)).subarray(0, REVOKED_BYTES))
}

/** The thumbprint of a key (RFC 7638). */
export function thumbprintOf(key: IssuerKey): string {
  const parts = [...PARTS[key.kty], 'kty' as const].sort()
  return toBase64url(sha256(utf8(JSON.stringify(Object.fromEntries(parts.map((part) => [part, key[part]]))))))
}

/**
 * Reads a file of keys of a root.
 *
 * @returns the reason, if it is not one
 */
export function readKeys(root: Root, bytes: Uint8Array): KeySet | string {
  if (bytes.length > MAX_KEYS_BYTES) return `is longer than ${MAX_KEYS_BYTES} bytes`
  let json: unknown
  try {
    json = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    return 'is not JSON'
  }
  if (!isRecord(json) || !Array.isArray(json['keys'])) return 'has no list of `keys`'
  return root.kind === 'domain' ? domainKeys(root, json, json['keys']) : jwks(root, json['keys'])
}

/** All or nothing: a revocation with a mistake in it must not be ignored. */
function domainKeys(root: Root, json: Readonly<Record<string, unknown>>, listed: readonly unknown[]): KeySet | string {
  const { version, issuer, not_before: notBefore = 0, revoked = [] } = json
  const unknown = Object.keys(json).find((name) => !DOMAIN_FIELDS.includes(name))
  if (unknown !== undefined) return `has the unknown field "${shownClaim(unknown)}"`
  if (version !== VERSION) return 'has another `version` than 1'
  if (issuer !== issuerOfRoot(root)) return `must have the \`issuer\` ${issuerOfRoot(root)}`
  if (listed.length > MOST_DOMAIN_KEYS) return `has more than ${MOST_DOMAIN_KEYS} keys`
  if (listed.length === 0) return 'has no keys'
  const keys = listed.map((key) => (isRecord(key) && !('d' in key) ? publicKey(key) : undefined))
  if (!keys.every((key) => key !== undefined)) return 'has a key that is not a public key of a known kind'
  if (new Set(keys.map(({ kid }) => kid)).size < keys.length || keys.some(({ kid }) => kid === undefined)) {
    return 'has keys without different `kid`s'
  }
  if (!isSeconds(notBefore)) return 'has a `not_before` that is not a number of seconds'
  if (!Array.isArray(revoked) || revoked.length > MOST_REVOKED || !revoked.every(isRevocation)) {
    return `has a list \`revoked\` that is not at most ${MOST_REVOKED} entries of ${REVOKED_BYTES} bytes in base64url`
  }
  return { keys, notBefore, revoked }
}

/** Keys of other kinds and uses are skipped (RFC 7517, section 5). */
function jwks({ kind }: Root, listed: readonly unknown[]): KeySet | string {
  if (listed.length > MOST_KEYS) return `has more than ${MOST_KEYS} keys`
  // Bundles of SPIFFE have certificates as well, and the key for JWT-SVIDs of the same server may be another one.
  const uses = kind === 'spiffe' ? ['jwt-svid'] : [undefined, 'sig']
  const keys = listed.flatMap((key) => {
    const read = isRecord(key) && uses.some((use) => use === key['use']) ? publicKey(key) : undefined
    return read ?? []
  })
  return keys.length === 0 ? 'has no key that can be used' : { keys, notBefore: 0, revoked: [] }
}

/** A copy with known fields only; undefined if it is no public key that this agent can use. */
function publicKey(given: Readonly<Record<string, unknown>>): IssuerKey | undefined {
  const { kty, kid, alg, crv } = given
  if (kty !== 'RSA' && kty !== 'EC' && kty !== 'OKP') return undefined
  const parts = PARTS[kty].map((part) => [part, given[part]] as const)
  if (!parts.every(([, value]) => typeof value === 'string' && /^[\w-]{1,1400}$/.test(value))) return undefined
  const curves: readonly unknown[] = CURVES[kty]
  if (kty !== 'RSA' && !curves.includes(crv)) return undefined
  if (![kid, alg].every((text) => text === undefined || (typeof text === 'string' && text.length <= 255)))
    return undefined
  return {
    kty,
    ...Object.fromEntries(parts),
    ...(kid === undefined ? {} : { kid: kid as string }),
    ...(alg === undefined ? {} : { alg: alg as string }),
  }
}

function isSeconds(given: unknown): given is number {
  return Number.isSafeInteger(given) && (given as number) >= 0
}

function isRevocation(given: unknown): given is string {
  return typeof given === 'string' && fromBase64url(given)?.length === REVOKED_BYTES
}
