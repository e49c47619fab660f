/** Opens the API's database, runs the migrations and creates the stores. */
import { Migrator } from 'kysely/migration'
import { isPostgresUrl } from '@static/node/postgres-address'
import type { Store } from '../ports.ts'
import { DEFAULT_SETTINGS } from '../settings.ts'
import { accountStore } from './accounts.ts'
import { auditStore } from './audit.ts'
import type { DamageReport } from './checksums.ts'
import { deletionStore } from './deletions.ts'
import { deviceStore } from './devices.ts'
import type { Engine } from './engine.ts'
import { idempotencyStore, IDEMPOTENCY_LIFE } from './idempotency.ts'
import { keyStore } from './keys.ts'
import { leaseStore } from './leases.ts'
import { linkStore } from './links.ts'
import { MIGRATIONS } from './migrations.ts'
import { publicUrlStore } from './public-url.ts'
import { rateWindowStore } from './rate-windows.ts'
import { verifyRows } from './verify-rows.ts'
import { endExpiredSessions, sessionStore } from './sessions.ts'
import { signingKeyStore } from './signing-keys.ts'
import { openSqlite } from './sqlite.ts'
import { openingError } from './unavailable.ts'
import { usageStore } from './usage.ts'

const DAY = 24 * 3600_000
/** How long a finished lease is kept for late or repeated settlements. */
const LEASE_LIFE = 7 * DAY

/**
 * Opens `postgres://…` or a SQLite file path and migrates it. Throws `unavailable` if the database cannot be reached
 * or trusted, `store_corrupt` if a file is not a database.
 */
export async function openEngine(
  database: string,
  waitSeconds: number = DEFAULT_SETTINGS.databaseWaitSeconds,
): Promise<Engine> {
  const remote = isPostgresUrl(database)
  let engine: Engine
  try {
    // Loaded only when used, because the library is large.
    engine = remote ? (await import('./postgres.ts')).openPostgres(database, waitSeconds) : openSqlite(database)
  } catch (error) {
    throw openingError(error, remote ? 'The database' : database)
  }
  const { db } = engine
  const migrator = new Migrator({ db, provider: { getMigrations: async () => MIGRATIONS } })
  const { error } = await migrator.migrateToLatest()
  if (error !== undefined) {
    await engine.close()
    throw openingError(error, remote ? 'The database' : database)
  }
  return engine
}

export interface StoreOptions {
  /** Receives damaged rows that were left out so that everything else can continue. */
  readonly report?: DamageReport
  /** See `Settings.databaseWaitSeconds`. */
  readonly waitSeconds?: number
}

/** Opens a database and creates the stores. Throws like `openEngine`. */
export async function openStore(database: string, options: StoreOptions = {}): Promise<Store> {
  const { report = () => undefined, waitSeconds } = options
  const engine = await openEngine(database, waitSeconds)
  const { db } = engine
  return {
    accounts: accountStore(db, report),
    keys: keyStore(engine),
    sessions: sessionStore(db),
    devices: deviceStore(db, report),
    usage: usageStore(db),
    leases: leaseStore(db, report),
    signingKeys: signingKeyStore(db, report),
    idempotency: idempotencyStore(db),
    links: linkStore(db),
    audit: auditStore(db),
    deletions: deletionStore(db, report),
    rateWindows: rateWindowStore(engine.rateWindows),
    publicUrl: publicUrlStore(db),
    async prune(now, auditFrom) {
      await endExpiredSessions(db, now)
      await db.deleteFrom('devices').where('expires_at', '<=', now).execute()
      await db.deleteFrom('links').where('expires_at', '<=', now).execute()
      await db.deleteFrom('channel_deletions').where('expires_at', '<=', now).execute()
      await db.deleteFrom('audit').where('last_at', '<', auditFrom).execute()
      await db
        .deleteFrom('idempotency')
        .where('created_at', '<=', now - IDEMPOTENCY_LIFE)
        .execute()
      await db
        .deleteFrom('leases')
        .where('expires_at', '<=', now - LEASE_LIFE)
        .where('state', '!=', 'open')
        .execute()
    },
    verify: () => verifyRows(db, report),
    ping: () => engine.ping(),
    close: () => engine.close(),
  }
}
