import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { test } from 'node:test'
import {
  CELL_BYTES,
  CELL_TYPES,
  CellJoiner,
  cutEnvelope,
  fromHex,
  type LoneCell,
  makeCell,
  toHex,
} from '../../src/index.ts'

test('vectors: cells of every type', () => {
  interface Vector {
    readonly about: string
    readonly type: LoneCell | 'envelope'
    readonly payload: string
    readonly cells: string
  }
  const file = resolve(import.meta.dirname, '../../../../tests/vectors', 'cell.json')
  const types = new Set<number | undefined>()
  for (const { about, type, payload, cells } of JSON.parse(readFileSync(file, 'utf8')) as Vector[]) {
    const bytes = fromHex(payload)
    assert.equal(toHex(type === 'envelope' ? cutEnvelope(bytes) : makeCell(type, bytes)), cells, about)
    const events: string[] = []
    new CellJoiner(4096).push(fromHex(cells), (event) => void events.push(`${event.type} ${toHex(event.payload)}`))
    assert.deepEqual(events, type === 'cover' ? [] : [`${type} ${payload}`], about)
    for (let at = 0; at < cells.length / 2; at += CELL_BYTES) types.add(fromHex(cells)[at])
  }
  assert.deepEqual(types, new Set(Object.values(CELL_TYPES)))
})
