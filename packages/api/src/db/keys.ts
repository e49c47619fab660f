/** API keys in the database: Argon2id hashes and the public part of a key, never the key. */
import type { Insertable, Transaction } from 'kysely'
import { type AccountStatus, type Mode, MODES, type Plan } from '@static/protocol'
import type { Credential, KeyRecord, KeyStore, ListedKeyRecord, VerifiableKey } from '../ports.ts'
import { record } from './audit.ts'
import type { Engine } from './engine.ts'
import { claim } from './idempotency.ts'
import { lockAccount } from './lock-account.ts'
import type { Schema } from './schema.ts'
import { rollBack, rollingBack } from './transaction.ts'

export function keyStore(engine: Engine): KeyStore {
  const { db } = engine
  const byPrefix = engine.prepare(
    db
      .selectFrom('api_keys as k')
      .innerJoin('accounts as a', 'a.id', 'k.account_id')
      .select(['k.id', 'k.account_id', 'k.mode', 'k.hash', 'k.last_used_at', 'k.revoked_at', 'a.plan', 'a.status'])
      .where('k.prefix', '=', ''),
    ([row]: readonly VerifiableRow[]) => row && readVerifiable(row),
  )
  const active = db
    .selectFrom('api_keys')
    .select(['id', 'prefix', 'name', 'mode', 'created_at', 'last_used_at', 'exchanges', 'messages', 'counted_period'])
    .where('account_id', '=', '')
    .where('revoked_at', 'is', null)
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
  const readAll = (rows: readonly ListedRow[]): ListedKeyRecord[] => rows.map(readListed)
  const list = engine.prepare(active, readAll)
  const listMode = engine.prepare(active.where('mode', '=', 'live'), readAll)
  return {
    create: (key, most, credential, wanted, entry) =>
      rollingBack(db, async (tx) => {
        // Locks the account, so that two concurrent creations cannot exceed the limit.
        const status = await lockAccount(tx, key.accountId)
        if (status !== 'active' || !(await holds(tx, key.accountId, credential))) rollBack('refused')
        await claim(tx, wanted, key.id)
        const { count } = await tx
          .selectFrom('api_keys')
          .select((q) => q.fn.countAll<number>().as('count'))
          .where('account_id', '=', key.accountId)
          .where('revoked_at', 'is', null)
          .executeTakeFirstOrThrow()
        if (count >= most) rollBack('limit')
        await tx.insertInto('api_keys').values(keyValues(key)).execute()
        await record(tx, [entry])
        return 'created'
      }),

    byPrefix: (prefix) => byPrefix(prefix),

    // There are only two modes, so the caller has both or one.
    list: (accountId, modes) =>
      MODES.every((mode) => modes.includes(mode)) ? list(accountId) : listMode(accountId, modes[0] ?? ''),

    revoke: (id, modes, entry) =>
      db.transaction().execute(async (tx) => {
        const { accountId, at: now } = entry
        // Locks the account, as `create` does: a concurrent creation is either visible here, or is refused.
        await lockAccount(tx, accountId)
        const { numUpdatedRows } = await tx
          .updateTable('api_keys')
          .set({ revoked_at: now })
          .where('id', '=', id)
          .where('account_id', '=', accountId)
          .where('mode', 'in', modes)
          .where('revoked_at', 'is', null)
          .executeTakeFirst()
        if (numUpdatedRows === 0n) return false
        await record(tx, [entry])
        return true
      }),

    async touch(uses) {
      if (uses.size === 0) return
      await db.transaction().execute(async (tx) => {
        // Always in the same order: two nodes that flush at once must not deadlock.
        for (const [id, at] of [...uses].sort(([a], [b]) => (a < b ? -1 : 1))) {
          await tx
            .updateTable('api_keys')
            .set({ last_used_at: at })
            .where('id', '=', id)
            .where((q) => q.or([q('last_used_at', 'is', null), q('last_used_at', '<', at)]))
            .execute()
        }
      })
    },
  }
}

/** The columns of `byPrefix`, in the order of its query. */
type VerifiableRow = readonly [
  id: string,
  accountId: string,
  mode: Mode,
  hash: string,
  lastUsedAt: number | null,
  revokedAt: number | null,
  plan: Plan,
  status: AccountStatus,
]

function readVerifiable(row: VerifiableRow): VerifiableKey {
  const [id, accountId, mode, hash, lastUsedAt, revokedAt, plan, status] = row
  return { id, accountId, mode, hash, lastUsedAt, revokedAt, plan, status }
}

/** The columns of `list`, in the order of its query. */
type ListedRow = readonly [
  id: string,
  prefix: string,
  name: string,
  mode: Mode,
  createdAt: number,
  lastUsedAt: number | null,
  exchanges: number,
  messages: number,
  countedPeriod: number,
]

function readListed(row: ListedRow): ListedKeyRecord {
  const [id, prefix, name, mode, createdAt, lastUsedAt, exchanges, messages, countedPeriod] = row
  return { id, prefix, name, mode, createdAt, lastUsedAt, exchanges, messages, countedPeriod }
}

/** Whether the caller's credential is still valid; the account's row must be locked. */
async function holds(tx: Transaction<Schema>, accountId: string, credential: Credential): Promise<boolean> {
  switch (credential.by) {
    case 'key': {
      const key = tx.selectFrom('api_keys').select('id').where('id', '=', credential.id).where('revoked_at', 'is', null)
      return (await key.executeTakeFirst()) !== undefined
    }
    case 'session': {
      const session = tx.selectFrom('sessions').select('id_hash').where('id_hash', '=', credential.idHash)
      return (await session.executeTakeFirst()) !== undefined
    }
    case 'password': {
      const account = tx.selectFrom('accounts').select('id').where('id', '=', accountId)
      return (await account.where('password_hash', '=', credential.hash).executeTakeFirst()) !== undefined
    }
  }
}

export function keyValues(key: KeyRecord): Insertable<Schema['api_keys']> {
  return {
    id: key.id,
    account_id: key.accountId,
    prefix: key.prefix,
    name: key.name,
    mode: key.mode,
    hash: key.hash,
    created_at: key.createdAt,
    last_used_at: key.lastUsedAt,
    revoked_at: null,
    exchanges: 0,
    messages: 0,
    counted_period: 0,
  }
}
