import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StaticError } from '@static/protocol'
import type { InboxEntry, Incoming } from '../../src/channel/receiving/inbox.ts'
import { ID, incoming, Scene } from '../support/inbox-scene.ts'

const MIB = 1024 * 1024

const indexOf = ({ record }: Incoming): number => record.index

async function takeAll(iterator: AsyncIterator<number, undefined>, count: number): Promise<number[]> {
  const taken: number[] = []
  while (taken.length < count) {
    const { value, done } = await iterator.next()
    if (done === true) break
    taken.push(value)
  }
  return taken
}

/** The channel has ended: readers get the error, or the end. */
function endReaders({ inbox }: Scene, error: StaticError | undefined): void {
  inbox.end(error ?? StaticError.of('closed'), error)
}

const upTo = (last: number, first = 1): number[] => Array.from({ length: last - first + 1 }, (_, n) => first + n)

test('payloads are delivered in order, both queued and new ones', async () => {
  const { inbox } = new Scene()
  const reader = inbox.read(indexOf)
  inbox.arrive(incoming(1))
  inbox.arrive(incoming(2))
  const taken = takeAll(reader, 4)
  await new Promise(setImmediate)
  inbox.arrive(incoming(3))
  inbox.arrive(incoming(4))
  assert.deepEqual(await taken, [1, 2, 3, 4])
})

test('several readers share the payloads, and each goes to one of them', async () => {
  const scene = new Scene()
  const readers = [0, 1, 2].map(() => scene.inbox.read(indexOf))
  const waiting = readers.map((reader) => reader.next())
  for (const index of upTo(6)) scene.arrive(index)
  assert.deepEqual(
    (await Promise.all(waiting)).map(({ value }) => value),
    [1, 2, 3],
  )
  const rest = await Promise.all([readers[2]!.next(), readers[0]!.next(), readers[1]!.next()])
  assert.deepEqual(
    rest.map(({ value }) => value),
    [4, 5, 6],
  )
})

test('a payload is settled when the next one is requested, not when the loop is left', async () => {
  const scene = new Scene()
  for (const index of upTo(3)) scene.arrive(index)
  assert.deepEqual(
    scene.write().map(({ type }) => type),
    ['putInbox', 'putInbox', 'putInbox'],
  )
  const reader = scene.inbox.read(({ record }) => record)
  const { value: first } = await reader.next()
  assert.deepEqual(scene.write(), [])
  await reader.next()
  assert.deepEqual(scene.write(), [{ type: 'dropInbox', id: ID, place: { index: 1, part: 0 } }])
  // Its key is gone, too.
  assert.deepEqual(first?.messageKey, new Uint8Array(32))
  await reader.return?.()
  assert.deepEqual(scene.write(), [])
  assert.deepEqual(await reader.next(), { done: true, value: undefined })
  // It comes again, marked, before those behind it.
  const again = scene.inbox.read((entry) => entry)
  const { value: second } = await again.next()
  assert.deepEqual([second?.record.index, second?.redelivered], [2, true])
  const { value: third } = await again.next()
  assert.deepEqual([third?.record.index, third?.redelivered], [3, false])
  scene.write()
  assert.deepEqual([...scene.disk.keys()], [3])
  assert.equal(scene.inbox.isEmpty, false)
})

test('a payload can be settled while it is held, after its loop was left, or twice', async () => {
  const scene = new Scene()
  for (const index of upTo(3)) scene.arrive(index)
  scene.write()
  const reader = scene.inbox.read((entry) => entry)
  const { value: first } = await reader.next()
  scene.inbox.settle(first!)
  assert.deepEqual([...scene.disk.keys()], [1, 2, 3])
  scene.write()
  assert.deepEqual([...scene.disk.keys()], [2, 3])
  const { value: second } = await reader.next()
  await reader.return?.()
  scene.inbox.settle(second!)
  scene.inbox.settle(second!)
  assert.deepEqual(await takeAll(scene.inbox.read(indexOf), 1), [3])
  scene.write()
  assert.deepEqual([...scene.disk.keys()], [3])
})

