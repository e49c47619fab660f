/**
 * An in-memory agent store for tests: the tables of the database as maps, with the same references between them.
 * Nothing is persisted.
 */
import { StaticError } from '@static/protocol'
import {
  type AgentStore,
  type Backwards,
  type Change,
  type ChannelId,
  IDENTITY,
  type IdentityRecord,
  type InboxRecord,
  type KeptRecord,
  type KeptSize,
  type Key,
  prepareChanges,
  type PoisonRecord,
  prepareInbox,
  prepareAnswers,
  prepareFiles,
  prepareKept,
  preparePoison,
  prepareRequests,
  readSnapshot,
  RefusedChange,
  type RowReads,
  type RowWrites,
  type Snapshot,
  type Table,
  TABLES,
  type Totals,
  type UploadPart,
  type Value,
} from '@static/sdk/internal'

/** Creates an empty store for an agent. */
export function makeMemoryStore(identity: IdentityRecord): AgentStore {
  return new MemoryStore(identity)
}

class MemoryStore implements AgentStore {
  readonly #tables = new MemoryTables()
  readonly #apply: (change: Change) => void
  readonly #inbox: AgentStore['inbox']
  readonly #poison: AgentStore['poison']
  readonly #requests: AgentStore['requests']
  readonly #answers: AgentStore['answers']
  #closed = false

  constructor(identity: IdentityRecord) {
    this.#tables.rowsOf(IDENTITY).put({ ...structuredClone(identity), one: 1 })
    this.#apply = prepareChanges(this.#tables.rowsOf)
    this.#inbox = prepareInbox(this.#tables.rowsOf)
    this.#poison = preparePoison(this.#tables.rowsOf)
    this.#requests = prepareRequests(this.#tables.rowsOf)
    this.#answers = prepareAnswers(this.#tables.rowsOf)
  }

