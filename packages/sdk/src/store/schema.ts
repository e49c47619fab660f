/**
 * The schema of the agent's database. Rows that change with every message are small: encrypting and writing a page
 * costs more than changing a row, so the large parts (groups, requests, ciphertexts) have their own tables.
 *
 * All rows of a channel refer to its row and are deleted with it.
 */
import { StaticError } from '@static/protocol'
import type { Database } from './sqlite.ts'
import { columnName, type TableDeclaration } from './rows/table.ts'
import { TABLES } from './tables/all-tables.ts'

const VERSION = 11

/** Tables that hold none of the agent's records. */
const OTHER_TABLES = `
-- On a page without secrets: it is the one that is in the log right after a checkpoint.
CREATE TABLE opens (one INTEGER PRIMARY KEY CHECK (one = 1), value INTEGER NOT NULL) STRICT;
INSERT INTO opens VALUES (1, 0);

-- The size of the ring, and its last record whose changes are here; see ring/replay.ts.
CREATE TABLE ring (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  size INTEGER NOT NULL,
  number INTEGER NOT NULL,
  place INTEGER NOT NULL,
  tag BLOB NOT NULL
) STRICT;

-- Ciphertexts of messages, by number; see bodies.ts.
CREATE TABLE body (number INTEGER PRIMARY KEY, ciphertext BLOB NOT NULL) STRICT;
`

/**
 * Whether the database has its tables. A crash at the first start leaves one without.
 *
 * Throws `invalid_request` if another version of Static created them.
 */
export function hasSchema(database: Database): boolean {
  const found = Number(database.pragma('user_version', { simple: true }))
  if (found === 0 || found === VERSION) return found !== 0
  const [age, advice] =
    found > VERSION
      ? [
          // Numbers were reused before the first release.
          'a newer or unreleased version',
          'Update Static; if this is the newest, delete the agent (`static agent delete`) and create a new one.',
        ]
      : ['a Static version before the first release', 'Delete the agent (`static agent delete`) and create a new one.']
  throw new StaticError(
    'invalid_request',
    `The agent's database has schema ${found}, of ${age}; this one reads schema ${VERSION}. ${advice}`,
  )
}

/** Creates the tables, in the caller's transaction. */
export function createSchema(database: Database): void {
  database.exec(`${TABLES.map(createTable).join('\n')}${OTHER_TABLES} PRAGMA user_version = ${VERSION}`)
}

function createTable(table: TableDeclaration): string {
  const { name, columns, key, parent, rowid, large } = table
  const list = (fields: readonly string[]): string => fields.map((field) => columnName(table, field)).join(', ')
  const lines = Object.keys(columns).map((field) => declareColumn(table, field))
  if (key.length > 1) lines.push(`PRIMARY KEY (${list(key)})`)
  if (parent && parent.by.length > 1) lines.push(`FOREIGN KEY (${list(parent.by)}) ${references(parent.table)}`)
  return `CREATE TABLE ${name} (\n  ${lines.join(',\n  ')}\n) STRICT${rowid || large ? '' : ', WITHOUT ROWID'};\n`
}

/** Single-column keys and references are declared with the column, others after the columns. */
function declareColumn(table: TableDeclaration, field: string): string {
  const { columns, key, parent, body } = table
  const { type, nullable, extra } = columns[field] ?? { type: 'BLOB' }
  const isKey = key.length === 1 && key[0] === field
  const words = [columnName(table, field), field === body?.field ? 'INTEGER' : type]
  if (isKey) words.push('PRIMARY KEY')
  else if (!nullable || field === body?.field) words.push('NOT NULL')
  if (parent?.by.length === 1 && parent.by[0] === field) words.push(references(parent.table))
  if (extra !== undefined) words.push(extra)
  return words.join(' ')
}

function references(table: string): string {
  return `REFERENCES ${table} ON DELETE CASCADE`
}
