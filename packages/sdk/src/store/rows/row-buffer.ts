/**
 * The changes that are on disk in the ring but not in the database yet. A turn's changes are recorded, kept once the
 * ring has them, and later written to the database together with others.
 */
import { StaticError } from '@static/protocol'
import { type Change, RefusedChange } from '../../ports/index.ts'
import { Bodies } from '../bodies.ts'
import { prepareChanges } from '../changes.ts'
import { GatheredRows, type RowStep } from './gathered-rows.ts'
import { Parents } from './parents.ts'
import { type RingContent, wipeChanges } from '../ring/replay.ts'
import { readRowChange, type RowChange, RowChangeWriter } from './row-change.ts'
import type { Database, Value } from '../sqlite.ts'
import type { Key, RowWrites, Table } from './table.ts'
import { keyAt, keyStart, shapeAt, shapeOf, type TableShape } from './shape.ts'

/** Shared, because every change contains it. */
const NONE: readonly never[] = []

/** Changes between two transactions. */
export class RowBuffer {
  readonly #parents: Parents
  readonly #apply: (change: Change) => void
  readonly #gathered: GatheredRows
  /** The recorded turn. */
  readonly #turn = new RowChangeWriter()
  #steps: RowStep[] = []
  /** The bytes of the kept turns. */
  #kept: Uint8Array
  #length = 0
  readonly #capacity: number

  constructor(database: Database, bodies: Bodies, capacity: number) {
    this.#gathered = new GatheredRows(database, bodies)
    this.#parents = new Parents(database)
    this.#apply = prepareChanges((table) => new RecordedRows(table, (change) => this.#record(change)))
    this.#capacity = capacity
    this.#kept = new Uint8Array(capacity)
  }

  get isEmpty(): boolean {
    return this.#length === 0
  }

  /** Whether the recorded turn can be kept without writing to the database first. */
  get hasRoom(): boolean {
    return this.#length + this.#turn.length <= this.#capacity
  }

  /**
   * Records the changes of a turn and returns them as bytes.
   *
   * @throws {RefusedChange} without effect, if the database would refuse one
   */
  record(changes: readonly Change[]): Uint8Array {
    return this.#recordAll(() => {
      for (const change of changes) {
        try {
          this.#apply(change)
        } catch (cause) {
          throw new RefusedChange(change, cause)
        }
      }
    })
  }

  /** Records a turn from its bytes. Throws `store_corrupt` if it does not match the database. */
  replay(bytes: Uint8Array): void {
    try {
      this.#recordAll(() => {
        for (let at = 0; at < bytes.length;) {
          const { change, end } = readRowChange(bytes, at)
          this.#record(change)
          at = end
        }
      })
    } catch (cause) {
      throw new StaticError('store_corrupt', "The agent's ring does not match its database.", { cause })
    }
  }

  /** Keeps the recorded turn. If an empty buffer has no room for it, makes room until the next `clear`. */
  keep(): void {
    if (!this.hasRoom) this.#kept = new Uint8Array(this.#turn.length)
    this.#kept.set(this.#turn.bytes, this.#length)
    for (const step of this.#steps) this.#gathered.add(step, this.#length)
    this.#length += this.#turn.length
    this.#parents.keep()
    this.#forgetTurn()
  }

  /** Forgets the recorded turn: the ring does not have it. */
  abandon(): void {
    this.#parents.revert()
    this.#forgetTurn()
  }

  /** Writes all kept changes, in the caller's transaction. Call `clear` when it is committed. */
  write(): void {
    this.#gathered.apply(this.#kept)
  }

  clear(): void {
    this.#gathered.clear()
    this.#kept.fill(0, 0, this.#length)
    this.#length = 0
    if (this.#kept.length > this.#capacity) this.#kept = new Uint8Array(this.#capacity)
  }

  #recordAll(work: () => void): Uint8Array {
    try {
      work()
      return this.#turn.bytes
    } catch (error) {
      this.abandon()
      throw error
    }
  }

  #forgetTurn(): void {
    this.#turn.clear()
    this.#steps = []
  }

  /** Whether the row to change may exist. This is known only for rows to which others belong. */
  #record(change: RowChange): boolean {
    const shape = shapeAt(change.table)
    const at = this.#turn.length
    if (change.kind === 'change') {
      const key = keyAt(shape.keyParts, change.values)
      if (shape.children.length > 0 && !this.#parents.has(shape.number, key)) return false
      this.#turn.write(change)
      this.#steps.push({ kind: 'change', table: shape.number, key, isStart: false, parent: '', removed: NONE, at })
      return true
    }
    this.#turn.write(change)
    this.#steps.push(change.kind === 'put' ? this.#put(shape, change, at) : this.#drop(shape, change, at))
    return true
  }

  #put(shape: TableShape, { values }: RowChange, at: number): RowStep {
    const key = keyAt(shape.key, values)
    const parent = shape.parent ? keyAt(shape.parent.key, values) : ''
    if (shape.parent && !this.#parents.has(shape.parent.table, parent)) {
      const { name } = shapeAt(shape.parent.table).declaration
      throw new StaticError('internal_error', `The store has no ${name} for this ${shape.declaration.name}.`)
    }
    if (shape.children.length > 0) this.#parents.put(shape.number, key, parent)
    return { kind: 'put', table: shape.number, key, isStart: false, parent, removed: NONE, at }
  }

  #drop(shape: TableShape, { values }: RowChange, at: number): RowStep {
    const isStart = values.length < shape.key.length
    const key = isStart ? keyStart(values) : keyAt(shape.keyParts, values)
    // Otherwise all rows of the table would have to be searched.
    if (isStart && shape.children.length > 0 && shape.parent?.key.length !== values.length)
      throw new RangeError(`Rows of ${shape.declaration.name} are dropped one by one, or all that belong to one row.`)
    const removed = isStart
      ? this.#parents.dropAllOf(shape.number, keyAt(shape.keyParts.slice(0, values.length), values))
      : this.#parents.drop(shape.number, key)
    return { kind: 'drop', table: shape.number, key, isStart, parent: '', removed, at }
  }
}

