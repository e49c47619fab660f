/**
 * Roots: the issuers that this agent trusts (SPEC.md, 7.3). They are the agent's own list; nothing that a proof says
 * adds to it. Where the keys of a root are follows from the root alone.
 */
import { StaticError } from '@static/protocol'
import { covers, domainOf, GITHUB_ISSUER, issuerOf, isTrustDomain, repositoryOf } from './names.ts'
import type { NameKind } from './verdict.ts'

/** Where and how the keys of a root are fetched if not from the public internet. By local configuration only. */
export interface Pin {
  /** `HOST:PORT` or an IP address to connect to, instead of what DNS says. */
  readonly address?: string
  /** PEM; the authority of the server's certificate, instead of those of the system. */
  readonly ca?: string
}

/** One root. */
export interface Root {
  /** Its name in lists and files: `acme.example`, `github:acme/app`, `oidc:https://…` or `spiffe:acme.example`. */
  readonly text: string
  readonly kind: NameKind
  /** The domain, the repository (`acme/*`: all of an owner), the issuer or the trust domain. */
  readonly name: string
  /** The path of a file with its keys, which are then not fetched. Always set for SPIFFE. */
  readonly keys?: string
  readonly pin?: Pin
}

const DAY = 86_400
/** The longest life of a JWT, in seconds. */
const LONGEST_LIFE: Readonly<Record<NameKind, number>> = { domain: 90 * DAY, github: DAY, oidc: DAY, spiffe: DAY }
const FORMS =
  'Use a domain (acme.example), github:OWNER/REPOSITORY, github:OWNER/*, oidc:ISSUER or spiffe:TRUST-DOMAIN.'

/**
 * Reads a root from its text.
 *
 * @throws {StaticError} `invalid_request`
 */
export function parseRoot(given: string, { keys, pin }: Pick<Root, 'keys' | 'pin'> = {}): Root {
  const text = given.trim()
  const [, prefix = '', rest = text] = /^(github|oidc|spiffe):(.*)$/.exec(text) ?? []
  const root = (kind: NameKind, name: string | undefined, what: string): Root => {
    if (name === undefined) throw invalid(text, `${JSON.stringify(rest)} is not ${what}.`)
    const more = { ...(keys === undefined ? {} : { keys }), ...(pin === undefined ? {} : { pin }) }
    return { text: prefix === '' ? name : `${prefix}:${name}`, kind, name, ...more }
  }
  if (prefix === 'github') return root('github', repositoryPattern(rest), 'OWNER/REPOSITORY or OWNER/*')
  if (prefix === 'oidc') {
    if (rest === GITHUB_ISSUER) throw invalid(text, 'Anyone can get a token there: name a repository of GitHub.')
    return root('oidc', issuerOf(rest), 'the https address of an issuer')
  }
  if (prefix === 'spiffe') {
    if (keys === undefined)
      throw invalid(text, 'The keys of a trust domain come from a bundle file: pass `--bundle FILE`.')
    return root('spiffe', isTrustDomain(rest) ? rest : undefined, 'a SPIFFE trust domain')
  }
  return root('domain', domainOf(rest), 'a domain')
}

/** The `iss` of what a root signs; undefined for SPIFFE, whose subject names the trust domain. */
export function issuerOfRoot({ kind, name }: Root): string | undefined {
  if (kind === 'domain') return `https://${name}`
  if (kind === 'github') return GITHUB_ISSUER
  return kind === 'oidc' ? name : undefined
}

/** The longest life of a JWT of this root, in seconds. */
export function longestLife({ kind }: Root): number {
  return LONGEST_LIFE[kind]
}

/** Whether a root for GitHub covers a repository. */
export function coversRepository({ kind, name }: Root, repository: string): boolean {
  return kind === 'github' && covers(name, repository)
}

function repositoryPattern(text: string): string | undefined {
  if (!text.endsWith('/*')) return repositoryOf(text)
  return repositoryOf(`${text.slice(0, -1)}x`)?.replace(/x$/, '*')
}

function invalid(given: string, why: string): StaticError {
  return StaticError.of('invalid_request', `Invalid root ${JSON.stringify(given)}. ${why} ${FORMS}`)
}
