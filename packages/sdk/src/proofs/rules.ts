/**
 * Rules of `require` (SPEC.md, 7.4): whom an owner admits. Each names its issuer, so that the same subject of another
 * issuer never matches.
 *
 * | text | what it asks for |
 * |---|---|
 * | `acme.example` | a statement of this domain |
 * | `github:acme/app@refs/heads/main` | a job of GitHub Actions on this ref |
 * | `github:acme/app@environment:production` | a job in this environment |
 * | `github:acme/app@.github/workflows/deploy.yml@refs/heads/main` | a job of this workflow file |
 * | `oidc:https://gitlab.com#project_path:acme/app:*` | a token of this issuer for this subject |
 * | `spiffe://acme.example/ns/prod/*` | an SVID for this SPIFFE ID |
 */
import { StaticError } from '@static/protocol'
import { isRecord } from './json.ts'
import { covers, domainOf, GITHUB_ISSUER, isPattern, isPlain, issuerOf, repositoryOf, trustDomainOf } from './names.ts'
import type { SignedName } from './verdict.ts'

/** One rule. A `*` at the end of a pattern, behind `/` or `:`, stands for any rest. */
export type Rule =
  | { readonly domain: string }
  | { readonly github: string; readonly ref: string }
  | { readonly github: string; readonly environment: string }
  | { readonly github: string; readonly workflow: string }
  | { readonly oidc: { readonly issuer: string; readonly subject: string } }
  | { readonly spiffe: string }

const GITHUB = 'github:'
const OIDC = 'oidc:'
const SPIFFE = 'spiffe:'
const ENVIRONMENT = 'environment:'
const WORKFLOWS = '.github/workflows/'
const WORKFLOW = /^[^*@]+\.ya?ml@refs\/./
const BAD_PATTERN = 'A `*` stands at the end, behind `/` or `:`, and nothing may be empty or `..`.'
const FORMS =
  'Use a domain (acme.example), github:OWNER/REPOSITORY@REF, github:OWNER/REPOSITORY@environment:NAME, oidc:ISSUER#SUBJECT or spiffe://TRUST-DOMAIN/PATH.'

/**
 * Reads a rule from its text or its object.
 *
 * @throws {StaticError} `invalid_request`
 */
export function parseRule(given: string | Rule): Rule {
  if (typeof given === 'string') return fromText(given.trim())
  if (typeof given !== 'object' || given === null) throw invalid(given, 'It is neither a text nor an object.')
  // Through its text, so that both forms have the same checks and the same result.
  const rule = fromText(ruleText(given))
  if (shapeOf(rule) !== shapeOf(given)) throw invalid(given, 'It lacks a field, or has one that does not belong there.')
  return rule
}

/** A rule as text, which `parseRule` reads. */
export function ruleText(rule: Rule): string {
  if ('domain' in rule) return rule.domain
  if ('spiffe' in rule) return rule.spiffe
  if ('oidc' in rule) return `${OIDC}${rule.oidc.issuer}#${rule.oidc.subject}`
  if ('ref' in rule) return `${GITHUB}${rule.github}@${rule.ref}`
  if ('workflow' in rule) return `${GITHUB}${rule.github}@${rule.workflow}`
  return `${GITHUB}${rule.github}@${ENVIRONMENT}${rule.environment}`
}

/** Whether what an issuer has signed satisfies a rule, as long as the proof is `checked`. */
export function satisfies({ kind, name, subject, facts }: SignedName, rule: Rule): boolean {
  if ('domain' in rule) return kind === 'domain' && name === rule.domain
  if ('spiffe' in rule) return kind === 'spiffe' && covers(rule.spiffe, subject)
  if ('oidc' in rule) return kind === 'oidc' && name === rule.oidc.issuer && covers(rule.oidc.subject, subject)
  if (kind !== 'github' || !covers(rule.github, name)) return false
  const { ref, environment, workflow_ref: workflow } = facts.claims ?? {}
  if ('ref' in rule) return ref !== undefined && covers(rule.ref, ref)
  if ('environment' in rule) return environment === rule.environment
  return workflow !== undefined && workflow.toLowerCase().startsWith(`${name}/`)
    ? covers(rule.workflow, workflow.slice(name.length + 1))
    : false
}

/** The names of the fields, and which are texts. */
function shapeOf(value: unknown): string {
  if (!isRecord(value)) return typeof value
  const names = Object.keys(value).sort()
  return `{${names.map((name) => `${name} ${shapeOf(value[name])}`).join()}}`
}

function fromText(text: string): Rule {
  if (text.startsWith(GITHUB)) return githubRule(text)
  if (text.startsWith(OIDC)) return oidcRule(text)
  if (text.startsWith(SPIFFE)) {
    const path = text.endsWith('/*') ? `${text.slice(0, -1)}x` : text
    if (!isPattern(text) || trustDomainOf(path) === undefined) throw invalid(text, 'It is not a SPIFFE ID.')
    return { spiffe: text }
  }
  const domain = domainOf(text)
  if (domain === undefined) throw invalid(text, 'It is not a domain.')
  return { domain }
}

function githubRule(text: string): Rule {
  const [, repository = '', rest] = /^github:([^@]*)(?:@(.*))?$/.exec(text) ?? []
  const github = repository.endsWith('/*')
    ? repositoryOf(`${repository.slice(0, -1)}x`)?.replace(/x$/, '*')
    : repositoryOf(repository)
  if (github === undefined || !isPattern(github))
    throw invalid(text, `${JSON.stringify(repository)} is not a repository.`)
  if (!rest) throw invalid(text, 'Any branch of the repository would match. Name a ref or an environment.')
  if (rest.startsWith(ENVIRONMENT)) {
    const environment = rest.slice(ENVIRONMENT.length)
    if (!isPlain(environment) || environment.includes('*'))
      throw invalid(text, 'The name of the environment is invalid.')
    return { github, environment }
  }
  if (!isPattern(rest)) throw invalid(text, BAD_PATTERN)
  if (rest.startsWith(WORKFLOWS)) {
    if (!WORKFLOW.test(rest)) throw invalid(text, 'Any branch can change a workflow. Name its file and the ref.')
    return { github, workflow: rest }
  }
  if (!rest.startsWith('refs/')) throw invalid(text, `A ref begins with refs/, as in refs/heads/${rest}.`)
  return { github, ref: rest }
}

function oidcRule(text: string): Rule {
  const [, issuer = '', subject] = /^oidc:([^#]*)(?:#(.*))?$/.exec(text) ?? []
  if (issuerOf(issuer) === undefined)
    throw invalid(text, `${JSON.stringify(issuer)} is not the https address of an issuer.`)
  if (issuer === GITHUB_ISSUER) throw invalid(text, 'For GitHub Actions, use github:OWNER/REPOSITORY@REF.')
  if (!subject) throw invalid(text, 'Any subject of the issuer would match. Name one behind #.')
  if (!isPattern(subject)) throw invalid(text, BAD_PATTERN)
  return { oidc: { issuer, subject } }
}

function invalid(given: unknown, why: string): StaticError {
  return StaticError.of('invalid_request', `Invalid rule ${JSON.stringify(given)}. ${why} ${FORMS}`)
}
