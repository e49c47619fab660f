import assert from 'node:assert/strict'
import { mock, test, type TestContext } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Pace } from '../src/pace.ts'

/** Asks for turns, and notes which came and which did not. */
function makeLine(
  t: TestContext,
  most: number,
): { ask: (key: string, name: string, isGone?: () => boolean) => void; log: string[] } {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.after(() => mock.timers.reset())
  const pace = new Pace(100, most)
  const log: string[] = []
  const ask = (key: string, name: string, isGone?: () => boolean): void => {
    void pace.turn(key, isGone).then((isDue) => log.push(isDue ? name : `not ${name}`))
  }
  return { ask, log }
}

async function pass(ms: number): Promise<void> {
  mock.timers.tick(ms)
  await nextTurn()
}

test('one begins at once, the others one by one, the newest first, and each key has its own pace', async (t) => {
  const { ask, log } = makeLine(t, 10)
  for (const name of ['a', 'b', 'c']) ask('one', name)
  ask('two', 'd')
  await pass(0)
  assert.deepEqual(log, ['a', 'd'])
  await pass(100)
  assert.deepEqual(log, ['a', 'd', 'c'])
  await pass(99)
  assert.deepEqual(log, ['a', 'd', 'c'])
  await pass(1)
  assert.deepEqual(log, ['a', 'd', 'c', 'b'])
  ask('one', 'e')
  await pass(99)
  assert.deepEqual(log, ['a', 'd', 'c', 'b'])
  await pass(1)
  assert.deepEqual(log, ['a', 'd', 'c', 'b', 'e'])
  await pass(100)
  ask('one', 'f')
  await pass(0)
  assert.deepEqual(log, ['a', 'd', 'c', 'b', 'e', 'f'])
})

test('beyond the number that may wait, the one that waits longest gets no turn', async (t) => {
  const { ask, log } = makeLine(t, 2)
  for (const name of ['a', 'b', 'c', 'd']) ask('one', name)
  await pass(0)
  assert.deepEqual(log, ['a', 'not b'])
  await pass(100)
  await pass(100)
  assert.deepEqual(log, ['a', 'not b', 'd', 'c'])
})

test('one that is gone when its turn comes leaves it to the next', async (t) => {
  const { ask, log } = makeLine(t, 10)
  for (const name of ['a', 'b']) ask('one', name)
  for (const name of ['c', 'd']) ask('one', name, () => true)
  await pass(100)
  assert.deepEqual(log, ['a', 'not d', 'not c', 'b'])
})