test('a payload is delivered only after the disk says that it may have been', async () => {
  const scene = new Scene([], 0)
  // Far beyond what the disk allows.
  scene.jump(1000)
  const reader = scene.inbox.read(indexOf)
  let given = false
  const next = reader.next().then(({ value }) => {
    given = true
    return value
  })
  scene.arrive(1001)
  await Promise.resolve()
  assert.equal(given, false)
  scene.write()
  assert.equal(await next, 1001)
  assert.ok(scene.givenUpTo >= 1001)
  // What follows is given at once, before it is written.
  const another = reader.next()
  scene.arrive(1002)
  assert.equal((await another).value, 1002)
})

test('after an orderly close the disk says exactly what was delivered; without a reader, nothing', async () => {
  const scene = new Scene(upTo(3).map((index) => incoming(index).record))
  scene.write()
  assert.equal(scene.givenUpTo, 0)
  const reader = scene.inbox.read(indexOf)
  assert.equal((await reader.next()).value, 1)
  assert.ok(scene.givenUpTo > 1)
  scene.inbox.seal()
  scene.write()
  assert.equal(scene.givenUpTo, 1)
  // Nothing is given after that.
  assert.equal(
    (await Promise.race([reader.next(), new Promise<undefined>((resolve) => setImmediate(() => resolve(undefined)))]))
      ?.value,
    undefined,
  )
  assert.equal(scene.givenUpTo, 1)
})

test('after a crash the bound is lowered to what can have been delivered', async () => {
  const crashed = new Scene([incoming(1).record], 257)
  crashed.inbox.limitGivenBefore(40)
  crashed.inbox.seal()
  crashed.write()
  assert.equal(crashed.givenUpTo, 40)
})

test('a payload that was read ahead counts as delivered when it is passed on', async () => {
  const scene = new Scene(upTo(3).map((index) => incoming(index).record))
  const readers = upTo(3).map(() => scene.inbox.read((entry) => entry, { ahead: true }))
  const entries: InboxEntry[] = []
  for (const reader of readers) entries.push((await reader.next()).value!)
  scene.inbox.given(entries[1]!)
  for (const reader of readers) await reader.return?.()
  const marks: boolean[] = []
  for await (const { redelivered } of scene.inbox.read((entry) => entry)) {
    marks.push(redelivered)
    if (marks.length === 3) break
  }
  assert.deepEqual(marks, [true, true, false])
})

test('a payload that is settled before the turn ends never reaches the disk', async () => {
  const scene = new Scene()
  scene.arrive(1)
  scene.arrive(2)
  const reader = scene.inbox.read((entry) => entry)
  await reader.next()
  scene.inbox.settle((await reader.next()).value!)
  assert.deepEqual(scene.write(), [])
  assert.equal(scene.inbox.isEmpty, true)
})

test('two concurrent calls of next get two payloads, and the second settles the first', async () => {
  const scene = new Scene()
  const reader = scene.inbox.read(indexOf)
  const both = Promise.all([reader.next(), reader.next()])
  scene.arrive(1)
  scene.write()
  scene.arrive(2)
  scene.write()
  assert.deepEqual(
    (await both).map(({ value }) => value),
    [1, 2],
  )
  assert.deepEqual([...scene.disk.keys()], [2])
})

test('a reader that stops while it waits takes no payload', async () => {
  const scene = new Scene()
  const gone = scene.inbox.read(indexOf)
  const waited = gone.next()
  await gone.return?.()
  scene.arrive(1)
  assert.deepEqual(await waited, { done: true, value: undefined })
  assert.deepEqual(await takeAll(scene.inbox.read(indexOf), 1), [1])
})

test('unread payloads are on disk and are loaded page by page, in order', async () => {
  const scene = new Scene()
  for (const index of upTo(1000)) {
    scene.arrive(index)
    if (index % 10 === 0) scene.write()
  }
  const reader = scene.inbox.read(indexOf)
  assert.deepEqual(await takeAll(reader, 256), upTo(256))
  assert.equal(scene.pages, 0)
  assert.deepEqual(await takeAll(reader, 300), upTo(556, 257))
  // More come while there is more on disk than in memory.
  for (const index of upTo(1100, 1001)) scene.arrive(index)
  assert.deepEqual(await takeAll(reader, 544), upTo(1100, 557))
  const last = reader.next()
  scene.arrive(1101)
  assert.equal((await last).value, 1101)
  const end = reader.next()
  scene.write()
  assert.deepEqual([...scene.disk.keys()], [])
  await reader.return?.()
  await end
})

