/** Agents, issuers and roots in memory, for tests of proofs. */
import { generateKeyPairSync, type KeyObject, randomBytes } from 'node:crypto'
import { exportJWK, type JWTPayload, SignJWT } from 'jose'
import { ed25519, generateSignatureKeyPair } from '@static/node/ed25519'
import { checkProof } from '../../src/proofs/check.ts'
import { afterFetch, type KeyState, NO_KEYS } from '../../src/proofs/key-state.ts'
import { audienceOf, makeProof, type ProofContext, type ProofKind } from '../../src/proofs/proof.ts'
import { parseRoot, type Root } from '../../src/proofs/roots.ts'
import type { KnownRoot } from '../../src/proofs/standing.ts'
import { agentIdOf } from '../../src/mls/index.ts'
import { STATEMENT_TYPE } from '../../src/proofs/statement.ts'
import type { Verdict } from '../../src/proofs/verdict.ts'
import { toHex } from '@static/protocol'

export const NOW: number = Date.UTC(2026, 10, 19)
export const SECONDS: number = NOW / 1000
export const GITHUB = 'https://token.actions.githubusercontent.com'
export const IDP = 'https://idp.example'

/** An issuer: a key with its id, and the file that publishes it. */
export class Issuer {
  readonly kid: string
  readonly alg: string
  readonly use: string | undefined
  readonly key: KeyObject
  readonly publicKey: KeyObject

  constructor(kid: string, alg: 'EdDSA' | 'ES256' | 'RS256', use?: string) {
    const pair =
      alg === 'EdDSA'
        ? generateKeyPairSync('ed25519')
        : alg === 'ES256'
          ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
          : generateKeyPairSync('rsa', { modulusLength: 2048 })
    this.kid = kid
    this.alg = alg
    this.use = use
    this.key = pair.privateKey
    this.publicKey = pair.publicKey
  }

  async jwk(): Promise<Record<string, unknown>> {
    const { kid, alg, use } = this
    return { ...(await exportJWK(this.publicKey)), kid, alg, ...(use === undefined ? {} : { use }) }
  }

  async sign(claims: JWTPayload, header: object = {}): Promise<string> {
    return await new SignJWT(claims).setProtectedHeader({ alg: this.alg, kid: this.kid, ...header }).sign(this.key)
  }
}

/** An agent with its key. */
export class Agent {
  readonly key: ReturnType<typeof generateSignatureKeyPair> = generateSignatureKeyPair()
  readonly id: string = toHex(agentIdOf(this.key.publicKey))

  context(more: Partial<ProofContext> = {}): ProofContext {
    return { channelId: CHANNEL, ownerId: OWNER, publicKey: this.key.publicKey, place: 7, ...more }
  }

  /** A proof with what `mint` makes for its audience. */
  async proof(
    kind: ProofKind,
    mint: (audience: string) => Promise<string> | string,
    context: ProofContext = this.context(),
    salt: Uint8Array = randomBytes(16),
  ): Promise<Uint8Array> {
    const jwt = await mint(audienceOf(context, salt))
    const proof = makeProof({ kind, salt, jwt }, context, ed25519.signer(this.key))
    if (proof === undefined) throw new Error('no proof can have this JWT')
    return proof
  }
}

const CHANNEL = new Uint8Array(16).fill(1)
const OWNER = new Uint8Array(32).fill(2)

/** The issuers that the roots trust. */
export const issuers: Readonly<Record<'domain' | 'github' | 'oidc' | 'spiffe', Issuer>> = {
  domain: new Issuer('c1', 'EdDSA'),
  github: new Issuer('gh1', 'RS256'),
  oidc: new Issuer('i1', 'ES256', 'sig'),
  spiffe: new Issuer('s1', 'ES256', 'jwt-svid'),
}

/** The claims of a statement about an agent. */
export function statement(agent: Agent, more: object = {}): JWTPayload {
  return {
    iss: 'https://acme.example',
    sub: 'deployer',
    jti: 'AAAAAAAAAAAAAAAAAAAAAA',
    iat: SECONDS,
    exp: SECONDS + 30 * 86_400,
    cnf: { kid: agent.id },
    ...more,
  }
}

/** The claims of a job of GitHub Actions. */
export function job(audience: string, more: object = {}): JWTPayload {
  return {
    iss: GITHUB,
    aud: audience,
    sub: 'repo:acme/app:ref:refs/heads/main',
    repository: 'acme/app',
    repository_id: '123456789',
    repository_owner: 'acme',
    repository_owner_id: '9876543',
    event_name: 'push',
    ref: 'refs/heads/main',
    workflow_ref: 'acme/app/.github/workflows/deploy.yml@refs/heads/main',
    jti: 'x',
    iat: SECONDS,
    nbf: SECONDS - 300,
    exp: SECONDS + 300,
    ...more,
  }
}

/** The claims of a token of an OIDC issuer or, with a SPIFFE ID, of an SVID. */
export function token(audience: string, more: object = {}): JWTPayload {
  return { iss: IDP, sub: 'service:billing', aud: audience, iat: SECONDS, exp: SECONDS + 300, ...more }
}

export const SPIFFE_ID = 'spiffe://acme.example/ns/prod/sa/billing'

export async function signedStatement(agent: Agent, more: object = {}, header: object = {}): Promise<string> {
  return await issuers.domain.sign(statement(agent, more), { typ: STATEMENT_TYPE, ...header })
}

/** Fetches a file for a root, at a time. */
export function known(root: Root, file: unknown, now: number = NOW, state: KeyState = NO_KEYS): KnownRoot {
  return { root, state: afterFetch(root, state, { bytes: Buffer.from(JSON.stringify(file)) }, now) }
}

/** The file of a domain. */
export async function domainFile(keys: readonly Issuer[], more: object = {}): Promise<Record<string, unknown>> {
  const jwks = await Promise.all(keys.map((each) => each.jwk()))
  return { version: 1, issuer: 'https://acme.example', keys: jwks, not_before: 0, revoked: [], ...more }
}

export const DOMAIN: Root = parseRoot('acme.example')
export const REPOSITORY: Root = parseRoot('github:acme/app')

/** All roots with their keys. */
export async function allRoots(): Promise<readonly KnownRoot[]> {
  const { domain, github, oidc, spiffe } = issuers
  return [
    known(DOMAIN, await domainFile([domain])),
    known(REPOSITORY, { keys: [await github.jwk()] }),
    known(parseRoot(`oidc:${IDP}`), { keys: [await oidc.jwk()] }),
    known(parseRoot('spiffe:acme.example', { keys: '/bundle.json' }), {
      keys: [await spiffe.jwk(), await new Issuer('x1', 'ES256', 'x509-svid').jwk()],
    }),
  ]
}

/** The verdict on a proof. */
export async function verdictOn(
  proof: Uint8Array,
  context: ProofContext,
  roots?: readonly KnownRoot[],
  now: number = NOW,
): Promise<Verdict> {
  return (await checkProof(proof, context, roots ?? (await allRoots()), now)).verdict
}

/** A verdict in one line. */
export function lineOf(verdict: Verdict): string {
  if (verdict.state === 'checked') return `checked ${verdict.kind} ${verdict.name} ${verdict.subject}`
  return `${verdict.state}: ${verdict.reason}`
}
