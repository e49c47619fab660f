/** Changes a bit of a stored value behind the API's back, and puts it back. */
import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import pg from 'pg'
import type { Below } from '@static/testkit/random'

type Row = Readonly<Record<string, unknown>>

/** A database as the disk sees it: no foreign keys, no checks. */
export interface RawDatabase {
  rows(table: string): Promise<Row[]>
  /** Sets a column of the row with this checksum. */
  set(table: string, checksum: unknown, column: string, value: unknown): Promise<void>
  close(): Promise<void>
}

export async function openRaw(database: string): Promise<RawDatabase> {
  if (!database.startsWith('postgres')) return openFile(database)
  const client = new pg.Client({ connectionString: database })
  await client.connect()
  await client.query('set session_replication_role = replica')
  return {
    rows: async (table) => (await client.query<Row>(`select * from ${table}`)).rows.map(withNumbers),
    async set(table, checksum, column, value) {
      await client.query(`update ${table} set ${column} = $1 where checksum = $2`, [value, checksum])
    },
    close: () => client.end(),
  }
}

function openFile(path: string): RawDatabase {
  const db = new DatabaseSync(path, { enableForeignKeyConstraints: false, timeout: 5_000 })
  return {
    async rows(table) {
      const statement = db.prepare(`select * from ${table}`)
      statement.setReadBigInts(true)
      return statement.all()
    },
    async set(table, checksum, column, value) {
      const statement = db.prepare(`update ${table} set ${column} = ? where checksum = ?`)
      statement.run(value as SQLInputValue, checksum as SQLInputValue)
    },
    close: async () => db.close(),
  }
}

/** The driver returns 64-bit numbers as text. */
function withNumbers(row: Row): Row {
  const entries = Object.entries(row).map(([name, value]) => {
    const isNumber = typeof value === 'string' && NUMBERS.has(name)
    return [name, isNumber ? BigInt(value) : value]
  })
  return Object.fromEntries(entries) as Row
}

const NUMBERS = new Set(
  `checksum revoked_at expires_at generation active_from period used reserved amount spent created_at`.split(' '),
)

/** The value with one bit changed; null, which has none, becomes something, and now and then the other way round. */
export function flipped(value: unknown, isNullable: boolean, below: Below): unknown {
  if (value === null) return below(2) === 0 ? 0 : 1_700_000_000_000
  if (isNullable && below(4) === 0) return null
  if (typeof value === 'bigint') return value ^ (1n << BigInt(below(62)))
  const bytes = Buffer.from(value as string)
  for (;;) {
    const changed = Buffer.from(bytes)
    const at = below(bytes.length)
    changed[at]! ^= 1 << below(7)
    // Text without NUL and of ASCII stays text in both engines.
    if (changed[at] !== 0) return changed.toString()
  }
}
