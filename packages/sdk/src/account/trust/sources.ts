/**
 * Where the JWT of an agent's proof comes from (SPEC.md, 7.5). A statement is a file; a token is made for each proof,
 * because its audience names the channel and the agent.
 */
import { readFileSync } from 'node:fs'
import { StaticError } from '@static/protocol'
import { isRecord } from '../../proofs/json.ts'
import type { ProofKind } from '../../proofs/proof.ts'
import { isStatement } from '../../proofs/statement.ts'
import { DomainStore } from './domain-store.ts'
import { fetchHttpsFile } from './https-file.ts'
import { type HeldStatement, heldStatements, holdStatement } from './statements-file.ts'

/** A source of JWTs. */
export interface ProofSource {
  /** What it calls itself in errors. */
  readonly name: string
  /**
   * A JWT for this audience, which a statement does without.
   *
   * @throws {StaticError} `unavailable` if it cannot be had now, `invalid_request` if it never can
   */
  mint(audience: string): Promise<{ readonly kind: ProofKind; readonly jwt: string }>
}

const MS = 1000
const DAY_MS = 86_400_000
/** From then on, a statement is renewed, or its holder warned. */
export const WARNING_MS: number = 7 * DAY_MS
const LONGEST_FILE = 16_384
const CALLBACK_MS = 30_000

/** The statement of a domain in an agent's directory, renewed before it ends if the key of the domain is here. */
export function statementSource(dataDir: string, domain: string, domains: string): ProofSource {
  return {
    name: domain,
    mint: async () => {
      const held = heldStatements(dataDir).find((statement) => statement.domain === domain)
      if (held === undefined) {
        throw StaticError.of(
          'invalid_request',
          `This agent has no statement of ${domain}. Add one with \`static agent add-proof FILE\` or \`static domain sign\`.`,
        )
      }
      return { kind: 'statement', jwt: await renewed(dataDir, held, domains, Date.now()) }
    },
  }
}

/** Whether a statement ends within a week (a short one: within half of its life), or has ended. */
export function isEnding({ issuedAt, expiresAt }: Pick<HeldStatement, 'issuedAt' | 'expiresAt'>, now: number): boolean {
  return expiresAt * MS - now <= Math.min(WARNING_MS, ((expiresAt - issuedAt) * MS) / 2)
}

/** A statement, or a new one in its place if it is about to end and the key of its domain is on this machine. */
export async function renewed(dataDir: string, held: HeldStatement, domains: string, now: number): Promise<string> {
  const { domain, agentId, subject, issuedAt, expiresAt, jwt } = held
  if (!isEnding(held, now)) return jwt
  const store = new DomainStore(domains, domain)
  // A revoked statement must not come back by itself, nor one that somebody else has made up become real.
  const mayRenew =
    expiresAt * MS > now && store.hasKey && !store.isRevoked(held, now) && (await store.hasSigned(jwt, now))
  if (!mayRenew) return jwt
  const fresh = await store.sign({ agentId, subject }, ((expiresAt - issuedAt) * MS) / DAY_MS, now)
  holdStatement(dataDir, fresh)
  return fresh
}

/** A file with a JWT. A token in it has a fixed audience, so only statements and files written for each proof work. */
export function fileSource(path: string): ProofSource {
  return {
    name: path,
    mint: () => {
      const jwt = readFileSync(path, 'utf8').slice(0, LONGEST_FILE).trim()
      return Promise.resolve({ kind: isStatement(jwt) ? 'statement' : 'token', jwt })
    },
  }
}

/** A function of the application that gets a token for an audience, for which it has 30 seconds. */
export function callbackSource(mint: (audience: string) => Promise<string> | string): ProofSource {
  return {
    name: 'the function of `proof`',
    mint: async (audience) => {
      const late = Promise.withResolvers<never>()
      const error = StaticError.of(
        'unavailable',
        `The function of \`proof\` gave no token within ${CALLBACK_MS / MS} s.`,
      )
      const timer = setTimeout(() => late.reject(error), CALLBACK_MS)
      try {
        const jwt: unknown = await Promise.race([(async () => await mint(audience))(), late.promise])
        if (typeof jwt !== 'string') throw new Error(`it returned ${typeof jwt}, not a text`)
        return { kind: 'token', jwt }
      } catch (cause) {
        if (cause instanceof StaticError) throw cause
        const why = cause instanceof Error ? cause.message : String(cause)
        // The application decides whether it tries again; `unavailable` would make the agent do so.
        throw StaticError.of('invalid_request', `The function of \`proof\` failed: ${why}`, { cause })
      } finally {
        clearTimeout(timer)
      }
    },
  }
}

/** The variables that GitHub sets for a job with `permissions: id-token: write`. */
const REQUEST_URL = 'ACTIONS_ID_TOKEN_REQUEST_URL'
const REQUEST_TOKEN = 'ACTIONS_ID_TOKEN_REQUEST_TOKEN'

/** Tokens of the GitHub Actions job in which this process runs. */
export function githubActionsSource(env: Readonly<Record<string, string | undefined>>): ProofSource {
  return {
    name: 'GitHub Actions',
    mint: async (audience) => {
      const { [REQUEST_URL]: address = '', [REQUEST_TOKEN]: secret = '' } = env
      if (!URL.canParse(address) || secret === '') {
        throw StaticError.of(
          'invalid_request',
          `This is not a job of GitHub Actions that may have tokens: ${REQUEST_URL} or ${REQUEST_TOKEN} is not set. Add \`permissions: id-token: write\` to the job.`,
        )
      }
      const url = new URL(address)
      url.searchParams.set('audience', audience)
      const value = await requested(url, secret)
      if (value !== undefined) return { kind: 'token', jwt: value }
      throw StaticError.of('unavailable', 'GitHub Actions answered without a token. Try again.')
    },
  }
}

async function requested(url: URL, secret: string): Promise<string | undefined> {
  try {
    // The runner, not a peer, says where to ask: this may be a proxy on the same machine.
    const bytes = await fetchHttpsFile(url, { anyAddress: true, authorization: `Bearer ${secret}` })
    const answer: unknown = JSON.parse(bytes.toString())
    const value = isRecord(answer) ? answer['value'] : undefined
    return typeof value === 'string' ? value : undefined
  } catch (cause) {
    const why = cause instanceof SyntaxError || !(cause instanceof Error) ? 'its answer is not JSON' : cause.message
    throw StaticError.of('unavailable', `GitHub Actions gave no token: ${why}. Try again.`, { cause })
  }
}
