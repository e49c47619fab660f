/** Sealed signing keys in the database. */
import type { SigningKeyStore } from '../ports.ts'
import { type DamageReport, intactOf, sealed } from './checksums.ts'
import type { Db } from './schema.ts'

export function signingKeyStore(db: Db, report: DamageReport): SigningKeyStore {
  return {
    async all() {
      const rows = await db.selectFrom('signing_keys').selectAll().orderBy('generation').execute()
      return intactOf('signing_keys', rows, report).map((row) => ({
        generation: row.generation,
        kid: row.kid,
        sealed: row.sealed,
        createdAt: row.created_at,
        activeFrom: row.active_from,
      }))
    },

    async add(key) {
      const { numInsertedOrUpdatedRows } = await db
        .insertInto('signing_keys')
        .values(
          sealed('signing_keys', {
            generation: key.generation,
            kid: key.kid,
            sealed: key.sealed,
            created_at: key.createdAt,
            active_from: key.activeFrom,
          }),
        )
        .onConflict((c) => c.column('generation').doNothing())
        .executeTakeFirst()
      return numInsertedOrUpdatedRows === 1n
    },

    async removeBefore(generation) {
      await db.deleteFrom('signing_keys').where('generation', '<', generation).execute()
    },
  }
}
