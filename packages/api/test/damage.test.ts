/**
 * Bits flipped in every value that decides something (trust.md, T3): noticed, never served as true, and nothing else
 * fails. `npm run proof -- corruption` flips more of them.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import { randomBelow, SEED } from '@static/testkit/random'
import { Admin, openStore } from '../src/index.ts'
import { type RawDatabase, flipped, openRaw } from './damaged-value.ts'
import { type Answer, assertProblem, type Bench, cookieOf, onEachEngine, startBench } from './support.ts'

const FLIPS = Number(process.env['STATIC_FLIPS'] ?? 1)
const CREDENTIAL = 'the relay credential of this test'
const NULLABLE = ['revoked_at']

/** Rows of a table, and the request that needs them. */
interface Case {
  readonly table: string
  /** Those that the row is found by: once one has changed, the row is not found, and the request is refused. */
  readonly lookups: readonly string[]
  readonly columns: readonly string[]
  readonly isOwn: (row: Readonly<Record<string, unknown>>) => boolean
  readonly use: () => Promise<Answer>
}

onEachEngine('damage', (engine) => {
  let bench: Bench
  let raw: RawDatabase
  let cases: readonly Case[]
  let other: { readonly key: string; readonly id: string }
  const masterKey = randomBytes(32)
  const below = randomBelow(SEED)

  before(async () => {
    bench = await startBench(engine, { internal: CREDENTIAL, masterKey, now: Date.UTC(2027, 0, 20, 12) })
    raw = await openRaw(bench.database)
    const signedUp = await bench.signUp()
    other = { key: signedUp.api_key.key, id: signedUp.id }
    cases = await prepare(bench)
  })
  after(async () => {
    await raw.close()
    await bench.close()
  })

  /** Everyone else goes on. */
  const othersWork = async (): Promise<void> => {
    assert.equal((await bench.call('POST', '/v1/tokens', { key: other.key })).status, 200)
    const body = { account_id: other.id, mode: 'live', amount: 1 }
    assert.equal((await bench.call('POST', '/internal/v1/quota/leases', { key: CREDENTIAL, body })).status, 200)
  }

  test('a flipped bit in a value that decides is noticed and never served', async (t) => {
    t.diagnostic(`seed ${SEED}`)
    let flips = 0
    for (const { table, columns, lookups, isOwn, use } of cases) {
      const row = (await raw.rows(table)).find(isOwn)
      assert.ok(row, table)
      for (const column of [...columns, 'checksum']) {
        for (let round = 0; round < FLIPS; round++) {
          const value = flipped(row[column], NULLABLE.includes(column), below)
          const where: string = `${table}.${column} ${String(row[column])} → ${String(value)}`
          await raw.set(table, row['checksum'], column, value)
          const before = bench.api.service.damage.count
          const answer = await use()
          if (lookups.includes(column)) assert.ok(answer.status >= 400, `${where}: ${answer.status}`)
          else assert.equal(answer.body.code, 'store_corrupt', `${where}: ${JSON.stringify(answer.body)}`)
          if (!lookups.includes(column)) assertProblem(answer, 500, 'store_corrupt')
          await othersWork()
          await bench.api.service.verifyRows()
          assert.ok(bench.api.service.damage.count > before, `${where} was not counted`)
          await raw.set(table, column === 'checksum' ? value : row['checksum'], column, row[column])
          flips++
        }
      }
      assert.ok(
        bench.lines.some((line) => line.includes(`of ${table} is damaged`)),
        `${table} in the log`,
      )
    }
    const count = bench.api.service.damage.count
    await bench.api.service.verifyRows()
    assert.equal(bench.api.service.damage.count, count, 'all is as it was')
    const metrics = await bench.call('GET', '/metrics')
    assert.match(String(metrics.body), new RegExp(`static_api_damage_total ${count}`))
    t.diagnostic(`promise T3: API on ${engine}: ${flips} flipped bits in deciding values, all noticed, 0 served`)
  })

  test('no token is signed with a damaged signing key, and a new one takes its place', async () => {
    const { ring } = bench.api.service
    const kids = (): string[] => ring.jwks().keys.map(({ kid }) => kid)
    const [row] = await raw.rows('signing_keys')
    assert.ok(row)
    for (const column of ['kid', 'sealed', 'active_from', 'checksum', 'generation']) {
      const value = flipped(row[column], false, below)
      await raw.set('signing_keys', row['checksum'], column, value)
      await ring.refresh()
      assert.ok(!kids().includes(String(row['kid'])), column)
      assert.ok(!kids().includes(String(value)), column)
      const { body } = await bench.call('POST', '/v1/tokens', { key: other.key })
      const [header = ''] = String(body.token).split('.')
      const { kid } = JSON.parse(Buffer.from(header, 'base64url').toString()) as { kid: string }
      assert.ok(kids().includes(kid), column)
      // The new key may have the generation now.
      if (column === 'generation') return
      await raw.set('signing_keys', column === 'checksum' ? value : row['checksum'], column, row[column])
      await ring.refresh()
      assert.ok(kids().includes(String(row['kid'])), column)
    }
  })

  test('of the accounts that a relay asks about, only a damaged one is blocked', async () => {
    const { id } = await bench.signUp()
    const blocked = async (): Promise<string[]> => {
      const body = { account_ids: [id, other.id] }
      return (await bench.call('POST', '/internal/v1/accounts/blocked', { key: CREDENTIAL, body })).body.suspended
    }
    assert.deepEqual(await blocked(), [])
    const row = (await raw.rows('accounts')).find((account) => account['id'] === id)
    await raw.set('accounts', row?.['checksum'], 'plan', 'fref')
    assert.deepEqual(await blocked(), [id])
  })

  test('the operator can close a damaged account, and its owner revoke a damaged key', async (t) => {
    const store = await openStore(bench.database)
    t.after(() => store.close())
    const admin = new Admin(store, () => bench.clock.now)
    const { id, api_key: first, password } = await bench.signUp()
    const more = await bench.call('POST', '/v1/keys', { key: first.key, body: { name: 'second' } })
    const keyRow = (await raw.rows('api_keys')).find((key) => key['id'] === more.body.id)
    await raw.set('api_keys', keyRow?.['checksum'], 'hash', 'x')
    assertProblem(await bench.call('GET', '/v1/keys', { key: first.key }), 500, 'store_corrupt')
    assert.equal((await bench.call('DELETE', `/v1/keys/${more.body.id}`, { key: first.key })).status, 204)
    assert.equal((await bench.call('GET', '/v1/keys', { key: first.key })).status, 200)
    const row = (await raw.rows('accounts')).find((account) => account['id'] === id)
    await raw.set('accounts', row?.['checksum'], 'password_hash', 'x')
    const body = { email: row?.['email'], password }
    assertProblem(await bench.call('POST', '/v1/sessions', { body }), 500, 'store_corrupt')
    await admin.close(id)
    assert.equal((await bench.call('POST', '/v1/tokens', { key: first.key })).status, 401)
  })

  test('an API starts on a database with damaged rows, and continues with the rest', async (t) => {
    const body = { account_id: other.id, mode: 'test', amount: 1 }
    const { body: lease } = await bench.call('POST', '/internal/v1/quota/leases', { key: CREDENTIAL, body })
    const own = (await raw.rows('leases')).find((row) => row['id'] === lease.id)
    // A lease of no account, which will have expired.
    await raw.set('leases', own?.['checksum'], 'account_id', 'gone')
    for (const row of await raw.rows('usage_periods')) {
      if (row['mode'] === 'test') await raw.set('usage_periods', row['checksum'], 'reserved', 1n << 60n)
    }
    const [signing] = await raw.rows('signing_keys')
    await raw.set('signing_keys', signing?.['checksum'], 'generation', 1n << 61n)
    const again = await startBench(engine, {
      database: bench.database,
      masterKey,
      internal: CREDENTIAL,
      now: bench.clock.now + 3600_000,
    })
    t.after(() => again.close())
    assert.ok(again.api.service.damage.count >= 2)
    assert.equal((await again.call('POST', '/v1/tokens', { key: other.key })).status, 200)
    const refused = await again.call('POST', '/internal/v1/quota/leases', { key: CREDENTIAL, body })
    assertProblem(refused, 500, 'store_corrupt')
  })
})

