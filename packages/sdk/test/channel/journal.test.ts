import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StaticError } from '@static/protocol'
import { Journal, type Writer } from '../../src/channel/journal.ts'
import { type AgentStore, type Change, RefusedChange } from '../../src/ports/index.ts'

const drop = (ref: string): Change => ({ type: 'dropKeyPackage', ref })
const refs = (changes: readonly Change[]): string[] =>
  changes.map((change) => (change.type === 'dropKeyPackage' ? change.ref : change.type))

/** A journal over a store that remembers what was written, and fails when it is told to. */
class Scene {
  readonly writes: string[][] = []
  readonly failures: StaticError[] = []
  broken = false
  unreadable = false
  /** Changes of these KeyPackages are refused. */
  readonly refused = new Set<string>()
  /** What the store calls when it fails between two calls. */
  fail: (error: unknown) => void = () => assert.fail()
  readonly journal: Journal

  constructor() {
    const read = (): never[] => {
      if (this.unreadable) throw StaticError.of('store_corrupt')
      return []
    }
    const store: Pick<AgentStore, 'write' | 'inbox' | 'poison' | 'onFailure'> = {
      inbox: read,
      poison: read,
      onFailure: (listener) => (this.fail = listener),
      write: (changes) => {
        if (this.broken) throw StaticError.of('store_corrupt')
        const odd = changes.find((change) => change.type === 'dropKeyPackage' && this.refused.has(change.ref))
        if (odd) throw new RefusedChange(odd, new RangeError('1.5 is not a whole number.'))
        this.writes.push(refs(changes))
      },
    }
    this.journal = new Journal(store as AgentStore, (error) => this.failures.push(error))
  }

  /** Something with changes of its own. */
  writer(name: string): Writer & { pending: string[]; told: number } {
    const writer = {
      pending: [name],
      told: 0,
      drain: () => writer.pending.splice(0).map(drop),
      abandon: () => assert.fail(),
      written: () => void writer.told++,
    }
    return writer
  }
}

test('all changes of one turn are one transaction: first those without a writer, then those of writers in order', async () => {
  const scene = new Scene()
  const [a, b] = [scene.writer('a'), scene.writer('b')]
  const { journal } = scene
  journal.touch(b)
  journal.add(drop('1'))
  journal.touch(a)
  journal.touch(b)
  journal.add(drop('2'), drop('3'))
  // Asked for at the end of the turn, not when it was touched.
  b.pending.push('b2')
  assert.deepEqual(scene.writes, [])
  await Promise.all([journal.written(), journal.written()])
  assert.deepEqual(scene.writes, [['1', '2', '3', 'b', 'b2', 'a']])
  assert.deepEqual([a.told, b.told], [1, 1])
})

test('changes made during a write belong to the next turn', async () => {
  const scene = new Scene()
  const { journal } = scene
  const writer = scene.writer('a')
  journal.touch({
    drain: () => [],
    abandon: () => assert.fail(),
    written: () => journal.touch(writer),
  })
  await journal.written()
  assert.deepEqual([scene.writes, writer.told], [[[]], 0])
  await journal.written()
  assert.deepEqual([scene.writes, writer.told], [[[], ['a']], 1])
})

test('flush writes immediately, and the turn has nothing left to write', async () => {
  const scene = new Scene()
  const writer = scene.writer('a')
  scene.journal.touch(writer)
  const written = scene.journal.written()
  scene.journal.flush()
  assert.deepEqual([scene.writes, writer.told], [[['a']], 1])
  await written
  await new Promise(setImmediate)
  assert.equal(scene.writes.length, 1)
})

test('when the store fails no writer is called back, and nothing more is written', async () => {
  const scene = new Scene()
  const { journal } = scene
  const writer = scene.writer('a')
  scene.broken = true
  journal.touch(writer)
  await assert.rejects(journal.written(), { code: 'store_corrupt' })
  assert.equal(writer.told, 0)
  assert.deepEqual(
    scene.failures.map(({ code }) => code),
    ['store_corrupt'],
  )
  // Memory is ahead of the disk now, for good.
  scene.broken = false
  journal.touch(writer)
  await assert.rejects(journal.written(), { code: 'store_corrupt' })
  journal.flush()
  await new Promise(setImmediate)
  assert.deepEqual(scene.writes, [])
  assert.equal(writer.told, 0)
  assert.equal(scene.failures.length, 1)
})

test('a store that fails between two calls stops everything, and waiting callers get the error', async () => {
  const scene = new Scene()
  const { journal } = scene
  const writer = scene.writer('a')
  journal.touch(writer)
  const waiting = assert.rejects(journal.written(), { code: 'store_corrupt' })
  scene.fail(StaticError.of('store_corrupt'))
  await waiting
  journal.flush()
  assert.throws(() => journal.inbox('id', 0, 1), { code: 'store_corrupt' })
  assert.deepEqual([scene.writes, writer.told, scene.failures.length], [[], 0, 1])
})

