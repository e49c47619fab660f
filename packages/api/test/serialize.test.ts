import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SerializerSelector } from '@fastify/fast-json-stringify-compiler'
import Type from 'typebox'
import { orNull } from '../src/http/schemas.ts'
import { buildSerializer } from '../src/http/serialize.ts'

const route = { method: 'GET', url: '/', httpStatus: '200' }
const schema = Type.Object({
  kind: Type.Literal('list'),
  count: orNull(Type.Integer()),
  done: Type.Boolean(),
  rows: Type.Array(
    Type.Object({ id: Type.String({ format: 'uuid' }), at: orNull(Type.String({ format: 'date-time' })) }),
  ),
})
const good = { kind: 'list', count: 3, done: true, rows: [{ id: 'a', at: null }] }
const ours = buildSerializer({}, {})({ ...route, schema })
const library = SerializerSelector()({}, {})({ ...route, schema })

/** The text, or that it was refused. */
function written(write: (value: unknown) => string, value: unknown): string {
  try {
    return write(value)
  } catch {
    return 'refused'
  }
}

test('nothing that the schema does not name gets out, at any depth', () => {
  const leaky = { ...good, hash: 'secret', rows: [{ id: 'a', at: null, hash: 'secret' }] }
  assert.equal(ours(leaky), JSON.stringify(good))
  const own = { ...good, toJSON: () => leaky }
  const inherited = Object.assign(Object.create({ toJSON: () => leaky }), good)
  for (const value of [own, inherited]) assert.equal(ours(value), JSON.stringify(good))
})

test('every value is written as the library writes it', () => {
  const rows = (row: unknown): unknown => ({ ...good, rows: [good.rows[0], row] })
  const values: unknown[] = [
    good,
    { ...good, rows: [] },
    { ...good, count: null },
    { ...good, count: -0 },
    { ...good, count: 1.5 },
    { ...good, count: '7' },
    { ...good, count: 2 ** 60 },
    { ...good, count: Number.NaN },
    { ...good, done: 1 },
    { ...good, kind: 'other' },
    { rows: good.rows, done: false, count: 1, kind: 'list' },
    { kind: 'list', count: 1, done: true },
    { ...good, rows: undefined },
    { ...good, rows: {} },
    Object.create(good),
    rows({ id: '"\\\n\u2028\ud800é😀', at: '2026-01-01T00:00:00.000Z' }),
    rows({ id: 7, at: null }),
    rows({ id: null, at: null }),
    rows({ id: 'a', at: new Date(0) }),
    rows({ id: 'a' }),
    rows({ at: null, id: 'a' }),
    rows(null),
    rows(['a', null]),
    null,
    undefined,
    'text',
  ]
  for (const value of values) assert.equal(written(ours, value), written(library, value))
})

test('schemas that say more than this knows are left to the library', () => {
  const optional = Type.Object({ a: Type.String(), b: Type.Optional(Type.String()) })
  const open = Type.Object({ a: Type.String() }, { additionalProperties: Type.String() })
  const either = Type.Object({ a: Type.Union([Type.String(), Type.Integer()]) })
  for (const other of [optional, open, either]) {
    const write = buildSerializer({}, {})({ ...route, schema: other })
    const theirs = SerializerSelector()({}, {})({ ...route, schema: other })
    for (const value of [{ a: 'x' }, { a: 'x', b: 'y' }, { a: 'x', c: 'z' }, { a: 5 }]) {
      assert.equal(written(write, value), written(theirs, value))
    }
  }
})
