/** How single values, lists and maps are written to and read from CBOR; messages are in plan.ts. */
import { ScalarType } from '@bufbuild/protobuf'
import type { CborReader } from './reader.ts'
import type { CborWriter } from './writer.ts'
import { WireError } from '../wire/wire-error.ts'

/** How a value inside a field, a list or a map is written and read. */
export interface ValuePlan {
  /** Whether it becomes a separate object: a message, a text or a byte string. */
  readonly isObject?: boolean
  /** The maximum nesting depth of its maps and arrays. */
  readonly depth: number
  readonly write: (writer: CborWriter, value: unknown) => void
  readonly read: (reader: CborReader) => unknown
}

const encoder = new TextEncoder()

function planInt(min: number, max: number): ValuePlan {
  return {
    depth: 0,
    write: (writer, value) => writer.int(value as number, min, max),
    read: (reader) => reader.int(min, max),
  }
}

function planBigint(min: bigint, max: bigint): ValuePlan {
  return {
    depth: 0,
    write: (writer, value) => writer.bigint(value as bigint, min, max),
    read: (reader) => reader.bigint(min, max),
  }
}

const INT32 = planInt(-0x8000_0000, 0x7fff_ffff)
const UINT32 = planInt(0, 0xffff_ffff)
const INT64 = planBigint(-0x8000_0000_0000_0000n, 0x7fff_ffff_ffff_ffffn)
const UINT64 = planBigint(0n, 0xffff_ffff_ffff_ffffn)

/** Enums are open, as in proto3: code that uses one must handle unknown numbers. */
export const ENUM: ValuePlan = INT32

/** The plan of each scalar type; floats have none. */
export const SCALARS: Readonly<Record<ScalarType, ValuePlan | undefined>> = {
  [ScalarType.DOUBLE]: undefined,
  [ScalarType.FLOAT]: undefined,
  [ScalarType.INT32]: INT32,
  [ScalarType.SINT32]: INT32,
  [ScalarType.SFIXED32]: INT32,
  [ScalarType.UINT32]: UINT32,
  [ScalarType.FIXED32]: UINT32,
  [ScalarType.INT64]: INT64,
  [ScalarType.SINT64]: INT64,
  [ScalarType.SFIXED64]: INT64,
  [ScalarType.UINT64]: UINT64,
  [ScalarType.FIXED64]: UINT64,
  [ScalarType.BOOL]: {
    depth: 0,
    write: (writer, value) => writer.bool(value as boolean),
    read: (reader) => reader.bool(),
  },
  [ScalarType.BYTES]: {
    isObject: true,
    depth: 0,
    write: (writer, value) => writer.bytes(value as Uint8Array),
    read: (reader) => reader.bytes(),
  },
  [ScalarType.STRING]: {
    isObject: true,
    depth: 0,
    write: (writer, value) => writer.text(value as string),
    read: (reader) => reader.text(),
  },
}

export function planList(item: ValuePlan): ValuePlan {
  return {
    depth: 1 + item.depth,
    write: (writer, value) => {
      const items = value as readonly unknown[]
      writer.head(4, items.length)
      for (const each of items) item.write(writer, each)
    },
    read: (reader) => {
      const items: unknown[] = []
      const count = reader.array()
      if (item.isObject === true) reader.countObjects(count)
      for (let left = count; left > 0; left--) items.push(item.read(reader))
      return items
    },
  }
}

/** A map from text to values. */
export function planMap(item: ValuePlan): ValuePlan {
  return {
    depth: 1 + item.depth,
    write: (writer, value) => {
      const entries = Object.entries(value as Record<string, unknown>).map(([key, each]) => {
        if (!key.isWellFormed()) throw new WireError('utf8')
        return { key: encoder.encode(key), each }
      })
      // In the order of their encodings, where the head puts the shorter key first.
      entries.sort((a, b) => a.key.length - b.key.length || compare(a.key, b.key))
      writer.head(5, entries.length)
      for (const { key, each } of entries) {
        writer.utf8(key)
        item.write(writer, each)
      }
    },
    read: (reader) => {
      const entries: [string, unknown][] = []
      let previous: Uint8Array | undefined
      const count = reader.map()
      reader.countObjects(count)
      for (let left = count; left > 0; left--) {
        const start = reader.offset
        const text = reader.text()
        const key = reader.since(start)
        const order = previous === undefined ? -1 : compare(previous, key)
        if (order >= 0) throw new WireError(order === 0 ? 'duplicate-key' : 'key-order', start)
        previous = key
        entries.push([text, item.read(reader)])
      }
      // Not by assignment, which would set the prototype for the key `__proto__`.
      return Object.fromEntries(entries)
    },
  }
}

function compare(a: Uint8Array, b: Uint8Array): number {
  const shared = Math.min(a.length, b.length)
  for (let at = 0; at < shared; at++) {
    const difference = (a[at] ?? 0) - (b[at] ?? 0)
    if (difference !== 0) return difference
  }
  return a.length - b.length
}