/** An account with a key, a revoked key, a session, a link, a lease and a claimed Idempotency-Key. */
async function prepare(bench: Bench): Promise<readonly Case[]> {
  const email = 'victim@example.com'
  const password = 'a password for tests'
  const claimed = { body: { email, password }, headers: { 'idempotency-key': 'a-claim' } }
  const { body: account } = await bench.call('POST', '/v1/accounts', claimed)
  const { key } = account.api_key
  const { body: revoked } = await bench.call('POST', '/v1/keys', { key, body: { name: 'revoked' } })
  assert.equal((await bench.call('DELETE', `/v1/keys/${revoked.id}`, { key })).status, 204)
  const cookie = cookieOf(await bench.call('POST', '/v1/sessions', { body: { email, password } }))
  const { body: lease } = await bench.call('POST', '/internal/v1/quota/leases', {
    key: CREDENTIAL,
    body: { account_id: account.id, mode: 'live', amount: 10 },
  })
  const store = await openStore(bench.database)
  const { token } = await new Admin(store, () => bench.clock.now).passwordLink(account.id, 24)
  await store.close()
  const ofAccount = (row: Readonly<Record<string, unknown>>): boolean => row['account_id'] === account.id
  const keyColumns = ['id', 'account_id', 'prefix', 'mode', 'hash', 'revoked_at']
  const accountColumns = ['id', 'email_key', 'password_hash', 'plan', 'status']
  const isAccount: Case['isOwn'] = ({ id }) => id === account.id
  return [
    {
      table: 'accounts',
      columns: accountColumns,
      lookups: [],
      isOwn: isAccount,
      use: () => bench.call('POST', '/v1/tokens', { key }),
    },
    {
      table: 'accounts',
      columns: accountColumns,
      lookups: ['email_key'],
      isOwn: isAccount,
      use: () => bench.call('POST', '/v1/sessions', { body: { email, password } }),
    },
    {
      table: 'api_keys',
      columns: keyColumns,
      lookups: ['prefix'],
      isOwn: ({ id }) => id === account.api_key.id,
      use: () => bench.call('POST', '/v1/tokens', { key }),
    },
    {
      table: 'api_keys',
      columns: keyColumns,
      lookups: ['prefix'],
      isOwn: ({ id }) => id === revoked.id,
      use: () => bench.call('POST', '/v1/tokens', { key: revoked.key }),
    },
    {
      table: 'sessions',
      columns: ['id', 'id_hash', 'account_id', 'expires_at'],
      lookups: ['id_hash'],
      isOwn: ofAccount,
      use: () => bench.call('GET', '/v1/sessions', { cookie }),
    },
    {
      table: 'links',
      columns: ['selector', 'secret_hash', 'account_id', 'expires_at'],
      lookups: ['selector'],
      isOwn: ofAccount,
      use: () => bench.call('POST', '/v1/passwords', { body: { token, new_password: 'another password' } }),
    },
    {
      table: 'usage_periods',
      columns: ['account_id', 'mode', 'period', 'used', 'reserved'],
      lookups: [],
      isOwn: ofAccount,
      use: async () => {
        const body = { account_id: account.id, mode: 'live', amount: 1 }
        return bench.call('POST', '/internal/v1/quota/leases', { key: CREDENTIAL, body })
      },
    },
    {
      table: 'leases',
      columns: ['id', 'account_id', 'mode', 'period', 'amount', 'spent', 'state', 'expires_at', 'by_key'],
      lookups: ['id'],
      isOwn: ({ id }) => id === lease.id,
      use: () =>
        bench.call('POST', `/internal/v1/quota/leases/${lease.id}/settle`, {
          key: CREDENTIAL,
          body: { spent: 1, final: false },
        }),
    },
    {
      table: 'idempotency',
      columns: ['scope', 'key', 'fingerprint', 'resource_id', 'created_at'],
      lookups: ['scope', 'key', 'created_at'],
      isOwn: ({ scope }) => String(scope).startsWith('sign-up '),
      use: () => bench.call('POST', '/v1/accounts', claimed),
    },
  ]
}
