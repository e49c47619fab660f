/** Accounts in the database. */
import { type Selectable, sql, type Transaction } from 'kysely'
import type { AccountStatus } from '@static/protocol'
import type { AccountQuery, AccountRecord, AccountStore, AuditEntry } from '../ports.ts'
import { record } from './audit.ts'
import { type DamageReport, intact, intactOf, sealed } from './checksums.ts'
import { removeDevices } from './devices.ts'
import { claim } from './idempotency.ts'
import { keyValues, revokeAll } from './keys.ts'
import { removeLinks, takeLink } from './links.ts'
import { changeAccount, lockAccount, lockAccountAsIs } from './lock-account.ts'
import type { Db, Schema } from './schema.ts'
import { rollBack, rollingBack } from './transaction.ts'

export function accountStore(db: Db, report: DamageReport): AccountStore {
  return {
    create: (account, { key, claim: wanted, invite, entries }) =>
      rollingBack(db, async (tx) => {
        await claim(tx, wanted, account.id)
        if (!(await insert(tx, account))) rollBack('email_taken')
        if (invite && !(await takeLink(tx, invite, account.createdAt))) rollBack('invite_invalid')
        if (key) await tx.insertInto('api_keys').values(keyValues(key)).execute()
        await record(tx, entries)
        return 'created'
      }),

    async byId(id) {
      const row = await db.selectFrom('accounts').selectAll().where('id', '=', id).executeTakeFirst()
      return row && fromRow(row)
    },

    async byEmail(email) {
      const row = await db
        .selectFrom('accounts')
        .selectAll()
        .where('email_key', '=', emailKey(email))
        .executeTakeFirst()
      return row && fromRow(row)
    },

    async statuses(ids) {
      const rows = await db
        .selectFrom('accounts')
        .select(['id', 'email_key', 'password_hash', 'plan', 'status', 'checksum'])
        .where('id', 'in', padded(ids))
        .execute()
      // One damaged account must not fail the others.
      const statuses = new Map<string, AccountStatus>(rows.map(({ id }) => [id, 'suspended']))
      for (const { id, status } of intactOf('accounts', rows, report)) statuses.set(id, status)
      return statuses
    },

    list: (query) => list(db, query),

    setPassword: (id, oldHash, newHash, entry) =>
      db.transaction().execute(async (tx) => {
        const row = await lockAccount(tx, id)
        if (row?.password_hash !== oldHash) return false
        await changeAccount(tx, row, { password_hash: newHash })
        await tx.deleteFrom('sessions').where('account_id', '=', id).execute()
        await removeDevices(tx, id)
        await removeLinks(tx, id)
        await record(tx, [entry])
        return true
      }),

    close: (id, oldHash, entry) => db.transaction().execute((tx) => close(tx, id, oldHash, entry)),

    change: (id, change, entry) =>
      db.transaction().execute(async (tx) => {
        const row = await lockAccount(tx, id)
        if (row === undefined || row.status === 'closed') return false
        await changeAccount(tx, row, change)
        await record(tx, [entry])
        return true
      }),
  }
}

/** Pads a list of ids, so that lists of all lengths share a few prepared statements. */
function padded(ids: readonly string[]): string[] {
  const length = ids.length <= 16 ? 16 : Math.ceil(ids.length / 256) * 256
  return [...ids, ...Array<string>(length - ids.length).fill('')]
}

/** False if another account has the e-mail address. */
async function insert(tx: Transaction<Schema>, account: AccountRecord): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('accounts')
    .values(
      sealed('accounts', {
        id: account.id,
        email: account.email,
        email_key: emailKey(account.email),
        name: account.name,
        password_hash: account.passwordHash,
        plan: account.plan,
        status: account.status,
        created_at: account.createdAt,
        revision: 0,
      }),
    )
    .onConflict((c) => c.column('email_key').doNothing())
    .executeTakeFirst()
  return numInsertedOrUpdatedRows !== 0n
}

async function list(db: Db, { text, status, after, limit }: AccountQuery): Promise<AccountRecord[]> {
  let query = db.selectFrom('accounts').selectAll().orderBy('id').limit(limit)
  if (status !== undefined) query = query.where('status', '=', status)
  if (after !== undefined) query = query.where('id', '>', after)
  if (text !== undefined) {
    const part = `%${emailKey(text).replaceAll(/[\\%_]/g, '\\$&')}%`
    query = query.where((q) =>
      q.or([
        q('id', '=', text),
        sql<boolean>`email_key like ${part} escape '\\'`,
        sql<boolean>`lower(name) like ${part} escape '\\'`,
      ]),
    )
  }
  return (await query.execute()).map(fromRow)
}

/** Works even on a damaged account, because none of its data is kept. */
async function close(
  tx: Transaction<Schema>,
  id: string,
  oldHash: string | undefined,
  entry: AuditEntry,
): Promise<boolean> {
  const row = oldHash === undefined ? await lockAccountAsIs(tx, id) : await lockAccount(tx, id)
  if (row === undefined || row.status === 'closed') return false
  if (oldHash !== undefined && row.password_hash !== oldHash) return false
  await changeAccount(tx, row, { status: 'closed', email: '', email_key: null, name: null, password_hash: '' })
  await revokeAll(tx, id, entry.at)
  await tx.deleteFrom('sessions').where('account_id', '=', id).execute()
  await removeDevices(tx, id)
  await removeLinks(tx, id)
  await record(tx, [entry])
  // Addresses are personal data as well.
  await tx.updateTable('audit').set({ address: null }).where('account_id', '=', id).execute()
  return true
}

/** Addresses that differ only in case belong to one account. */
function emailKey(email: string): string {
  return email.normalize('NFC').toLowerCase()
}

function fromRow(found: Selectable<Schema['accounts']>): AccountRecord {
  const row = intact('accounts', found)
  return {
    id: row.id,
    email: row.email,
    name: row.name,
    passwordHash: row.password_hash,
    plan: row.plan,
    status: row.status,
    createdAt: row.created_at,
  }
}
