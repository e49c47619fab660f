/** Welcomes that wait for the end of an earlier membership are bounded, and none displaces those to other channels. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MAX_WELCOME_BYTES } from '@static/protocol'
import { HeldWelcomes, MOST_HELD, MOST_HELD_BYTES } from '../../src/joining/welcome.ts'

const agent = { context: { journal: { written: () => Promise.resolve() } }, channels: new Map() }

function channel(id: string, index: number, state = 'joined'): never {
  return { id, state, group: {}, history: { position: { index } }, idle: () => Promise.resolve() } as never
}

function offered(id: string, state: string): never {
  return { ...(channel(id, 5, state) as object), group: undefined } as never
}

function welcome(index: number, length = 100): never {
  return { position: { index: BigInt(index) }, welcome: { welcome: new Uint8Array(length) } } as never
}

const indexes = (held: HeldWelcomes, id: string): readonly number[] =>
  held.release(id).map(({ position }) => Number(position?.index))

test('only a Welcome to a later membership is held, until it is released or the session ends', () => {
  const held = new HeldWelcomes(agent as never)
  assert.equal(held.hold(channel('a', 5), welcome(5)), false)
  assert.equal(held.hold(channel('a', 5), welcome(6)), true)
  assert.equal(held.hold(channel('b', 5, 'ended'), welcome(5)), true)
  assert.equal(held.hold(channel('c', 5), welcome(6, MAX_WELCOME_BYTES + 1)), false)
  assert.equal(held.hold(offered('d', 'offered'), welcome(6)), false)
  assert.equal(held.hold(offered('d', 'leaving'), welcome(6)), true)
  assert.deepEqual(indexes(held, 'a'), [6])
  assert.deepEqual(indexes(held, 'a'), [])
  held.clear()
  assert.deepEqual(indexes(held, 'b'), [])
})

test('the last few of a channel are held, and the channel with the most bytes loses its oldest first', () => {
  const held = new HeldWelcomes(agent as never)
  assert.equal(held.hold(channel('honest', 1), welcome(2)), true)
  const others = Array.from({ length: 50 }, (_, at) => `channel ${at}`)
  for (const id of others)
    for (let index = 2; index < 9; index++) held.hold(channel(id, 1), welcome(index, MAX_WELCOME_BYTES))
  const kept = others.map((id) => indexes(held, id))
  assert.ok(kept.every(({ length }) => length <= MOST_HELD))
  assert.ok(kept.flat().length * MAX_WELCOME_BYTES <= MOST_HELD_BYTES)
  assert.deepEqual(kept.at(-1), [8])
  assert.deepEqual(indexes(held, 'honest'), [2])
})
