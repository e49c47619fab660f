import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Events } from '../../src/core/agent/events.ts'

async function all<Event>(events: AsyncIterable<Event>): Promise<Event[]> {
  const taken: Event[] = []
  for await (const event of events) taken.push(event)
  return taken
}

test('everybody who listens hears everything from then on, in order', async () => {
  const events = new Events<number>()
  events.emit(0)
  const early = events.listen()
  events.emit(1)
  const late = events.listen()
  events.emit(2)
  events.close()
  assert.deepEqual(await all(early), [1, 2])
  assert.deepEqual(await all(late), [2])
  assert.deepEqual(await all(events.listen()), [])
})

test('who waits is woken by an event, and by the end', async () => {
  const events = new Events<number>()
  const listener = events.listen()
  const first = listener.next()
  events.emit(1)
  assert.deepEqual(await first, { done: false, value: 1 })
  const second = listener.next()
  events.close()
  assert.deepEqual(await second, { done: true, value: undefined })
})

test('one who leaves hears nothing more, also while it waits', async () => {
  const events = new Events<number>()
  const listener = events.listen()
  const waiting = listener.next()
  await listener.return?.()
  events.emit(1)
  assert.deepEqual(await waiting, { done: true, value: undefined })
  assert.deepEqual(await listener.next(), { done: true, value: undefined })
})

test('one listener that is asked several times at once answers every time', async () => {
  const events = new Events<number>()
  const listener = events.listen()
  const asked = [listener.next(), listener.next(), listener.next()]
  events.emit(1)
  events.emit(2)
  events.close()
  assert.deepEqual(await Promise.all(asked), [
    { done: false, value: 1 },
    { done: false, value: 2 },
    { done: true, value: undefined },
  ])
})

test('of what nobody reads the newest 1,024 are kept', async () => {
  const events = new Events<number>()
  const listener = events.listen()
  for (let n = 0; n < 1500; n++) events.emit(n)
  events.close()
  const taken = await all(listener)
  assert.deepEqual([taken.length, taken[0], taken.at(-1)], [1024, 476, 1499])
})
