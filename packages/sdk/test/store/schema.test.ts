/** The tables that the descriptions give are those of this version: whoever changes them changes the version. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { createSchema } from '../../src/store/schema.ts'
import { openDatabase } from '../../src/store/sqlite.ts'

/** Statement by statement, without comments, in any layout and order. */
function statements(sql: string): string[] {
  return sql
    .replaceAll(/--.*$/gm, '')
    .split(';')
    .map((statement) => statement.replaceAll(/\s+/g, ' ').replaceAll('( ', '(').replaceAll(' )', ')').trim())
    .filter((statement) => statement.startsWith('CREATE'))
    .sort()
}

test('the tables are those of version 11, column by column', () => {
  const database = openDatabase(':memory:')
  createSchema(database)
  const made = database.prepare<string>('SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL').pluck().all()
  const expected = readFileSync(new URL('schema-11.sql', import.meta.url), 'utf8')
  assert.deepEqual(statements(made.join(';')), statements(expected))
  assert.equal(database.pragma('user_version', { simple: true }), 11)
  database.close()
})
