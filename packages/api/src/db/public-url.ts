/** The public address of the API, in the database: `static admin` reads it for the links that it prints. */
import type { Store } from '../ports.ts'
import type { Db } from './schema.ts'

const NAME = 'public_url'

export function publicUrlStore(db: Db): Store['publicUrl'] {
  return {
    async read() {
      const row = await db.selectFrom('deployment').select('value').where('name', '=', NAME).executeTakeFirst()
      return row?.value
    },
    async write(url) {
      await db
        .insertInto('deployment')
        .values({ name: NAME, value: url })
        .onConflict((c) => c.column('name').doUpdateSet({ value: url }))
        .execute()
    },
  }
}
