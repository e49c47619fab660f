/**
 * Statements of a domain: `acme.example` says that the agent with this id is its `deployer` (SPEC.md, 7.5). Made where
 * the keys of the domain are, which the agent's machine need not be: an agent id is enough.
 */
import { generateSignatureKeyPair } from '#platform/crypto'
import { compactVerify, decodeJwt, decodeProtectedHeader, importJWK, SignJWT } from 'jose'
import { toBase64url } from '../platform/bytes.ts'
import { isRecord } from './json.ts'
import { type IssuerKey, type KeySet, thumbprintOf } from './keys.ts'
import { domainOf, isPlain } from './names.ts'

/** The type in the header of a statement. */
export const STATEMENT_TYPE = 'static-agent+jwt'
/** The longest life of a statement, and the usual one, in days. */
export const MOST_STATEMENT_DAYS = 90
export const STATEMENT_DAYS = 30
/** The last time that a date can have, in seconds. */
const LATEST = 8_640_000_000_000

/** A key of a domain, with its private part. */
export interface DomainKey extends IssuerKey {
  readonly kid: string
  readonly d: string
}

/** What a statement says. */
export interface Statement {
  readonly domain: string
  /** What the domain calls the agent. */
  readonly subject: string
  readonly agentId: string
  /** For its revocation. */
  readonly id: string
  /** In seconds. */
  readonly issuedAt: number
  readonly expiresAt: number
}

export function makeDomainKey(): DomainKey {
  const { publicKey, seed } = generateSignatureKeyPair()
  const key = { kty: 'OKP', crv: 'Ed25519', alg: 'EdDSA', x: toBase64url(publicKey) } as const
  return { ...key, kid: thumbprintOf(key), d: toBase64url(seed) }
}

export async function signStatement(key: DomainKey, statement: Statement): Promise<string> {
  const { domain, subject, agentId, id, issuedAt, expiresAt } = statement
  return await new SignJWT({ cnf: { kid: agentId } })
    .setProtectedHeader({ alg: 'EdDSA', kid: key.kid, typ: STATEMENT_TYPE })
    .setIssuer(`https://${domain}`)
    .setSubject(subject)
    .setJti(id)
    .setIssuedAt(issuedAt)
    .setExpirationTime(expiresAt)
    .sign(await importJWK({ ...key }, 'EdDSA'))
}

/** Whether a JWT was signed with a key of a domain. */
export async function isSignedWith(key: IssuerKey, jwt: string): Promise<boolean> {
  try {
    await compactVerify(jwt, await importJWK({ ...key }, 'EdDSA'), { algorithms: ['EdDSA'] })
    return true
  } catch {
    return false
  }
}

/** Whether a JWT has the type of a statement. */
export function isStatement(jwt: string): boolean {
  try {
    return decodeProtectedHeader(jwt).typ === STATEMENT_TYPE
  } catch {
    return false
  }
}

/** What a statement says, unchecked; undefined if it is none. */
export function readStatement(jwt: string): Statement | undefined {
  let claims: Readonly<Record<string, unknown>>
  try {
    claims = decodeJwt(jwt)
  } catch {
    return undefined
  }
  const { iss, sub, jti, iat, exp, cnf } = claims
  const agentId = isRecord(cnf) ? cnf['kid'] : undefined
  // They are shown to people, before anyone has checked the signature.
  if (![iss, sub, jti, agentId].every(isPlain)) return undefined
  if (![iat, exp].every((time) => typeof time === 'number' && time >= 0 && time <= LATEST)) return undefined
  const domain = domainOf(String(iss).replace(/^https:\/\//, ''))
  // It is part of a path.
  if (domain === undefined || iss !== `https://${domain}`) return undefined
  const [subject, id] = [String(sub), String(jti)]
  return { domain, subject, agentId: String(agentId), id, issuedAt: Number(iat), expiresAt: Number(exp) }
}

/** The file that a domain publishes at `/.well-known/static-agents.json`. */
export function domainFile(domain: string, { keys, notBefore, revoked }: KeySet): string {
  const file = { version: 1, issuer: `https://${domain}`, keys, not_before: notBefore, revoked }
  return `${JSON.stringify(file, null, 2)}\n`
}

/** The part of a key that is for everyone. */
export function publicPart({ d: _d, ...key }: DomainKey): IssuerKey {
  return key
}
