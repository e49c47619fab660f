/**
 * The public entry `@static/sdk/trust`: roots, rules and statements, for programs that manage trust without an agent.
 */
// oxlint-disable-next-line import/no-unassigned-import -- checks this Node before anything else runs
import './platform/node/version.ts'

export { type CheckerOptions, openChecker } from './account/trust/open-checker.ts'
export { DomainStore, domainsIn, type RecordedStatement } from './account/trust/domain-store.ts'
export { DOMAIN_PATH, fetchKeys } from './account/trust/fetch-keys.ts'
export { splitAddress } from './account/trust/https-file.ts'
export { type Proxy, proxyOf } from './account/trust/proxy.ts'
export {
  callbackSource,
  fileSource,
  githubActionsSource,
  type ProofSource,
  renewed,
  statementSource,
  WARNING_MS,
} from './account/trust/sources.ts'
export { type HeldStatement, heldStatements, holdStatement } from './account/trust/statements-file.ts'
export { type ListedRoot, TrustStore } from './account/trust/store.ts'
export type { Checker, CheckerPorts } from './proofs/checker.ts'
export { afterAccepting, afterFetch, type Fetched, type KeyState, NO_KEYS, usableKeys } from './proofs/key-state.ts'
export { type KeySet, readKeys, thumbprintOf } from './proofs/keys.ts'
export { domainOf, isPlain } from './proofs/names.ts'
export { audienceOf, makeProof, type ProofContext, type ProofKind, SALT_BYTES } from './proofs/proof.ts'
export { parseRoot, type Root } from './proofs/roots.ts'
export { parseRule, type Rule, ruleText, satisfies } from './proofs/rules.ts'
export { isStatement, MOST_STATEMENT_DAYS, readStatement, STATEMENT_DAYS } from './proofs/statement.ts'
export { isSameSubject, provenName, type Verdict } from './proofs/verdict.ts'
export { parseAgentId } from './public/fingerprint.ts'
