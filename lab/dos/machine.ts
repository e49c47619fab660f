/** How much of its time a virtual machine loses to others on the same host. */
import { readFileSync } from 'node:fs'

/** Above this share of lost time, times measured here tell more about the host than about the servers. */
const MOST_LOST = 0.1
/** How often a measurement is tried. */
const TRIES = 30

interface Times {
  readonly busy: number
  readonly stolen: number
}

/**
 * Measures until the machine was its own meanwhile, or the result is good all the same: a disturbance makes nothing
 * faster. Rejects if neither is ever so.
 */
export async function undisturbed<Result>(
  measure: () => Promise<Result>,
  disturbed: (lost: number) => void,
  isGood: (result: Result) => boolean = () => false,
): Promise<Result> {
  let lost = 0
  for (let at = 0; at < TRIES; at++) {
    const before = times()
    const result = await measure()
    const after = times()
    const stolen = after.stolen - before.stolen
    lost = stolen / Math.max(1, stolen + after.busy - before.busy)
    if (lost <= MOST_LOST || isGood(result)) return result
    disturbed(lost)
  }
  const share = `${Math.round(lost * 100)} % of its time`
  throw new Error(`The host takes ${share} from this machine. Measure again when it is quiet.`)
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
