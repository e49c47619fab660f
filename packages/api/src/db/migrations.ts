/** The migrations of both engines. Never edit a released migration or the functions it calls: add a new one. */
import { type Kysely, PostgresAdapter, sql } from 'kysely'
import type { Migration } from 'kysely/migration'
import { checksum, type Value } from '@static/node/checksum'
import { RATE_WINDOWS } from './rate-windows.ts'

export const MIGRATIONS: Record<string, Migration> = {
  '0001_start': {
    async up(db: Kysely<unknown>): Promise<void> {
      await accountTables(db)
      await operatorTables(db)
      await signingKeyTable(db)
      await usageTables(db)
      await idempotencyTable(db)
      await rateWindowTable(db)
    },
  },
  '0002_checksums': {
    async up(db: Kysely<unknown>): Promise<void> {
      for (const [table, { key, covered }] of Object.entries(CHECKSUMS_2)) await addChecksums(db, table, key, covered)
    },
  },
  '0003_devices': {
    async up(db: Kysely<unknown>): Promise<void> {
      await deviceTable(db)
    },
  },
  '0004_channel_deletions': {
    async up(db: Kysely<unknown>): Promise<void> {
      await deletionTable(db)
      await db.schema.alterTable('audit').addColumn('channel', 'text').execute()
    },
  },
}

/** The primary key of each table, and the columns that its checksum covers. */
const CHECKSUMS_2: Readonly<Record<string, { readonly key: readonly string[]; readonly covered: readonly string[] }>> =
  {
    accounts: { key: ['id'], covered: ['id', 'email_key', 'password_hash', 'plan', 'status'] },
    api_keys: { key: ['id'], covered: ['id', 'account_id', 'prefix', 'mode', 'hash', 'revoked_at'] },
    sessions: { key: ['id_hash'], covered: ['id', 'id_hash', 'account_id', 'expires_at'] },
    links: { key: ['selector'], covered: ['selector', 'secret_hash', 'account_id', 'expires_at'] },
    signing_keys: { key: ['generation'], covered: ['generation', 'kid', 'sealed', 'active_from'] },
    usage_periods: {
      key: ['account_id', 'mode', 'period'],
      covered: ['account_id', 'mode', 'period', 'used', 'reserved'],
    },
    leases: {
      key: ['id'],
      covered: ['id', 'account_id', 'mode', 'period', 'amount', 'spent', 'state', 'expires_at', 'by_key'],
    },
    idempotency: { key: ['scope', 'key'], covered: ['scope', 'key', 'fingerprint', 'resource_id', 'created_at'] },
  }

/** Adds a checksum to each row. */
async function addChecksums(
  db: Kysely<unknown>,
  table: string,
  key: readonly string[],
  covered: readonly string[],
): Promise<void> {
  // SQLite cannot add a column without a default; no row ever keeps it.
  await db.schema
    .alterTable(table)
    .addColumn('checksum', 'bigint', (c) => c.notNull().defaultTo(-1))
    .execute()
  const columns = sql.join(covered.map((name) => sql.ref(name)))
  const { rows } = await sql<Record<string, Value>>`select ${columns} from ${sql.table(table)}`.execute(db)
  for (const row of rows) {
    const sum = checksum(covered.map((name) => row[name] ?? null))
    const own = key.map((name) => sql`${sql.ref(name)} = ${row[name]}`)
    await sql`update ${sql.table(table)} set checksum = ${sum} where ${sql.join(own, sql` and `)}`.execute(db)
  }
}

