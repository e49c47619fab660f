/** The lies that an agent must notice at once. Each kind is told here, whichever of them the simulation's seeds tell. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { World } from '@static/testkit/world'
import { LyingHistory } from './lying.ts'

const REQUESTS = ['owner', 'members'].flatMap((admit) =>
  ['at once', 'after a restart'].map((when) => `a request again, by ${admit}, ${when}`),
)
const KINDS = ['another entry', 'another declaration', ...REQUESTS]
const SEEDS = 12

test(`each plain lie is told in one of the worlds of seeds 1 to ${SEEDS}, and noticed`, async () => {
  const told = new Set<string>()
  for (let seed = 1; seed <= SEEDS; seed++) {
    await World.live(seed, async (world) => {
      const history = new LyingHistory(world, { stretches: 0 })
      await history.run()
      for (const kind of Object.keys(history.counts)) told.add(kind)
    })
  }
  assert.deepEqual(
    KINDS.filter((kind) => !told.has(kind)),
    [],
  )
})