test('a payload that another reader holds is not delivered again from disk', async () => {
  const scene = new Scene()
  const slow = scene.inbox.read(indexOf)
  for (const index of upTo(400)) scene.arrive(index)
  assert.equal((await slow.next()).value, 1)
  const quick = scene.inbox.read(indexOf)
  assert.deepEqual(await takeAll(quick, 399), upTo(400, 2))
  void slow.next()
  void quick.next()
  scene.write()
  assert.equal(scene.disk.size, 0)
})

test('after a restart payloads on disk come first, and are marked if they may have been delivered before', async () => {
  const scene = new Scene(
    upTo(100).map((index) => incoming(index).record),
    50,
  )
  scene.arrive(101)
  const reader = scene.inbox.read((incoming) => incoming)
  const seen: [number, boolean][] = []
  for (let n = 0; n < 101; n++) {
    const { value } = await reader.next()
    if (value) seen.push([value.record.index, value.redelivered])
  }
  assert.deepEqual(
    seen.map(([index]) => index),
    upTo(101),
  )
  assert.deepEqual(
    seen.filter(([, redelivered]) => redelivered).map(([index]) => index),
    upTo(50),
  )
})

test('64 MiB fill the inbox; below half of that there is room again', async () => {
  const scene = new Scene()
  for (const index of upTo(63)) scene.arrive(index, MIB)
  assert.equal(scene.inbox.isFull, false)
  scene.arrive(64, MIB)
  assert.equal(scene.inbox.isFull, true)
  scene.write()
  const reader = scene.inbox.read(indexOf)
  await takeAll(reader, 33)
  assert.equal(scene.inbox.isFull, false)
  assert.equal(scene.inbox.hasRoom, false)
  await takeAll(reader, 1)
  assert.equal(scene.inbox.hasRoom, true)
  assert.equal(new Scene([incoming(1, 64 * MIB).record]).inbox.isFull, true)
})

test('at the end readers get the remaining payloads, then the error; waiting readers get it at once', async () => {
  const scene = new Scene()
  const waiting = scene.inbox.read(indexOf).next()
  endReaders(scene, StaticError.of('removed'))
  await assert.rejects(waiting, { code: 'removed' })
  const later = new Scene()
  later.arrive(1)
  endReaders(later, StaticError.of('removed'))
  // Only the first word counts.
  endReaders(later, StaticError.of('closed'))
  const reader = later.inbox.read(indexOf)
  assert.equal((await reader.next()).value, 1)
  await assert.rejects(reader.next(), { code: 'removed' })
  await assert.rejects(later.inbox.read(indexOf).next(), { code: 'removed' })
  assert.equal(later.inbox.isEmpty, true)
})

test('an end without an error ends the loops', async () => {
  const scene = new Scene()
  scene.arrive(1)
  const waiting = scene.inbox.read(indexOf)
  endReaders(scene, undefined)
  assert.deepEqual(await takeAll(waiting, 9), [1])
  assert.deepEqual(await takeAll(scene.inbox.read(indexOf), 9), [])
})

test('stop ends the current iterators but not later ones', async () => {
  const scene = new Scene()
  const waits = scene.inbox.read(indexOf)
  const idle = scene.inbox.read(indexOf)
  const next = waits.next()
  scene.inbox.stop()
  scene.arrive(1)
  assert.deepEqual(await next, { done: true, value: undefined })
  assert.deepEqual(await idle.next(), { done: true, value: undefined })
  assert.deepEqual(await takeAll(scene.inbox.read(indexOf), 1), [1])
})

test('a payload taken back after a restart goes to one reader, whatever arrives meanwhile', async () => {
  const scene = new Scene()
  scene.jump(1000)
  const [slow, fast] = [scene.inbox.read(indexOf), scene.inbox.read(indexOf)]
  for (const index of upTo(257)) scene.inbox.readmit({ ...incoming(index), redelivered: true })
  scene.write()
  assert.equal((await slow.next()).value, 1)
  // There is no room for it in memory.
  scene.arrive(1001)
  scene.write()
  assert.deepEqual(await takeAll(fast, 257), [...upTo(257, 2), 1001])
})

