/** The tables of ids, one for each day: created before they are needed, dropped once all ids in them have expired. */
import type { Time } from '../../ports.ts'
import { SCHEMA } from './schema.ts'
import { type Session, statement } from './session.ts'

const DAY = 86_400_000
/** Tables are created for this many days in advance, so that a node never waits for one. */
const AHEAD = 2
const TABLES = statement(`SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
  WHERE i.inhparent = '${SCHEMA}.ids'::regclass`)
const ALREADY_EXISTS = new Set(['42P07', '42P17', '23505'])
const LOCK_TIMEOUT = '55P03'

/** The days that have a table. */
export class IdDays {
  readonly #known = new Set<number>()

  /** Whether ids of this time can be stored. */
  has(at: Time): boolean {
    return this.#known.has(Math.floor(at / DAY))
  }

  /** Some of them may have been dropped. */
  forget(): void {
    this.#known.clear()
  }

  /** Creates the tables for a time and the days after it. */
  async ensure(session: Session, at: Time): Promise<void> {
    for (let day = Math.floor(at / DAY); day <= Math.floor(at / DAY) + AHEAD; day++) {
      if (this.#known.has(day)) continue
      try {
        const range = `FROM (${day * DAY}) TO (${(day + 1) * DAY})`
        await session.run(`CREATE TABLE IF NOT EXISTS ids_${nameOf(day)} PARTITION OF ids FOR VALUES ${range}`)
      } catch (error) {
        // Another node is creating it at the same time.
        if (!ALREADY_EXISTS.has((error as { code?: string }).code ?? '')) throw error
      }
      this.#known.add(day)
    }
  }

  /** Drops the tables whose ids are all from before a time. */
  async drop(session: Session, since: Time): Promise<void> {
    for (const [name] of await session.rows(TABLES)) {
      const day = Number(String(name).slice('ids_'.length).replace('m', '-'))
      if ((day + 1) * DAY > since) continue
      this.#known.delete(day)
      try {
        await session.run(`BEGIN; SET LOCAL lock_timeout = 1000; DROP TABLE IF EXISTS ${String(name)}; COMMIT`)
      } catch (error) {
        await session.run('ROLLBACK')
        // Every batch uses the parent table: the next sweep retries.
        if ((error as { code?: string }).code !== LOCK_TIMEOUT) throw error
      }
    }
  }
}

function nameOf(day: number): string {
  return String(day).replace('-', 'm')
}
