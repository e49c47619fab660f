import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StaticError } from '@static/protocol'
import { CatchUp } from '../../src/core/catch-up.ts'

/** Who waits from an index on, and whether it still does. */
function waiting(catchUp: CatchUp, index: number): { readonly isOver: () => Promise<boolean>; done: Promise<void> } {
  let over = false
  const done = catchUp.wait(index).finally(() => {
    over = true
  })
  return {
    done,
    isOver: async () => {
      await new Promise(setImmediate)
      return over
    },
  }
}

test('who waits is told when the last entry that the relay has told of is processed, not before', async () => {
  const catchUp = new CatchUp()
  const early = waiting(catchUp, 3)
  catchUp.reached(100)
  assert.equal(await early.isOver(), false, 'the relay has told nothing')
  catchUp.expect(5)
  catchUp.reached(4)
  assert.equal(await early.isOver(), false, 'one is missing')
  catchUp.reached(5)
  await early.done
  await waiting(catchUp, 5).done
})

test('after a lost session the word of the next one counts', async () => {
  const catchUp = new CatchUp()
  catchUp.expect(5)
  const one = waiting(catchUp, 4)
  catchUp.forget()
  const other = waiting(catchUp, 5)
  catchUp.reached(5)
  assert.deepEqual([await one.isOver(), await other.isOver()], [false, false])
  catchUp.expect(7)
  catchUp.reached(7)
  await Promise.all([one.done, other.done])
})

test('what ends everything ends waiting', async () => {
  const catchUp = new CatchUp()
  const one = waiting(catchUp, 0)
  catchUp.fail(StaticError.of('removed'))
  await assert.rejects(one.done, { code: 'removed' })
})
