/** Checks the trust list, and the statements that agents of this machine hold. */
import { StaticError } from '@static/protocol'
import type { UserPlaces } from '@static/sdk/account'
import { DomainStore, heldStatements, TrustStore, usableKeys, WARNING_MS } from '@static/sdk/trust'
import { agentsIn } from '../agent/identity.ts'
import { shortTime } from '../terminal/output.ts'
import { type Finding, fix, ok } from './finding.ts'

/** By how much a clock may have been corrected. */
const MOST_SKEW_MS = 60_000

export function checkTrust({ trust }: Pick<UserPlaces, 'trust'>, now: number): Finding {
  const store = new TrustStore(trust)
  try {
    const roots = store.list().map(({ root }) => ({ root, state: store.load(root) }))
    if (roots.length === 0) return ok('trust', 'no issuer of proofs is trusted')
    for (const { root, state } of roots) {
      if (state.waiting !== undefined) {
        return fix(
          'trust',
          `${root.text} has replaced all of its keys at once. Ask it, then run \`static trust accept-keys ${root.text}\`.`,
        )
      }
      if (state.seenAt > now + MOST_SKEW_MS) {
        return fix(
          'trust',
          `The clock of this machine was later before: proofs of ${root.text} lapse. Set the clock; if it was wrong then, remove the root and add it again.`,
        )
      }
      const keys = usableKeys(state, now)
      if (typeof keys === 'string')
        return fix('trust', `${root.text}: ${keys}. \`static trust add ${root.text}\` fetches them.`)
    }
    return ok('trust', `${roots.map(({ root }) => root.text).join(', ')}: keys are current`)
  } catch (error) {
    return fix('trust', StaticError.from(error).message)
  }
}

/** A statement whose domain has its key on this machine is renewed by its agent. */
export function checkStatements({ agents, domains }: Pick<UserPlaces, 'agents' | 'domains'>, now: number): Finding {
  const faults: string[] = []
  let count = 0
  for (const { identity, directory } of agentsIn(agents)) {
    const agent = identity ?? directory
    try {
      for (const { domain, expiresAt } of heldStatements(directory)) {
        count++
        const left = expiresAt * 1000 - now
        if (left > WARNING_MS || (left > 0 && new DomainStore(domains, domain).hasKey)) continue
        const when = shortTime(new Date(expiresAt * 1000).toISOString())
        const ends = left > 0 ? 'ends' : 'ended'
        faults.push(
          `The statement of ${domain} about ${agent} ${ends} on ${when}. Have it signed again: \`static domain sign\` where the key of ${domain} is.`,
        )
      }
    } catch (error) {
      faults.push(StaticError.from(error).message)
    }
  }
  const [first] = faults
  if (first === undefined)
    return ok('statements', count === 0 ? 'no agent has one' : `${count}, none needs to be signed again`)
  return fix('statements', faults.length === 1 ? first : `${first} (and ${faults.length - 1} more)`)
}
