/** Sealed signing keys in the database. */
import type { SigningKeyStore } from '../ports.ts'
import type { Db } from './schema.ts'

export function signingKeyStore(db: Db): SigningKeyStore {
  return {
    all: () =>
      db
        .selectFrom('signing_keys')
        .select(['generation', 'kid', 'sealed', 'created_at as createdAt', 'active_from as activeFrom'])
        .orderBy('generation')
        .execute(),

    async add(key) {
      const { numInsertedOrUpdatedRows } = await db
        .insertInto('signing_keys')
        .values({
          generation: key.generation,
          kid: key.kid,
          sealed: key.sealed,
          created_at: key.createdAt,
          active_from: key.activeFrom,
        })
        .onConflict((c) => c.column('generation').doNothing())
        .executeTakeFirst()
      return numInsertedOrUpdatedRows === 1n
    },

    async removeBefore(generation) {
      await db.deleteFrom('signing_keys').where('generation', '<', generation).execute()
    },
  }
}
