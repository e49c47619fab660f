/** The positions of a table's keys among its row values, and keys as text, for finding rows in memory. */
import { latin1 } from '../../platform/bytes.ts'
import type { Value } from '../sqlite.ts'
import { fieldsOf, type TableDeclaration } from './table.ts'
import { TABLES } from '../tables/all-tables.ts'

/** A table, by the positions of its fields. */
export interface TableShape {
  readonly number: number
  readonly declaration: TableDeclaration
  readonly fields: readonly string[]
  readonly key: readonly number[]
  /** The positions of its key parts among the values that begin with the key. */
  readonly keyParts: readonly number[]
  /** The table of the row that a row belongs to, and the positions of that row's key. */
  readonly parent: { readonly table: number; readonly key: readonly number[] } | undefined
  /** Tables whose rows belong to one of this table. */
  readonly children: readonly number[]
  /** The position of the field that ends the body when set; -1: none. */
  readonly until: number
}

/** In the order of TABLES, parents first. */
export const SHAPES: readonly TableShape[] = TABLES.map((declaration, number) => {
  const fields = fieldsOf(declaration)
  const places = (names: readonly string[]): readonly number[] => names.map((name) => fields.indexOf(name))
  const { name, key, parent, body } = declaration
  return {
    number,
    declaration,
    fields,
    key: places(key),
    keyParts: key.map((_, at) => at),
    parent: parent && { table: TABLES.findIndex((table) => table.name === parent.table), key: places(parent.by) },
    children: TABLES.flatMap((table, at) => (table.parent?.table === name ? [at] : [])),
    until: fields.indexOf(body?.until ?? ''),
  }
})

const NUMBERS: ReadonlyMap<string, number> = new Map(
  SHAPES.map(({ declaration, number }) => [declaration.name, number]),
)

export function shapeOf({ name }: TableDeclaration): TableShape {
  return shapeAt(NUMBERS.get(name) ?? -1)
}

/** The shape of the table with this number. */
export function shapeAt(number: number): TableShape {
  const shape = SHAPES[number]
  if (shape === undefined) throw new RangeError(`There is no table ${number}.`)
  return shape
}

/** The whole key at these positions of a row's values, as text. */
export function keyAt(places: readonly number[], values: readonly Value[]): string {
  const last = places.length - 1
  let text = ''
  for (let at = 0; at < last; at++) text += leading(values[places[at] ?? 0] ?? null)
  return text + textOf(values[places[last] ?? 0] ?? null)
}

/** The common prefix of the text of all whole keys that begin with these parts. */
export function keyStart(parts: readonly Value[]): string {
  return parts.map(leading).join('')
}

/** Includes its length, so that no other parts have the same text. */
function leading(part: Value): string {
  const text = textOf(part)
  return `${text.length}:${text}`
}

function textOf(part: Value): string {
  if (typeof part === 'string') return part
  return part instanceof Uint8Array ? latin1(part) : String(part)
}
