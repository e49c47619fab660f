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

test('a few pieces are done in one turn, and no address waits for all of another', async () => {
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

test('a /48 has 16 turns in a round, however many addresses it has, and they take them one after the other', async () => {
  const done: Piece[] = []
  const turns = make(done)
  for (let at = 0; at < 4; at++) turns.add('192.0.2.1', { of: 'before' })
  const many = Array.from({ length: 400 }, (_, at) => `2001:db8:1:${at.toString(16)}::/64`)
  for (let round = 0; round < 2; round++) for (const of of many) turns.add(of, { of })
  const few = ['2001:db8:2:1::/64', '2001:db8:2:2::/64', '192.0.2.2']
  for (let round = 0; round < 3; round++) for (const of of few) turns.add(of, { of })
  while (done.length < 4 + 2 * 19) await nextTurn()
  const counts = (from: number, count: number): readonly [number, ...number[]] => {
    const taken = done.slice(from, from + count).map(({ of }) => of)
    return [
      taken.filter((of) => many.includes(of)).length,
      ...few.map((each) => taken.filter((of) => of === each).length),
    ]
  }
  assert.deepEqual(counts(4, 19), [16, 1, 1, 1])
  assert.deepEqual(counts(4 + 19, 19), [16, 1, 1, 1])
  for (let before = 0; before < done.length;) {
    before = done.length
    await nextTurn()
  }
  assert.equal(done.length, 4 + 800 + 9)
  const taken = done.map(({ of }) => of).filter((of) => many.includes(of))
  assert.deepEqual(taken, [...many, ...many], 'each address of the crowd once, then each again')
})

test('a /48 whose pieces are gone takes no turns, and those who come later get theirs', async () => {
  const done: Piece[] = []
  const turns = make(done)
  for (let at = 0; at < 4; at++) turns.add('192.0.2.1', { of: 'before' })
  const addresses = Array.from({ length: 30 }, (_, at) => `2001:db8:1:${at.toString(16)}::/64`)
  const pieces: Piece[] = addresses.map((of) => ({ of }))
  for (const piece of pieces) turns.add(piece.of, piece)
  for (const piece of pieces.slice(0, 29)) piece.isGone = true
  turns.add('192.0.2.2', { of: 'other' })
  await nextTurn()
  assert.deepEqual(
    done.slice(4).map(({ of }) => of),
    [addresses[29], 'other'],
  )
  for (const of of addresses) turns.add(of, { of })
  await nextTurn()
  for (let before = 0; before < done.length;) {
    before = done.length
    await nextTurn()
  }
  assert.equal(done.length, 4 + 2 + 30)
})