/** Accounts, their keys and their sessions. */
async function accountTables(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('accounts')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('email', 'text', (c) => c.notNull())
    .addColumn('email_key', 'text', (c) => c.unique())
    .addColumn('name', 'text')
    .addColumn('password_hash', 'text', (c) => c.notNull())
    .addColumn('plan', 'text', (c) => c.notNull())
    .addColumn('status', 'text', (c) => c.notNull())
    .addColumn('created_at', 'bigint', (c) => c.notNull())
    .addColumn('revision', 'bigint', (c) => c.notNull())
    .execute()
  await db.schema
    .createTable('api_keys')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('account_id', 'text', (c) => c.notNull().references('accounts.id'))
    .addColumn('prefix', 'text', (c) => c.notNull().unique())
    .addColumn('name', 'text', (c) => c.notNull())
    .addColumn('mode', 'text', (c) => c.notNull())
    .addColumn('hash', 'text', (c) => c.notNull())
    .addColumn('created_at', 'bigint', (c) => c.notNull())
    .addColumn('last_used_at', 'bigint')
    .addColumn('revoked_at', 'bigint')
    .addColumn('exchanges', 'bigint', (c) => c.notNull())
    .addColumn('messages', 'bigint', (c) => c.notNull())
    .addColumn('counted_period', 'bigint', (c) => c.notNull())
    .execute()
  await db.schema.createIndex('api_keys_account').on('api_keys').columns(['account_id', 'created_at', 'id']).execute()
  await db.schema
    .createTable('sessions')
    .addColumn('id', 'text', (c) => c.notNull().unique())
    .addColumn('id_hash', 'text', (c) => c.primaryKey())
    .addColumn('account_id', 'text', (c) => c.notNull().references('accounts.id'))
    .addColumn('created_at', 'bigint', (c) => c.notNull())
    .addColumn('seen_at', 'bigint', (c) => c.notNull())
    .addColumn('expires_at', 'bigint', (c) => c.notNull())
    .addColumn('client', 'text')
    .addColumn('address', 'text')
    .execute()
  await db.schema.createIndex('sessions_account').on('sessions').column('account_id').execute()
  await db.schema.createIndex('sessions_expiry').on('sessions').column('expires_at').execute()
}

/** Browsers in which someone has signed in. */
async function deviceTable(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('devices')
    .addColumn('id_hash', 'text', (c) => c.primaryKey())
    .addColumn('account_id', 'text', (c) => c.notNull().references('accounts.id'))
    .addColumn('expires_at', 'bigint', (c) => c.notNull())
    .addColumn('checksum', 'bigint', (c) => c.notNull())
    .execute()
  await db.schema.createIndex('devices_account').on('devices').columns(['account_id', 'expires_at']).execute()
  await db.schema.createIndex('devices_expiry').on('devices').column('expires_at').execute()
}

/** Requests to relays to delete channels. */
async function deletionTable(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('channel_deletions')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('account_id', 'text', (c) => c.notNull().references('accounts.id'))
    .addColumn('mode', 'text', (c) => c.notNull())
    .addColumn('name', 'text', (c) => c.notNull())
    .addColumn('channel_id', 'text')
    .addColumn('expires_at', 'bigint', (c) => c.notNull())
    .addColumn('missing_at', 'text', (c) => c.notNull())
    .addColumn('checksum', 'bigint', (c) => c.notNull())
    .addUniqueConstraint('channel_deletions_name', ['account_id', 'mode', 'name'])
    .execute()
  await db.schema.createIndex('channel_deletions_expiry').on('channel_deletions').column('expires_at').execute()
}

/** One-time links, the audit log, and facts about the deployment. */
async function operatorTables(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('links')
    .addColumn('selector', 'text', (c) => c.primaryKey())
    .addColumn('secret_hash', 'text', (c) => c.notNull())
    .addColumn('account_id', 'text', (c) => c.references('accounts.id'))
    .addColumn('created_at', 'bigint', (c) => c.notNull())
    .addColumn('expires_at', 'bigint', (c) => c.notNull())
    .execute()
  await db.schema.createIndex('links_account').on('links').column('account_id').execute()
  await db.schema
    .createTable('audit')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('account_id', 'text', (c) => c.references('accounts.id'))
    .addColumn('at', 'bigint', (c) => c.notNull())
    .addColumn('last_at', 'bigint', (c) => c.notNull())
    .addColumn('count', 'bigint', (c) => c.notNull())
    .addColumn('actor', 'text', (c) => c.notNull())
    .addColumn('event', 'text', (c) => c.notNull())
    .addColumn('key_id', 'text')
    .addColumn('invite_id', 'text')
    .addColumn('plan', 'text')
    .addColumn('address', 'text')
    .execute()
  await db.schema.createIndex('audit_account').on('audit').columns(['account_id', 'event', 'id']).execute()
  await db.schema.createIndex('audit_age').on('audit').column('last_at').execute()
  await db.schema
    .createTable('deployment')
    .addColumn('name', 'text', (c) => c.primaryKey())
    .addColumn('value', 'text', (c) => c.notNull())
    .execute()
}

