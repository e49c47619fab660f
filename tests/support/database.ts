/** Separate databases for each test file, on the engines that the API supports. */
import { randomBytes } from 'node:crypto'
import pg from 'pg'

/** A new PostgreSQL database, dropped after the test. */
export interface Database extends AsyncDisposable {
  readonly url: string
  /** Runs a query as the owner. */
  query<T extends pg.QueryResultRow>(sql: string, values?: readonly unknown[]): Promise<T[]>
}

/** Creates a database in the PostgreSQL server of the test run. */
export async function makeDatabase(): Promise<Database> {
  const admin = process.env['STATIC_TEST_POSTGRES']
  if (admin === undefined) throw new Error('STATIC_TEST_POSTGRES is not set. Run the tests with `npm test`.')
  const name = `e2e_${randomBytes(6).toString('hex')}`
  await once(admin, `create database ${name}`)
  const address = new URL(admin)
  address.pathname = `/${name}`
  return {
    url: address.href,
    query: (sql, values) => once(address.href, sql, values),
    // `force`: PostgreSQL may not have noticed yet that a client was killed.
    [Symbol.asyncDispose]: async () => void (await once(admin, `drop database ${name} with (force)`)),
  }
}

async function once<T extends pg.QueryResultRow>(
  url: string,
  sql: string,
  values: readonly unknown[] = [],
): Promise<T[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query<T>(sql, [...values])).rows
  } finally {
    await client.end()
  }
}
