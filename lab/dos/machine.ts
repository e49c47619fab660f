/** How much of its time a virtual machine loses to others on the same host. */
import { readFileSync } from 'node:fs'

/** Above this share of lost time, times measured here tell more about the host than about the servers. */
const MOST_LOST = 0.1
/** How many measurements are tried for each that is wanted. */
const TRIES = 120

interface Times {
  readonly busy: number
  readonly stolen: number
}

/** Measures until the host took no time during this many measurements. Rejects if that hardly ever happens. */
export async function undisturbed<Result>(wanted: number, measure: () => Promise<Result>): Promise<readonly Result[]> {
  const results: Result[] = []
  for (let at = 0; at < wanted * TRIES; at++) {
    const before = times()
    const result = await measure()
    const after = times()
    const stolen = after.stolen - before.stolen
    if (stolen <= MOST_LOST * (stolen + after.busy - before.busy)) results.push(result)
    if (results.length === wanted) return results
  }
  throw new Error(
    `The host takes more than ${MOST_LOST * 100} % of the time from this machine. Measure again when it is quiet.`,
  )
}

/** Since the machine started, in ticks of all processors; proc_stat(5) names the columns. */
function times(): Times {
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, stolen = 0] = readFileSync('/proc/stat', 'utf8')
    .split('\n', 1)[0]!
    .split(/\s+/)
    .slice(1)
    .map(Number)
  return { busy: user + nice + system + irq + softirq, stolen }
}
