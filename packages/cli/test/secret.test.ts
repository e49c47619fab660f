/** Secrets in variables, and in files that variables name. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, test } from 'node:test'
import { databaseOf, relayDatabaseOf } from '../src/server/database.ts'
import { secretOf } from '../src/server/secret.ts'

const URL_TEXT = 'postgres://static_api:password@db.example.com/static_api'
const directory = mkdtempSync(join(tmpdir(), 'static-secret-'))
const file = join(directory, 'database.url')

afterEach(() => {
  for (const name of Object.keys(process.env)) {
    if (/^STATIC_(RELAY_)?(DATABASE|NATS)/.test(name)) delete process.env[name]
  }
})
after(() => rmSync(directory, { recursive: true, force: true }))

test('a secret is in a variable, or in the file that a variable names', () => {
  assert.equal(secretOf('STATIC_DATABASE'), undefined)
  process.env['STATIC_DATABASE'] = ''
  assert.equal(secretOf('STATIC_DATABASE'), undefined)
  process.env['STATIC_DATABASE'] = URL_TEXT
  assert.equal(databaseOf(undefined), URL_TEXT)
  assert.equal(databaseOf('other.sqlite'), 'other.sqlite')
  writeFileSync(file, `${URL_TEXT}\n`)
  process.env['STATIC_RELAY_DATABASE_FILE'] = file
  assert.equal(relayDatabaseOf(undefined), URL_TEXT)
})

test('a file that cannot be used is named, and none of it is printed', () => {
  process.env['STATIC_NATS_FILE'] = join(directory, 'missing')
  assert.throws(() => secretOf('STATIC_NATS'), {
    code: 'invalid_request',
    message: /missing, which STATIC_NATS_FILE names, cannot be read \(ENOENT\)/,
  })
  process.env['STATIC_NATS_FILE'] = file
  for (const [text, problem] of [
    ['\n', /is empty/],
    ['x'.repeat(70_000), /has more than 65536 characters/],
  ] as const) {
    writeFileSync(file, text)
    assert.throws(
      () => secretOf('STATIC_NATS'),
      (error: Error) => problem.test(error.message) && !error.message.includes('xx'),
    )
  }
  process.env['STATIC_NATS'] = 'nats://localhost'
  assert.throws(() => secretOf('STATIC_NATS'), { message: /STATIC_NATS and STATIC_NATS_FILE are both set/ })
})
