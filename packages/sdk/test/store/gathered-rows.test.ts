/** Many turns gathered into one transaction leave the same rows as a transaction for every turn. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeMemoryStore } from '@static/testkit/store/agent-memory'
import * as fc from 'fast-check'
import type { Change } from '../../src/ports/index.ts'
import { Bodies } from '../../src/store/bodies.ts'
import { RowBuffer } from '../../src/store/rows/row-buffer.ts'
import { createSchema } from '../../src/store/schema.ts'
import { prepareInbox, preparePoison, readSnapshot } from '../../src/store/snapshot.ts'
import { openRows } from '../../src/store/rows/sql-rows.ts'
import { SqlTable } from '../../src/store/rows/sql-table.ts'
import { type Database, openDatabase } from '../../src/store/sqlite.ts'
import { IDENTITY as IDENTITY_TABLE } from '../../src/store/tables/agent-tables.ts'
import { anyChange } from './any-change.ts'
import { AGENT, CHANNEL, IDENTITY, inviteRecord, joinerRecord, OTHER, put } from './support.ts'

/** Tables in memory, and the changes that are not in them yet. */
class Tables {
  readonly #database: Database
  readonly #bodies: Bodies
  readonly #buffer: RowBuffer

  constructor() {
    this.#database = openDatabase(':memory:')
    this.#database.pragma('foreign_keys = ON')
    createSchema(this.#database)
    const { identity, publicKey, secretKey } = IDENTITY
    new SqlTable(this.#database, IDENTITY_TABLE, undefined).put([1, identity, publicKey, secretKey])
    this.#bodies = new Bodies(this.#database)
    this.#buffer = new RowBuffer(this.#database, this.#bodies, 1024 * 1024)
  }

  /** Whether the changes of a turn were taken. */
  take(changes: readonly Change[]): boolean {
    try {
      this.#buffer.record(changes)
    } catch {
      return false
    }
    this.#buffer.keep()
    return true
  }

  write(): void {
    this.#database.exec('BEGIN')
    this.#buffer.write()
    this.#database.exec('COMMIT')
    this.#bodies.commit()
    this.#buffer.clear()
  }

  read(): unknown {
    const rows = openRows(this.#database)
    const [inbox, poison] = [prepareInbox(rows), preparePoison(rows)]
    return [readSnapshot(rows), ...[CHANNEL, OTHER].map((id) => [inbox(id, 0, 100), poison(id)])]
  }

  close(): void {
    this.#database.close()
  }
}

const change = fc.array(fc.nat(), { minLength: 9, maxLength: 9 }).map((numbers) => {
  let next = 0
  return anyChange((limit) => (numbers[next++ % numbers.length] ?? 0) % limit)
})
const turns = fc.array(fc.array(change, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 60 })

/** The channels that most changes need. */
const START: Change[][] = [CHANNEL, OTHER].map((id) => [put({ id })])

test('gathered turns leave what single ones do, whatever they change', () => {
  let taken = 0
  fc.assert(
    fc.property(turns, (given) => {
      const model = makeMemoryStore(IDENTITY)
      const [single, gathered] = [new Tables(), new Tables()]
      for (const turn of [...START, ...given]) {
        const isTaken = gathered.take(turn)
        assert.equal(single.take(turn), isTaken)
        if (isTaken) {
          single.write()
          taken++
        }
        if (isTaken) model.write(turn)
        else assert.throws(() => model.write(turn))
      }
      gathered.write()
      assert.deepEqual(gathered.read(), single.read())
      const expected = [model.load(), ...[CHANNEL, OTHER].map((id) => [model.inbox(id, 0, 100), model.poison(id)])]
      assert.deepEqual(gathered.read(), expected)
      single.close()
      gathered.close()
    }),
    { seed: 20_261_116, numRuns: 60 },
  )
  assert.ok(taken > 300, `only ${taken} turns were taken`)
})

test('a row that moved to another parent goes with it, and does not reappear under the old one', () => {
  const [single, gathered] = [new Tables(), new Tables()]
  const first: Change[] = ['I1', 'I2'].map((id) => ({ type: 'putInvite', record: inviteRecord(id) }))
  const joins = (invite: string): Change => ({ type: 'putJoiner', record: joinerRecord(AGENT, invite) })
  for (const tables of [single, gathered]) {
    assert.ok(tables.take([put(), ...first, joins('I2')]))
    tables.write()
  }
  for (const change of [joins('I1'), { type: 'dropInvite', id: 'I1' } as const]) {
    assert.ok(single.take([change]) && gathered.take([change]))
    single.write()
  }
  gathered.write()
  assert.deepEqual(gathered.read(), single.read())
  for (const tables of [single, gathered]) tables.close()
})

/** The rows that are looked at while something is done, one by one. */
function looks(work: () => void): number {
  let rows = 0
  const restore = [Map.prototype, Set.prototype].map((prototype: { [Symbol.iterator]: () => unknown }) => {
    const original = prototype[Symbol.iterator]
    prototype[Symbol.iterator] = function (this: { readonly size: number }) {
      rows += this.size
      return original.call(this)
    }
    return () => (prototype[Symbol.iterator] = original)
  })
  try {
    work()
  } finally {
    for (const undo of restore) undo()
  }
  return rows
}

test('a new epoch, its end and the end of a channel take no longer with many channels', () => {
  const tables = new Tables()
  const epoch = { group: new Uint8Array(1), rows: new Map([[0, new Uint8Array(1)]]) }
  const ids = Array.from({ length: 1000 }, (_, at) => at.toString(16).padStart(32, '0'))
  for (const id of ids) assert.ok(tables.take([put({ id }), { type: 'putEpoch', id, epoch }]))
  tables.write()
  const id = ids[500] ?? assert.fail()
  const changes: Change[] = [
    { type: 'putEpoch', id, epoch },
    { type: 'putPending', id, pending: undefined },
    { type: 'putEpoch', id, epoch: undefined },
    { type: 'dropChannel', id },
  ]
  const looked = looks(() => assert.ok(tables.take(changes)))
  assert.ok(looked < 50, `${looked} rows`)
  assert.ok(!tables.take([{ type: 'putEpoch', id, epoch }]))
  tables.close()
})
