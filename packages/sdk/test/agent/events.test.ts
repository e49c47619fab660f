import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Events } from '../../src/agent/events.ts'

async function all<Event>(events: AsyncIterable<Event>): Promise<Event[]> {
  const taken: Event[] = []
  for await (const event of events) taken.push(event)
  return taken
}

test('every listener gets all later events, in order', async () => {
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

test('a waiting listener is woken by an event and by the end', async () => {
  const events = new Events<number>()
  const listener = events.listen()
  const first = listener.next()
  events.emit(1)
  assert.deepEqual(await first, { done: false, value: 1 })
  const second = listener.next()
  events.close()
  assert.deepEqual(await second, { done: true, value: undefined })
})

test('a listener that stops gets nothing more, even while it waits', async () => {
  const events = new Events<number>()
  const listener = events.listen()
  const waiting = listener.next()
  await listener.return?.()
  events.emit(1)
  assert.deepEqual(await waiting, { done: true, value: undefined })
  assert.deepEqual(await listener.next(), { done: true, value: undefined })
})

test('concurrent calls of next on one listener all get an answer', async () => {
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

test('of unread events, the newest 1,024 are kept', async () => {
  const events = new Events<number>()
  const listener = events.listen()
  for (let n = 0; n < 1500; n++) events.emit(n)
  events.close()
  const taken = await all(listener)
  assert.deepEqual([taken.length, taken[0], taken.at(-1)], [1024, 476, 1499])
})