/** Reads the database including the changes in its ring, without changing either. */
export function readWithRing<Result>(database: Database, { following }: RingContent, read: () => Result): Result {
  const bytes = following.reduce((sum, { changes }) => sum + changes.length, 0)
  const buffer = new RowBuffer(database, new Bodies(database), bytes)
  try {
    for (const { changes } of following) {
      buffer.replay(changes)
      buffer.keep()
    }
    database.exec('BEGIN IMMEDIATE')
    buffer.write()
    return read()
  } finally {
    wipeChanges(following)
    buffer.clear()
    if (database.inTransaction) database.exec('ROLLBACK')
  }
}

/** Turns changes of records into changes of rows. */
class RecordedRows<Row> implements RowWrites<Row> {
  readonly #table: Table<Row>
  readonly #shape: TableShape
  readonly #fields: readonly (keyof Row & string)[]
  readonly #record: (change: RowChange) => boolean

  constructor(table: Table<Row>, record: (change: RowChange) => boolean) {
    this.#table = table
    this.#shape = shapeOf(table)
    this.#fields = this.#shape.fields as readonly (keyof Row & string)[]
    this.#record = record
  }

  put(row: Row): void {
    const values: Value[] = []
    for (const field of this.#fields) values.push(this.#table.columns[field].write(row[field]))
    this.#record({ kind: 'put', table: this.#shape.number, fields: NONE, values })
  }

  change<Field extends keyof Row & string>(
    ...names: readonly Field[]
  ): (key: Key, values: Pick<Row, Field>) => boolean {
    const fields = names.map((name) => this.#shape.fields.indexOf(name))
    return (key, row) => {
      const values = names.map((name) => this.#table.columns[name].write(row[name]))
      return this.#record({ kind: 'change', table: this.#shape.number, fields, values: [...key, ...values] })
    }
  }

  drop(...key: Key): void {
    this.#record({ kind: 'drop', table: this.#shape.number, fields: NONE, values: key })
  }
}
