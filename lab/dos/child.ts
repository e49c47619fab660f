/** Runs attacks until it is killed. It reports how often each has reached the servers whenever that number has doubled. */
import { setPriority } from 'node:os'
import { ATTACKS } from './attacks.ts'
import type { Hits, Order } from './target.ts'

// Only what the servers do to answer it may slow the probe down, not its own work.
setPriority(19)
// A flood meets closed connections everywhere.
process.on('uncaughtException', () => {})
process.on('disconnect', () => process.exit(0))
const { attacks, target } = JSON.parse(process.argv[2] ?? '{}') as Order
await Promise.all(
  attacks.map(async (attack) => {
    let hits = 0
    await ATTACKS[attack]?.(target, () => {
      if (Number.isInteger(Math.log2(++hits))) process.send?.({ attack, hits } satisfies Hits)
    })
  }),
)
