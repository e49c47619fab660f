/**
 * What must hold for every JWT in a proof, with whatever root it is checked (SPEC.md, 7.2): its header, its claims, and
 * that it is bound to the key of the member. Says nothing about who signed it.
 */
import { sha256 } from '#platform/crypto'
import { toHex } from '@static/protocol'
import { decodeJwt, decodeProtectedHeader } from 'jose'
import { isRecord } from './json.ts'
import { domainOf, GITHUB_ISSUER, isPlain, repositoryOf, trustDomainOf } from './names.ts'
import { audienceOf, type Proof, type ProofContext } from './proof.ts'
import { STATEMENT_TYPE } from './statement.ts'
import type { NameKind } from './verdict.ts'

/** The signatures that are accepted, and the keys that make them. */
export const ALGORITHMS: Readonly<Record<string, { readonly kty: string; readonly crv?: string }>> = {
  RS256: { kty: 'RSA' },
  PS256: { kty: 'RSA' },
  ES256: { kty: 'EC', crv: 'P-256' },
  ES384: { kty: 'EC', crv: 'P-384' },
  EdDSA: { kty: 'OKP', crv: 'Ed25519' },
}

/** Most tokens have the first or none, SVIDs also the second. Access tokens with another proof of possession have none of them. */
const TOKEN_TYPES = [undefined, 'JWT', 'jwt', 'JOSE']
/** Events in which a fork's code can run with the identity of the repository. */
const FOREIGN_EVENTS = ['pull_request_target', 'workflow_run']
const GITHUB_CLAIMS = ['repository', 'repository_id', 'repository_owner', 'repository_owner_id', 'event_name', 'ref']
/** Those that rules match, and those that pin a repository. */
const KEPT_CLAIMS = ['ref', 'environment', 'workflow_ref', 'repository_id', 'repository_owner_id']
const STATEMENT_ID = /^[\w-]{16,64}$/

/** What a JWT claims. */
export interface Claimed {
  readonly kind: NameKind
  /** As in a verdict. */
  readonly name: string
  readonly subject: string
  readonly issuedAt: number
  readonly expiresAt: number
  readonly notBefore: number
  readonly algorithm: string
  readonly keyId: string | undefined
  /** Of a statement. */
  readonly statementId?: string
  /** Of GitHub. */
  readonly claims?: Readonly<Record<string, string>>
}

type Json = Readonly<Record<string, unknown>>

/**
 * Reads the JWT of a proof.
 *
 * @returns the reason, if the proof is invalid
 */
export function readClaims(proof: Proof, context: ProofContext): Claimed | string {
  let header: Json
  let claims: Json
  try {
    header = { ...decodeProtectedHeader(proof.jwt) }
    claims = decodeJwt(proof.jwt)
  } catch {
    return 'it contains no JWT'
  }
  const { alg, kid, typ, crit } = header
  if (typeof alg !== 'string' || !Object.hasOwn(ALGORITHMS, alg)) return 'its algorithm is not accepted'
  if (kid !== undefined && typeof kid !== 'string') return 'its `kid` is not a text'
  if (crit !== undefined) return 'it has a critical header'
  const times = timesOf(claims)
  if (times === undefined) return 'it has no `iat` and `exp`, or they are not numbers of seconds'
  const known = { ...times, algorithm: alg, keyId: kid }
  const named = proof.kind === 'statement' ? statement(claims, typ, context) : token(claims, typ, proof, context)
  return typeof named === 'string' ? named : { ...known, ...named }
}

type Named = Pick<Claimed, 'kind' | 'name' | 'subject' | 'statementId' | 'claims'>

function statement(claims: Json, typ: unknown, { publicKey }: ProofContext): Named | string {
  const { iss, sub, aud, jti, cnf } = claims
  if (typ !== STATEMENT_TYPE) return `the type of a statement must be ${STATEMENT_TYPE}`
  if (aud !== undefined) return 'a statement has no audience'
  const agentId = toHex(sha256(publicKey))
  if (!isRecord(cnf) || Object.keys(cnf).join(' ') !== 'kid' || cnf['kid'] !== agentId) {
    return 'it is about the key of another agent'
  }
  if (typeof jti !== 'string' || !STATEMENT_ID.test(jti)) return 'it has no `jti` of 16 to 64 characters'
  const domain = typeof iss === 'string' ? domainOf(iss.replace(/^https:\/\//, '')) : undefined
  if (domain === undefined || iss !== `https://${domain}`) return 'its issuer is not a domain'
  if (!isPlain(sub)) return 'its subject is not a plain name'
  return { kind: 'domain', name: domain, subject: sub, statementId: jti }
}

function token(claims: Json, typ: unknown, { salt }: Proof, context: ProofContext): Named | string {
  const { iss, sub, aud, cnf } = claims
  if (!TOKEN_TYPES.some((type) => type === typ)) return 'its type is not that of an identity token'
  if (cnf !== undefined) return 'it is bound to the key of something else'
  const audiences: readonly unknown[] = Array.isArray(aud) ? aud : [aud]
  if (audiences.length !== 1 || audiences[0] !== audienceOf(context, salt)) return 'it was made for another audience'
  if (typeof sub !== 'string') return 'it has no subject'
  if (sub.startsWith('spiffe:')) {
    const trustDomain = trustDomainOf(sub)
    return trustDomain === undefined
      ? 'its subject is not a SPIFFE ID'
      : { kind: 'spiffe', name: trustDomain, subject: sub }
  }
  if (!isPlain(iss)) return 'its issuer is not a plain name'
  // GitHub changed the form of its subjects, and names of environments may have spaces: they are not read.
  if (iss === GITHUB_ISSUER) return githubJob(claims)
  return isPlain(sub) ? { kind: 'oidc', name: iss, subject: sub } : 'its subject is not a plain name'
}

function githubJob(claims: Json): Named | string {
  const odd = GITHUB_CLAIMS.find((name) => !isPlain(claims[name]))
  if (odd !== undefined) return `its claim \`${odd}\` is not a plain name`
  const texts = claims as Readonly<Record<string, string>>
  const repository = repositoryOf(texts['repository'] ?? '')
  if (repository === undefined || repository.split('/')[0] !== texts['repository_owner']?.toLowerCase()) {
    return 'its repository and its owner do not belong together'
  }
  if (FOREIGN_EVENTS.includes(texts['event_name'] ?? '')) {
    return `a job for ${texts['event_name']} may run the code of a fork`
  }
  const kept = Object.fromEntries(KEPT_CLAIMS.flatMap((name) => (isPlain(texts[name]) ? [[name, texts[name]]] : [])))
  const { ref = '', environment } = kept
  const subject = environment === undefined ? ref : `${ref} environment:${environment}`
  return { kind: 'github', name: repository, subject, claims: kept }
}

function timesOf({ iat, exp, nbf = 0 }: Json): Pick<Claimed, 'issuedAt' | 'expiresAt' | 'notBefore'> | undefined {
  const isTime = (time: unknown): time is number => typeof time === 'number' && Number.isFinite(time) && time >= 0
  return isTime(iat) && isTime(exp) && isTime(nbf) ? { issuedAt: iat, expiresAt: exp, notBefore: nbf } : undefined
}
