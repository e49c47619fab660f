/** Runs attacks until it is killed, and regularly reports the progress of each. */
import { setPriority } from 'node:os'
import { ATTACKS } from './attacks.ts'
import type { Counts, Order, Report } from './target.ts'

const REPORT_MS = 100

// Only the servers' work may slow the probe down, not the attacker's own.
setPriority(19)
// A flood meets closed connections everywhere.
process.on('uncaughtException', () => {})
process.on('disconnect', () => process.exit(0))
const { attacks, target } = JSON.parse(process.argv[2] ?? '{}') as Order
await Promise.all(
  attacks.map(async (attack) => {
    const counts: Counts = { hits: 0, tried: 0, held: 0 }
    setInterval(() => process.send?.({ attack, counts } satisfies Report), REPORT_MS)
    await ATTACKS[attack]?.(target, counts)
  }),
)
