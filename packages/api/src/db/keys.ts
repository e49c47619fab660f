/** API keys in the database: Argon2id hashes and the public part of a key, never the key. */
import type { Insertable, Selectable, Transaction } from 'kysely'
import { type AccountStatus, type Mode, MODES, type Plan } from '@static/protocol'
import type { Credential, KeyRecord, KeyStore, ListedKeyRecord, VerifiableKey } from '../ports.ts'
import { record } from './audit.ts'
import { intact, sealed } from './checksums.ts'
import type { Engine } from './engine.ts'
import { claim } from './idempotency.ts'
import { lockAccount, lockAccountAsIs } from './lock-account.ts'
import type { Schema } from './schema.ts'
import { rollBack, rollingBack } from './transaction.ts'

export function keyStore(engine: Engine): KeyStore {
  const { db } = engine
  const byPrefix = engine.prepare(
    db
      .selectFrom('api_keys as k')
      // A key without an account is damaged.
      .leftJoin('accounts as a', 'a.id', 'k.account_id')
      .select(['k.id', 'k.account_id', 'k.prefix', 'k.mode', 'k.hash', 'k.last_used_at', 'k.revoked_at', 'k.checksum'])
      .select(['a.email_key', 'a.password_hash', 'a.plan', 'a.status', 'a.checksum as account_checksum'])
      .where('k.prefix', '=', ''),
    ([row]: readonly VerifiableRow[]) => row && readVerifiable(row),
  )
  const active = db
    .selectFrom('api_keys')
    .select(['id', 'prefix', 'name', 'mode', 'created_at', 'last_used_at', 'exchanges', 'messages', 'counted_period'])
    .select(['account_id', 'hash', 'revoked_at', 'checksum'])
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
        const account = await lockAccount(tx, key.accountId)
        if (account?.status !== 'active' || !(await holds(tx, key.accountId, credential))) rollBack('refused')
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
        // Locks the account, as `create` does: a concurrent creation is either visible here or refused.
        await lockAccountAsIs(tx, accountId)
        const row = await unrevoked(tx, accountId).where('id', '=', id).where('mode', 'in', modes).executeTakeFirst()
        if (!row) return false
        await revoke(tx, row, now)
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
  prefix: string,
  mode: Mode,
  hash: string,
  lastUsedAt: number | null,
  revokedAt: number | null,
  checksum: number,
  emailKey: string | null,
  passwordHash: string,
  plan: Plan,
  status: AccountStatus,
  accountChecksum: number,
]

function readVerifiable(row: VerifiableRow): VerifiableKey {
  const [id, accountId, prefix, mode, hash, lastUsedAt, revokedAt, checksum, ...account] = row
  intact('api_keys', { id, account_id: accountId, prefix, mode, hash, revoked_at: revokedAt, checksum })
  const [emailKey, passwordHash, plan, status, sum] = account
  const ofAccount = { id: accountId, email_key: emailKey, password_hash: passwordHash, plan, status, checksum: sum }
  intact('accounts', ofAccount)
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
  accountId: string,
  hash: string,
  revokedAt: number | null,
  checksum: number,
]

function readListed(row: ListedRow): ListedKeyRecord {
  const [id, prefix, name, mode, createdAt, lastUsedAt, exchanges, messages, countedPeriod, ...rest] = row
  const [accountId, hash, revokedAt, checksum] = rest
  intact('api_keys', { id, account_id: accountId, prefix, mode, hash, revoked_at: revokedAt, checksum })
  return { id, prefix, name, mode, createdAt, lastUsedAt, exchanges, messages, countedPeriod }
}

/** Whether the caller's credential is still valid; the account's row must be locked. */
async function holds(tx: Transaction<Schema>, accountId: string, credential: Credential): Promise<boolean> {
  switch (credential.by) {
    case 'key': {
      const key = tx.selectFrom('api_keys').selectAll().where('id', '=', credential.id)
      const row = await key.executeTakeFirst()
      return row !== undefined && intact('api_keys', row).revoked_at === null
    }
    case 'session': {
      const session = tx.selectFrom('sessions').selectAll().where('id_hash', '=', credential.idHash)
      const row = await session.executeTakeFirst()
      return row !== undefined && intact('sessions', row).account_id === accountId
    }
    case 'password': {
      const account = tx.selectFrom('accounts').select('id').where('id', '=', accountId)
      return (await account.where('password_hash', '=', credential.hash).executeTakeFirst()) !== undefined
    }
  }
}

type KeyRow = Selectable<Schema['api_keys']>

function unrevoked(tx: Transaction<Schema>, accountId: string) {
  return tx.selectFrom('api_keys').selectAll().where('account_id', '=', accountId).where('revoked_at', 'is', null)
}

/** Works even on a damaged key, because only its revocation matters from now on. */
async function revoke(tx: Transaction<Schema>, row: KeyRow, at: number): Promise<void> {
  const { checksum } = sealed('api_keys', { ...row, revoked_at: at })
  await tx.updateTable('api_keys').set({ revoked_at: at, checksum }).where('id', '=', row.id).execute()
}

/** Revokes every key of an account, whose row must be locked. */
export async function revokeAll(tx: Transaction<Schema>, accountId: string, at: number): Promise<void> {
  for (const row of await unrevoked(tx, accountId).execute()) await revoke(tx, row, at)
}

export function keyValues(key: KeyRecord): Insertable<Schema['api_keys']> {
  return sealed('api_keys', {
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
  })
}