  load(): Snapshot {
    this.#checkOpen()
    // Copy, because the caller wipes its buffers after use.
    return structuredClone(readSnapshot(this.#tables.rowsOf))
  }

  inbox(id: ChannelId, after: number, limit: number): readonly InboxRecord[] {
    this.#checkOpen()
    return structuredClone(this.#inbox(id, after, limit))
  }

  poison(id: ChannelId): readonly PoisonRecord[] {
    this.#checkOpen()
    return structuredClone(this.#poison(id))
  }

  requests(id: ChannelId, after: number, limit: number): readonly InboxRecord[] {
    this.#checkOpen()
    return structuredClone(this.#requests(id, after, limit))
  }

  answers(id: ChannelId): readonly InboxRecord[] {
    this.#checkOpen()
    return structuredClone(this.#answers(id))
  }

  fileDigests(id: ChannelId, index: number): Uint8Array | undefined {
    this.#checkOpen()
    return structuredClone(prepareFiles(this.#tables.rowsOf).fileDigests(id, index))
  }

  uploadParts(id: ChannelId, fileId: Uint8Array): readonly UploadPart[] {
    this.#checkOpen()
    return structuredClone(prepareFiles(this.#tables.rowsOf).uploadParts(id, fileId))
  }

  kept(id: ChannelId, before: number, limit: number): readonly KeptRecord[] {
    this.#checkOpen()
    return structuredClone(prepareKept(this.#tables.rowsOf).kept(id, before, limit))
  }

  keptSizes(id: ChannelId, before: number, limit: number): readonly KeptSize[] {
    this.#checkOpen()
    return structuredClone(prepareKept(this.#tables.rowsOf).keptSizes(id, before, limit))
  }

  write(changes: readonly Change[]): void {
    this.#checkOpen()
    this.#tables.transaction(() => {
      for (const change of changes) {
        try {
          this.#apply(structuredClone(change))
        } catch (cause) {
          throw new RefusedChange(change, cause)
        }
      }
    })
  }

  checkpoint(): void {
    this.#checkOpen()
  }

  /** It never does. */
  onFailure(): void {}

  close(): void {
    this.#closed = true
  }

  #checkOpen(): void {
    if (this.#closed) throw StaticError.of('closed', 'The agent is closed.')
  }
}

/** A row: its values by field. */
type Fields = Readonly<Record<string, unknown>>

/** The tables by name, with an undo log. */
class MemoryTables {
  readonly #tables = new Map(TABLES.map((table) => [table.name, new Map<string, Fields>()]))
  #undo: (() => void)[] = []

  readonly rowsOf: <Row>(table: Table<Row>) => RowReads<Row> & RowWrites<Row> = (table) => new MemoryRows(this, table)

  transaction(work: () => void): void {
    this.#undo = []
    try {
      work()
    } catch (error) {
      for (const undo of this.#undo.toReversed()) undo()
      throw error
    }
  }

  rows(table: string): ReadonlyMap<string, Fields> {
    return this.#tables.get(table) ?? new Map()
  }

  set(table: string, key: string, row: Fields): void {
    this.#change(table, key, row)
  }

  /** Deletes a row and all rows that belong to it. */
  delete(table: string, key: string): void {
    this.#change(table, key, undefined)
    for (const { name, parent } of TABLES) {
      if (parent?.table !== table) continue
      for (const [child, row] of this.rows(name)) if (keyOf(parent.by, row) === key) this.delete(name, child)
    }
  }

  #change(table: string, key: string, row: Fields | undefined): void {
    const rows = this.#tables.get(table)
    const before = rows?.get(key)
    const put = (value: Fields | undefined): void => void (value ? rows?.set(key, value) : rows?.delete(key))
    this.#undo.push(() => put(before))
    put(row)
  }
}

class MemoryRows<Row> implements RowReads<Row>, RowWrites<Row> {
  readonly #tables: MemoryTables
  readonly #table: Table<Row>

  constructor(tables: MemoryTables, table: Table<Row>) {
    this.#tables = tables
    this.#table = table
  }

  put(row: Row): void {
    const { name, key, parent, columns } = this.#table
    const fields = row as Fields
    if (parent && !this.#tables.rows(parent.table).has(keyOf(parent.by, fields))) {
      throw new StaticError('internal_error', `The store has no ${parent.table} for this ${name}.`)
    }
    const own = (Object.keys(columns) as (keyof Row & string)[]).map((field) => {
      const value = columns[field].write(row[field])
      if (typeof value === 'number' && !Number.isSafeInteger(value))
        throw new StaticError('internal_error', `${value} is not a whole number.`)
      return [field, fields[field]]
    })
    this.#tables.set(name, keyOf(key, fields), Object.fromEntries(own))
  }

  change<Field extends keyof Row & string>(): (key: Key, values: Pick<Row, Field>) => boolean {
    const { name, body } = this.#table
    return (key, values) => {
      const row = this.#tables.rows(name).get(keyOfValues(key))
      if (!row || (body?.until !== undefined && row[body.until] !== undefined)) return false
      this.#tables.set(name, keyOfValues(key), { ...row, ...values })
      return true
    }
  }

  drop(...key: Key): void {
    const { name } = this.#table
    for (const [whole, row] of this.#tables.rows(name)) if (this.#startsWith(row, key)) this.#tables.delete(name, whole)
  }

  all(): readonly Row[] {
    const rows = [...this.#tables.rows(this.#table.name).values()]
    return rows.sort((a, b) => compareBy(this.#table.key, a, b)) as Row[]
  }

  page(start: Key, after: Value, limit: number): readonly Row[] {
    const next = this.#table.key[start.length] ?? ''
    const found = (this.all() as readonly Fields[]).filter(
      (row) => this.#startsWith(row, start) && compare(row[next], after) > 0,
    )
    return found.slice(0, limit) as Row[]
  }

  back<Field extends keyof Row & string>(fields: readonly Field[], of: Backwards): readonly Pick<Row, Field>[] {
    const { start, before, limit } = of
    const next = this.#table.key[start.length] ?? ''
    const isOf = (row: Fields): boolean => this.#startsWith(row, start) && compare(row[next], before) < 0
    const found = (this.all() as readonly Fields[]).filter(isOf)
    const last = found.toReversed().slice(0, limit)
    return last.map((row) => Object.fromEntries(fields.map((field) => [field, row[field]])) as Pick<Row, Field>)
  }

  totals(field: keyof Row & string): ReadonlyMap<string, Totals> {
    const [by = ''] = this.#table.key
    const totals = new Map<string, Totals>()
    for (const row of this.all() as readonly Fields[]) {
      const { rows, sum } = totals.get(String(row[by])) ?? { rows: 0, sum: 0 }
      totals.set(String(row[by]), { rows: rows + 1, sum: sum + Number(row[field]) })
    }
    return totals
  }

  #startsWith(row: Fields, key: Key): boolean {
    return keyOf(this.#table.key.slice(0, key.length), row) === keyOfValues(key)
  }
}

function keyOf(fields: readonly string[], row: Fields): string {
  return keyOfValues(fields.map((field) => row[field]))
}

function keyOfValues(values: readonly unknown[]): string {
  return JSON.stringify(values.map(plain))
}

function compareBy(fields: readonly string[], a: Fields, b: Fields): number {
  for (const field of fields) {
    const order = compare(a[field], b[field])
    if (order !== 0) return order
  }
  return 0
}

function compare(a: unknown, b: unknown): number {
  const [one, other] = [plain(a), plain(b)]
  if (one === other) return 0
  return one < other ? -1 : 1
}

/** Bytes in hexadecimal, which sorts like the bytes. */
function plain(value: unknown): string | number {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex')
  return typeof value === 'number' ? value : String(value)
}
