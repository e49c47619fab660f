/** The proofs of one agent: its sources, and a checker over its trust list. */
import { join } from 'node:path'
import { randomBytes } from '#platform/crypto'
import type { Signer } from '#platform/crypto'
import { StaticError } from '@static/protocol'
import type { DeskListener, ProofDesk } from '../../proofs/desk.ts'
import { audienceOf, makeProof, type ProofContext, SALT_BYTES } from '../../proofs/proof.ts'
import type { Root } from '../../proofs/roots.ts'
import { openChecker, unrefTimer } from './open-checker.ts'
import type { Proxy } from './proxy.ts'
import { callbackSource, fileSource, githubActionsSource, type ProofSource, statementSource } from './sources.ts'
import { StatementWatch } from './statement-watch.ts'
import { heldStatements } from './statements-file.ts'

/** Where the proof of a client comes from, besides the statements in its directory. */
export type ProofOption =
  | 'github-actions'
  | { readonly file: string }
  | ((audience: string) => string | Promise<string>)

export interface ProofSettings {
  /** The directories of the trust list, of the keys of domains, and of the agent. */
  readonly trust: string
  readonly domains: string
  readonly dataDir: string
  /** The agent's identity, as text. */
  readonly identity: string
  readonly roots: readonly Root[] | undefined
  readonly proof: ProofOption | undefined
  readonly proxy: Proxy | undefined
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** Opens it. */
export function openProofDesk(settings: ProofSettings, sign: Signer, listener: DeskListener): ProofDesk {
  const { trust: directory, identity, roots, proxy } = settings
  const checker = openChecker({ directory, identity, roots, proxy, failed: (error) => listener.failed(error) }, () =>
    listener.changed(),
  )
  // Proofs that come before the first keys are checked again once they are there. A failure was told.
  checker.start().catch(() => {})
  const watch = new StatementWatch(settings, {
    now: Date.now,
    later: unrefTimer,
    ending: ({ domain, expiresAt }) => listener.ending({ domain, until: new Date(expiresAt * MS) }),
  })
  watch.start()
  return {
    check: (proof, context, unknownSince) => checker.check(proof, context, unknownSince),
    standing: (checked) => checker.standing(checked),
    stop: () => {
      checker.stop()
      watch.stop()
    },
    make: async (show, context) => {
      const source = sourceOf(settings, show)
      const proof = await made(source, context, sign)
      const verdict = await checker.check(proof, context)
      // A token that was minted for somebody else must never leave.
      if (verdict.state === 'invalid' || verdict.state === 'lapsed') {
        const text = `The proof from ${source.name} cannot be shown: ${verdict.reason}.`
        throw StaticError.of('invalid_request', text)
      }
      return proof
    },
  }
}

async function made(source: ProofSource, context: ProofContext, sign: Signer): Promise<Uint8Array> {
  const salt = randomBytes(SALT_BYTES)
  const { kind, jwt } = await source.mint(audienceOf(context, salt))
  const proof = makeProof({ kind, salt, jwt }, context, sign)
  if (proof) return proof
  throw StaticError.of('invalid_request', `What ${source.name} gives is not a JWT that fits into a proof.`)
}

/** The source of the issuer that is named; without a name, that of the client's option or the only statement. */
function sourceOf({ proof, dataDir, domains, environment }: ProofSettings, show: string): ProofSource {
  const held = heldStatements(dataDir)
  if (show === '' && proof !== undefined) {
    if (proof === 'github-actions') return githubActionsSource(environment)
    return typeof proof === 'function' ? callbackSource(proof) : fileSource(proof.file)
  }
  if (show === GITHUB_ACTIONS) return githubActionsSource(environment)
  const [only, ...others] = show === '' ? held : held.filter(({ domain }) => domain === show)
  if (only && others.length === 0) return statementSource(dataDir, only.domain, domains)
  const known = held.map(({ domain }) => domain).join(', ')
  const has = known === '' ? 'It has none' : `It has those of ${known}`
  const what = show === '' ? 'Name the issuer whose proof this agent shows' : `This agent has no statement of ${show}`
  throw StaticError.of(
    'invalid_request',
    `${what}. ${has}, in ${join(dataDir, 'statements.json')}; \`static agent add-proof FILE\` adds one.`,
  )
}

const MS = 1000
const GITHUB_ACTIONS = 'github-actions'
