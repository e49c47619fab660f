/**
 * Agents and a relay in a deterministic world, with crashes at every boundary between them and their disks and network.
 * STATIC_SEED=… begins with another seed, STATIC_SEEDS=… plays more of them, STATIC_TELL=1 prints the story of each.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { seedOf } from '@static/testkit/random'
import { World } from '@static/testkit/world'
import { History } from './history.ts'

const FIRST = seedOf(1)
/** About 20 s. */
const SEEDS = Number(process.env['STATIC_SEEDS'] ?? 80)

async function play(seed: number, lines = false): Promise<{ world: World; counts: Record<string, number> }> {
  return await World.live(
    seed,
    async (world) => {
      const history = new History(world)
      try {
        await history.run()
      } catch (cause) {
        throw new Error(`STATIC_SEED=${seed}: ${String(cause)}\n${world.story.join('\n')}`, { cause })
      } finally {
        if (process.env['STATIC_TELL'] === '1') process.stderr.write(`${world.story.join('\n')}\n`)
      }
      return { world, counts: history.counts }
    },
    { lines },
  )
}

test('the same seed gives the same history, byte for byte', async () => {
  const [one, other] = [await play(FIRST, true), await play(FIRST, true)]
  const at = one.world.lines.findIndex((line, at) => line !== other.world.lines[at])
  assert.equal(at, -1, `line ${at}: ${one.world.lines[at]} and ${other.world.lines[at]}`)
  assert.equal(one.world.digest, other.world.digest)
})

test(`${SEEDS} honest histories with crashes, from seed ${FIRST} on`, { timeout: 3_600_000 }, async (t) => {
  const total: Record<string, number> = {}
  const failures: unknown[] = []
  for (let seed = FIRST; seed < FIRST + SEEDS; seed++) {
    try {
      const { counts } = await play(seed)
      for (const [what, times] of Object.entries(counts)) total[what] = (total[what] ?? 0) + times
    } catch (error) {
      failures.push(error)
      if (process.env['STATIC_ALL'] !== '1') break
    }
  }
  t.diagnostic(JSON.stringify(total))
  const kills = (total['killed'] ?? 0) + (total['relay killed'] ?? 0)
  const result = `${SEEDS} histories from seed ${FIRST} on, ${kills} kills, ${total['sent']} messages, ${total['joined']} joins`
  t.diagnostic(`promise T13: ${result}; the same seed gives the same history, byte for byte`)
  if (failures.length > 0) throw new AggregateError(failures, `${failures.length} of ${SEEDS} histories`)
})
