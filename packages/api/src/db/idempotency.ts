/** Idempotency-Keys in the database, with the resources that they created. */
import type { Transaction } from 'kysely'
import type { IdempotencyClaim, IdempotencyStore } from '../ports.ts'
import { intact, sealed } from './checksums.ts'
import type { Db, Schema } from './schema.ts'
import { rollBack } from './transaction.ts'

/** How long a repeated request is recognized, in milliseconds. */
export const IDEMPOTENCY_LIFE: number = 24 * 3600_000

export function idempotencyStore(db: Db): IdempotencyStore {
  return {
    async find(scope, key, now) {
      const row = await db
        .selectFrom('idempotency')
        .selectAll()
        .where('scope', '=', scope)
        .where('key', '=', key)
        .where('created_at', '>', now - IDEMPOTENCY_LIFE)
        .executeTakeFirst()
      if (!row) return undefined
      const { fingerprint, resource_id: resourceId } = intact('idempotency', row)
      return { fingerprint, resourceId }
    },
  }
}

/** Claims an Idempotency-Key in the transaction that creates the resource; rolls back if the key is in use. */
export async function claim(
  tx: Transaction<Schema>,
  wanted: IdempotencyClaim | undefined,
  resourceId: string,
): Promise<void> {
  if (!wanted) return
  const { scope, key, fingerprint, now } = wanted
  await tx
    .deleteFrom('idempotency')
    .where('scope', '=', scope)
    .where('key', '=', key)
    .where('created_at', '<=', now - IDEMPOTENCY_LIFE)
    .execute()
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('idempotency')
    .values(sealed('idempotency', { scope, key, fingerprint, resource_id: resourceId, created_at: now }))
    .onConflict((c) => c.doNothing())
    .executeTakeFirst()
  if (numInsertedOrUpdatedRows === 0n) rollBack('claimed')
}