test('a failed read is an error for its caller only, and writing continues', async () => {
  const scene = new Scene()
  const { journal } = scene
  scene.unreadable = true
  assert.throws(() => journal.inbox('id', 0, 1), { code: 'store_corrupt' })
  assert.throws(() => journal.poison('id'), { code: 'store_corrupt' })
  const writer = scene.writer('a')
  journal.touch(writer)
  await journal.written()
  assert.deepEqual([scene.writes.at(-1), writer.told, scene.failures], [['a'], 1, []])
})

for (const at of [0, 1, 2]) {
  test(`a writer that throws, ${at} after the others, is left out alone and drained once more`, async () => {
    const scene = new Scene()
    const { journal } = scene
    const healthy = ['a', 'b'].map((name) => scene.writer(name))
    const causes: unknown[] = []
    const poison = new RangeError('Maximum call stack size exceeded')
    let told = 0
    const failing: Writer = {
      drain: () => {
        if (causes.length === 0) throw poison
        return [drop('broken')]
      },
      abandon: (cause) => {
        causes.push(cause)
        journal.touch(failing)
        journal.add(drop('told'))
      },
      written: () => told++,
    }
    journal.add(drop('1'))
    for (const writer of healthy.toSpliced(at, 0, failing as never)) journal.touch(writer)
    await journal.written()
    assert.deepEqual(scene.writes, [['1', 'a', 'b', 'broken', 'told']])
    assert.deepEqual([causes, told, scene.failures], [[poison], 1, []])
    assert.deepEqual(
      healthy.map((writer) => writer.told),
      [1, 1],
    )
    await new Promise(setImmediate)
    assert.equal(scene.writes.length, 1)
  })
}

test('a writer that always throws is given up for the turn, and the others are written', async () => {
  const scene = new Scene()
  const { journal } = scene
  let asked = 0
  const failing: Writer = {
    drain: () => {
      asked++
      throw new TypeError('never')
    },
    abandon: () => journal.touch(failing),
    written: () => assert.fail(),
  }
  journal.touch(failing)
  journal.touch(scene.writer('a'))
  await journal.written()
  assert.deepEqual([scene.writes, scene.failures, asked], [[['a']], [], 2])
})

test('writers whose changes the store refuses are left out alone, and write something else once', async () => {
  const scene = new Scene()
  const { journal } = scene
  const causes: string[] = []
  /** Has a change that is refused, then others. */
  const refused = (name: string, instead: string): ReturnType<Scene['writer']> => {
    const writer = {
      ...scene.writer(name),
      drain: () => writer.pending.splice(0).map(drop),
      abandon: (cause: unknown) => {
        causes.push(String(cause))
        writer.pending.push(instead)
        journal.touch(writer)
        journal.add(drop(`told ${name}`))
      },
      written: () => void writer.told++,
    }
    scene.refused.add(name)
    writer.pending.push(`${name}, too`)
    return writer
  }
  const [first, hopeless] = [refused('x', 'broken'), refused('y', 'y')]
  const healthy = ['a', 'b'].map((name) => scene.writer(name))
  journal.add(drop('1'))
  for (const writer of [first, healthy[0]!, hopeless, healthy[1]!]) journal.touch(writer)
  await journal.written()
  assert.deepEqual(scene.writes, [['1', 'a', 'b', 'broken', 'told x', 'told y']])
  assert.deepEqual(
    [first, hopeless, ...healthy].map(({ told }) => told),
    [1, 0, 1, 1],
  )
  assert.deepEqual(
    causes.map((cause) => /1.5 is not a whole number/.test(cause)),
    [true, true],
  )
  assert.deepEqual(scene.failures, [])
})

test('a refused change that belongs to no writer stops everything', async () => {
  const scene = new Scene()
  scene.refused.add('1')
  scene.journal.touch(scene.writer('a'))
  scene.journal.add(drop('1'))
  await assert.rejects(scene.journal.written(), { code: 'internal_error' })
  assert.deepEqual([scene.writes, scene.failures.length], [[], 1])
})

test('a writer that is touched by another one while it is drained writes both of its parts', async () => {
  const scene = new Scene()
  const { journal } = scene
  const [a, b] = [scene.writer('a'), scene.writer('b')]
  b.drain = () => {
    if (b.pending.length > 0) journal.touch(a)
    a.pending.push('a2')
    return b.pending.splice(0).map(drop)
  }
  journal.touch(a)
  journal.touch(b)
  await journal.written()
  assert.deepEqual(scene.writes, [['a', 'a2', 'b']])
  assert.deepEqual([a.told, b.told], [1, 1])
})