/** Sealed signing keys. */
async function signingKeyTable(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('signing_keys')
    .addColumn('generation', 'bigint', (c) => c.primaryKey())
    .addColumn('kid', 'text', (c) => c.notNull().unique())
    .addColumn('sealed', 'text', (c) => c.notNull())
    .addColumn('created_at', 'bigint', (c) => c.notNull())
    .addColumn('active_from', 'bigint', (c) => c.notNull())
    .execute()
}

/** Message counters, and the leases that relays hold. */
async function usageTables(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('usage_periods')
    .addColumn('account_id', 'text', (c) => c.notNull().references('accounts.id'))
    .addColumn('mode', 'text', (c) => c.notNull())
    .addColumn('period', 'bigint', (c) => c.notNull())
    .addColumn('used', 'bigint', (c) => c.notNull())
    .addColumn('reserved', 'bigint', (c) => c.notNull())
    .addColumn('token_exchanges', 'bigint', (c) => c.notNull())
    .addPrimaryKeyConstraint('usage_periods_key', ['account_id', 'mode', 'period'])
    .execute()
  await db.schema
    .createTable('usage_days')
    .addColumn('account_id', 'text', (c) => c.notNull().references('accounts.id'))
    .addColumn('mode', 'text', (c) => c.notNull())
    .addColumn('day', 'text', (c) => c.notNull())
    .addColumn('messages', 'bigint', (c) => c.notNull())
    .addPrimaryKeyConstraint('usage_days_key', ['account_id', 'mode', 'day'])
    .execute()
  await db.schema
    .createTable('leases')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('account_id', 'text', (c) => c.notNull().references('accounts.id'))
    .addColumn('mode', 'text', (c) => c.notNull())
    .addColumn('period', 'bigint', (c) => c.notNull())
    .addColumn('amount', 'bigint', (c) => c.notNull())
    .addColumn('spent', 'bigint', (c) => c.notNull())
    .addColumn('state', 'text', (c) => c.notNull())
    .addColumn('expires_at', 'bigint', (c) => c.notNull())
    .addColumn('by_key', 'text', (c) => c.notNull())
    .execute()
  await db.schema
    .createIndex('leases_meter')
    .on('leases')
    .columns(['account_id', 'mode', 'period', 'state', 'expires_at'])
    .execute()
  await db.schema.createIndex('leases_expiry').on('leases').column('expires_at').execute()
}

/** Idempotency-Keys. */
async function idempotencyTable(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('idempotency')
    .addColumn('scope', 'text', (c) => c.notNull())
    .addColumn('key', 'text', (c) => c.notNull())
    .addColumn('fingerprint', 'text', (c) => c.notNull())
    .addColumn('resource_id', 'text', (c) => c.notNull())
    .addColumn('created_at', 'bigint', (c) => c.notNull())
    .addPrimaryKeyConstraint('idempotency_key', ['scope', 'key'])
    .execute()
  await db.schema.createIndex('idempotency_age').on('idempotency').column('created_at').execute()
}

/** Windows of rate limits; SQLite keeps them in memory. */
async function rateWindowTable(db: Kysely<unknown>): Promise<void> {
  if (!(db.getExecutor().adapter instanceof PostgresAdapter)) return
  const statements = RATE_WINDOWS.replace('create table', 'create unlogged table').split(';')
  for (const statement of statements) await sql.raw(statement).execute(db)
}
