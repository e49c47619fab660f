import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StaticError } from '@static/protocol'
import { CatchUp } from '../../src/channel/receiving/catch-up.ts'

/** Who waits, and whether it still does. */
function waiting(catchUp: CatchUp, signal?: AbortSignal): { isOver: () => Promise<boolean>; done: Promise<void> } {
  let over = false
  const done = catchUp.wait(signal).finally(() => {
    over = true
  })
  done.catch(() => {})
  return {
    done,
    isOver: async () => {
      await new Promise(setImmediate)
      return over
    },
  }
}

test('a wait ends when the last entry that the relay reported is processed, not before', async () => {
  const catchUp = new CatchUp()
  const one = waiting(catchUp)
  catchUp.reached(100)
  assert.equal(await one.isOver(), false, 'the relay has told nothing')
  catchUp.expect(5)
  catchUp.reached(4)
  assert.equal(await one.isOver(), false, 'one is missing')
  catchUp.reached(5)
  await one.done
})

test('a forgotten report must be repeated by the relay', async () => {
  const catchUp = new CatchUp()
  catchUp.expect(5)
  const one = waiting(catchUp)
  catchUp.forget()
  catchUp.reached(5)
  assert.equal(await one.isOver(), false)
  catchUp.expect(7)
  catchUp.reached(7)
  await one.done
})

test('the end of the channel ends all waits, and a signal ends its own', async () => {
  const catchUp = new CatchUp()
  const abort = new AbortController()
  const [one, other] = [waiting(catchUp), waiting(catchUp, abort.signal)]
  abort.abort(new Error('enough'))
  await assert.rejects(other.done, /enough/)
  assert.equal(await one.isOver(), false)
  await assert.rejects(catchUp.wait(abort.signal), /enough/)
  catchUp.fail(StaticError.of('removed'))
  await assert.rejects(one.done, { code: 'removed' })
})
