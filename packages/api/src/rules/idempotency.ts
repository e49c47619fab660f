/** Requests that take effect once, however often they are sent (SPEC.md, "Idempotency"). */
import { createHash } from 'node:crypto'
import { StaticError } from '@static/protocol'
import type { Clock, IdempotencyClaim, IdempotencyStore } from '../ports.ts'
import { invalidField } from './text.ts'

const FORM = /^[\x21-\x7e]{1,255}$/

/** The scope of a sign-up, by its e-mail address, so that a stranger's key can neither block it nor learn about it. */
export function signUpScope(email: string): string {
  return `sign-up ${createHash('sha256').update(email).digest('hex')}`
}

/**
 * Creates the claim for a request. Two requests are the same if their `fields` are. These never include a password,
 * because a fast hash of a password must not exist anywhere.
 */
export function claimFor(
  scope: string,
  key: string | undefined,
  fields: readonly (string | null)[],
  now: number,
): IdempotencyClaim | undefined {
  if (key === undefined) return undefined
  if (!FORM.test(key)) throw invalidField('Idempotency-Key', 'must be 1 to 255 visible ASCII characters')
  return { scope, key, fingerprint: createHash('sha256').update(JSON.stringify(fields)).digest('hex'), now }
}

/** The id that an earlier request with this claim created. Throws `idempotency_mismatch` if that request differed. */
export async function earlier(
  store: IdempotencyStore,
  claim: IdempotencyClaim | undefined,
  now: Clock,
): Promise<string | undefined> {
  const found = claim && (await store.find(claim.scope, claim.key, now()))
  if (!found) return undefined
  if (found.fingerprint !== claim.fingerprint) throw mismatch()
  return found.resourceId
}

/** The error for a repeated request. */
export function alreadyMade(resourceId: string): StaticError {
  const text = `This request has already succeeded and created ${resourceId}. Its secret cannot be shown again.`
  return StaticError.of('idempotency_conflict', text, { resourceId })
}

/** The error for a different request with the same Idempotency-Key. */
export function mismatch(): StaticError {
  return StaticError.of('idempotency_mismatch')
}
