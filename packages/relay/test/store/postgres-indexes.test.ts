/** A node that starts makes the indexes that its database lacks, also while others keep the tables locked. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { parsePostgresUrl } from '@static/node/postgres-address'
import { openDeployment } from '../../src/store/postgres/deployment.ts'
import { LATER_INDEXES } from '../../src/store/postgres/schema.ts'
import { Session } from '../../src/store/postgres/session.ts'
import { makeScratch, openScratch, type Scratch } from '../support/postgres.ts'
import { RETENTION } from './channel-fixture.ts'

/** A database from before these indexes, and a connection to it that waits less for locks than a node does. */
async function open(t: TestContext): Promise<{ scratch: Scratch; session: Session }> {
  const scratch = await makeScratch()
  t.after(() => scratch.remove())
  await (await openScratch(scratch, RETENTION, () => {})).close()
  const drops = Object.keys(LATER_INDEXES).map((name) => `drop index static_relay.${name}`)
  await scratch.query(drops.join(';'))
  const address = parsePostgresUrl(scratch.url)
  const session = await Session.open(address, address.hosts[0] ?? assert.fail())
  t.after(() => session.end())
  await session.run('SET lock_timeout = 100')
  return { scratch, session }
}

/** The names of these indexes that are there. */
async function found(scratch: Scratch): Promise<unknown[]> {
  const rows = await scratch.query(`select indexname from pg_indexes where schemaname = 'static_relay'`)
  return rows.map(([name]) => name).filter((name) => Object.keys(LATER_INDEXES).includes(String(name)))
}

/** Calls `failed` after each failure of SQL without parameters, with its code. */
function watched(session: Session, failed: (code: unknown) => Promise<void>): Session {
  const run = async (text: string): Promise<string> => {
    try {
      return await session.run(text)
    } catch (error) {
      await failed((error as { code?: unknown }).code)
      throw error
    }
  }
  return { rows: session.rows.bind(session), run } as unknown as Session
}

test('a node waits for the transaction of a node that was cut off, which outlives one wait for its lock', async (t) => {
  const { scratch, session } = await open(t)
  const cutOff = new pg.Client({ connectionString: scratch.url })
  await cutOff.connect()
  await cutOff.query('begin; lock table static_relay.joins in row exclusive mode')
  const codes: unknown[] = []
  const failed = async (code: unknown): Promise<void> => {
    if (codes.push(code) === 3) await cutOff.end()
  }
  await openDeployment(watched(session, failed), scratch.keyFile)
  assert.deepEqual(codes, ['55P03', '55P03', '55P03'])
  assert.equal((await found(scratch)).length, Object.keys(LATER_INDEXES).length)
})

test('a node that is chosen to end a deadlock tries again, but not forever', async (t) => {
  const { scratch, session } = await open(t)
  let [tries, deadlocks] = [0, 2]
  const run = (text: string): Promise<string> => {
    if (!text.startsWith('BEGIN') || ++tries > deadlocks) return session.run(text)
    return Promise.reject(Object.assign(new Error('deadlock detected'), { code: '40P01' }))
  }
  const unlucky = { rows: session.rows.bind(session), run } as unknown as Session
  await openDeployment(unlucky, scratch.keyFile)
  assert.equal((await found(scratch)).length, Object.keys(LATER_INDEXES).length)
  await scratch.query('drop index static_relay.joins_in')
  tries = 0
  deadlocks = Infinity
  await assert.rejects(openDeployment(unlucky, scratch.keyFile), { code: '40P01' })
  assert.equal(tries, 5)
})