test('payloads that a reader gives back, however many, are put in order without a look at each of the others', async () => {
  const scene = new Scene()
  const entries: InboxEntry[] = []
  let looks = 0
  for (const index of upTo(8000)) {
    const { record, ...rest } = incoming(index, 1)
    const counting = Object.defineProperty(record, 'index', { get: () => (looks++, index) })
    scene.jump(index)
    entries.push({ ...rest, record: counting, stored: true, settled: false, holder: scene })
  }
  for (const entry of entries) scene.inbox.release(entry)
  assert.ok(looks < 100 * 8000, `${looks} looks`)
  const reader = scene.inbox.read(indexOf)
  for (const index of upTo(300)) assert.equal((await reader.next()).value, index)
})

test('the smallest messages fill the inbox before they fill the memory', () => {
  const scene = new Scene()
  let index = 0
  while (!scene.inbox.isFull && index < 100_000) scene.arrive(++index, 250)
  assert.ok(index <= 55_000, `${index} messages`)
  scene.write()
  assert.equal(new Scene([...scene.disk.values()]).inbox.isFull, true)
})

test('a settled payload is written with whatever is written next, an arrived one at the end of the turn', async () => {
  const scene = new Scene()
  const reader = scene.inbox.read(indexOf)
  scene.arrive(1)
  scene.write()
  await reader.next()
  assert.deepEqual(scene.asked, ['now'])
  void reader.next()
  assert.deepEqual(scene.asked, ['now', 'later'])
  assert.deepEqual(scene.write(), [{ type: 'dropInbox', id: ID, place: { index: 1, part: 0 } }])
})

test('readers get the error of a disk that cannot be read, even in a channel that has ended', async () => {
  for (const end of [undefined, StaticError.of('removed')]) {
    const scene = new Scene(
      upTo(2).map((index) => incoming(index).record),
      2,
    )
    if (end) endReaders(scene, end)
    scene.isDiskBroken = true
    const [reader, other] = [scene.inbox.read(indexOf), scene.inbox.read(indexOf)]
    await assert.rejects(reader.next(), { code: 'store_corrupt' })
    await assert.rejects(other.next(), { code: 'store_corrupt' })
    // Nothing is lost.
    assert.deepEqual([scene.write(), scene.disk.size, scene.inbox.isEmpty], [[], 2, false])
  }
})

test('messages in memory are read before a disk that cannot be read causes an error', async () => {
  const scene = new Scene()
  // More than memory keeps: the last ones are left on disk.
  for (const index of upTo(300)) scene.arrive(index)
  scene.write()
  const reader = scene.inbox.read(indexOf)
  for (const index of upTo(256)) assert.equal((await reader.next()).value, index)
  scene.isDiskBroken = true
  await assert.rejects(reader.next(), { code: 'store_corrupt' })
  scene.write()
})

test('a sweep settles what is over, in memory and on disk, and leaves the rest in order', async () => {
  const scene = new Scene()
  for (const index of upTo(400)) scene.arrive(index)
  scene.write()
  const isEarly = ({ record }: Incoming): boolean => record.index <= 300
  assert.equal(scene.inbox.settledUpTo(400, 0), 0)
  assert.deepEqual(
    scene.inbox.sweep(isEarly).map(({ index }) => index),
    upTo(300),
  )
  assert.equal(scene.inbox.settledUpTo(400, 0), 300)
  scene.write()
  assert.deepEqual([...scene.disk.keys()], upTo(400, 301))
  scene.arrive(401)
  const reader = scene.inbox.read(indexOf)
  assert.deepEqual(await takeAll(reader, 101), upTo(401, 301))
  await reader.return?.()
  scene.inbox.sweep(() => true)
  assert.equal(scene.inbox.isEmpty, true, 'nothing counts twice')
  assert.equal(scene.inbox.settledUpTo(401, 0), 401)
})
