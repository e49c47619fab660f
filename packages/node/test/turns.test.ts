import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Turns } from '../src/turns.ts'

interface Piece {
  readonly of: string
  isGone?: boolean
}

function make(done: Piece[]): Turns<Piece> {
  return new Turns<Piece>({
    perTurn: 4,
    run: (piece) => done.push(piece),
    isGone: ({ isGone }) => isGone === true,
    nextTurn: setImmediate,
  })
}

test('a few pieces are done in one turn, and no subject waits for all of another', async () => {
  const done: Piece[] = []
  const turns = make(done)
  for (let at = 0; at < 40; at++) turns.add('a', { of: 'a' })
  turns.add('b', { of: 'b' })
  assert.equal(done.length, 4, 'the first are done at once')
  await nextTurn()
  assert.equal(done.length, 8)
  assert.ok(done.some(({ of }) => of === 'b'))
  let count = 2
  for (let before = 0; before < done.length; count++) {
    before = done.length
    await nextTurn()
    assert.ok(done.length - before <= 4)
  }
  assert.equal(done.length, 41)
  assert.ok(count >= 10)
  turns.add('c', { of: 'c' })
  assert.equal(done.length, 42, 'nobody waits without need')
})

test('a piece that is gone takes no turn, and the others keep their order', async () => {
  const done: Piece[] = []
  const turns = make(done)
  for (let at = 0; at < 4; at++) turns.add('a', { of: 'a' })
  const pieces: Piece[] = Array.from({ length: 6 }, () => ({ of: 'a' }))
  for (const piece of pieces) turns.add('a', piece)
  for (const at of [0, 2]) Object.assign(pieces[at] ?? {}, { isGone: true })
  await nextTurn()
  assert.deepEqual(
    done.slice(4).map((piece) => pieces.indexOf(piece)),
    [1, 3, 4, 5],
  )
})
