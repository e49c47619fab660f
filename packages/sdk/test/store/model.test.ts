/** Random writes to both engines: the database always answers as the model in memory does, also after a restart. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { randomNumbers, seedOf } from '@static/testkit/random'
import type { AgentStore, Change } from '../../src/ports/index.ts'
import { makeMemoryStore } from '@static/testkit/store/agent-memory'
import { anyChange } from './any-change.ts'
import { CHANNEL, IDENTITY, makeDirectory, openStore, OTHER } from './support.ts'

const SEED = seedOf(20_261_103)
const WRITES = 400

/** Whether the write was taken. */
function tryWrite(store: AgentStore, changes: readonly Change[]): boolean {
  try {
    store.write(changes)
    return true
  } catch {
    return false
  }
}

test(`${WRITES} random writes, seed ${SEED}`, async (t) => {
  t.diagnostic(`STATIC_SEED=${SEED}`)
  const random = randomNumbers(SEED)
  const below = (limit: number): number => Math.floor(random() * limit)
  const directory = makeDirectory()
  const model = makeMemoryStore(IDENTITY)
  let store = await openStore(directory)
  let taken = 0
  for (let n = 0; n < WRITES; n++) {
    const changes = Array.from({ length: 1 + below(4) }, () => anyChange(below))
    const words = `write ${n}: ${changes.map(({ type }) => type).join(', ')}`
    const expected = tryWrite(model, changes)
    assert.equal(tryWrite(store, changes), expected, words)
    if (expected) taken++
    if (below(50) === 0) store.checkpoint()
    if (below(100) === 0) {
      store.close()
      store = await openStore(directory)
    }
    // Not every time: reading writes to the database what is only in the ring.
    if (below(4) > 0) continue
    assert.deepEqual(store.load(), model.load(), words)
    for (const id of [CHANNEL, OTHER]) {
      assert.deepEqual(store.inbox(id, 2, 3), model.inbox(id, 2, 3), words)
      assert.deepEqual(store.poison(id), model.poison(id), words)
      assert.deepEqual(store.kept(id, 6, 4), model.kept(id, 6, 4), words)
      assert.deepEqual(store.keptSizes(id, 6, 9), model.keptSizes(id, 6, 9), words)
    }
  }
  assert.ok(taken > WRITES / 4 && taken < WRITES, `${taken} of ${WRITES} writes were taken`)
  store.close()
})
