/** Requests that are made once, however often they are sent (SPEC.md, "Idempotency"). */
import { createHash } from 'node:crypto'
import { StaticError } from '@static/protocol'
import type { Clock, IdempotencyClaim, IdempotencyStore } from '../ports.ts'
import { invalidField } from './text.ts'

const FORM = /^[\x21-\x7e]{1,255}$/

/**
 * Makes the claim for a request. `fields` are what makes two requests the same; a password is never
 * among them, because a fast hash of one must exist nowhere.
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

/** The id that an earlier request with this claim made, if any. Throws `idempotency_mismatch` for another request. */
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

/** The answer to a repeat. */
export function alreadyMade(resourceId: string): StaticError {
  return StaticError.of('idempotency_conflict', `This request was already carried out and made ${resourceId}.`, {
    resourceId,
  })
}

/** The answer to another request under the same key. */
export function mismatch(): StaticError {
  return StaticError.of('idempotency_mismatch', 'This Idempotency-Key was used for a different request.')
}
