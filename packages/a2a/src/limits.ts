/**
 * Bounds of a call and of a response before `@a2a-js/sdk` processes them. Its server copies every value of a call
 * several times, and both ends recurse into each level: within the size limit, a call could cost a second of CPU, and
 * either could overflow the stack.
 */

/** The maximum of each. */
interface Bounds {
  /** Levels of nesting, including the call or response itself. */
  readonly levels: number
  /** Entries in the lists of A2A (parts, extensions, references), in total. */
  readonly entries: number
  /** Values of any kind, including those in `data` and `metadata`. */
  readonly values: number
}

export const CALL_BOUNDS: Bounds = { levels: 100, entries: 4096, values: 32_768 }
/** A client reads each value once, so their number does not matter. */
export const RESPONSE_BOUNDS: Bounds = { levels: 100, entries: Infinity, values: Infinity }

/** Members whose content A2A leaves to the program. */
const FREE: ReadonlySet<string> = new Set(['data', 'metadata'])

interface Visit {
  readonly value: unknown
  readonly level: number
  readonly isFree: boolean
}

/** The bound that a JSON value exceeds, as the end of a sentence; undefined if none. Does not recurse. */
export function excess(root: unknown, bounds: Bounds): string | undefined {
  const pending: Visit[] = [{ value: root, level: 1, isFree: false }]
  let values = 1
  let entries = 0
  for (let visit = pending.pop(); visit; visit = pending.pop()) {
    const { value, level, isFree } = visit
    if (typeof value !== 'object' || value === null) continue
    if (level > bounds.levels) return `is nested more than ${bounds.levels} levels deep`
    const children = Object.entries(value)
    if (!isFree && Array.isArray(value)) entries += children.length
    if (entries > bounds.entries) return `has more than ${bounds.entries} list entries`
    values += children.length
    if (values > bounds.values) return `has more than ${bounds.values} values`
    for (const [key, child] of children) {
      if (typeof child === 'object') pending.push({ value: child, level: level + 1, isFree: isFree || FREE.has(key) })
    }
  }
  return undefined
}
