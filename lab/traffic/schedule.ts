/** The schedule: blocks of equal length in which each group of connections is idle and active in turn. */

/** The plan of a measurement. Times are milliseconds. */
export interface Schedule {
  /** Since 1970. */
  readonly startsAt: number
  readonly blockMs: number
  readonly blocks: number
}

/** Which blocks a group talks in: those with an even number, or those with an odd one. */
export type Phase = 0 | 1

/** A stretch of time that the classifier looks at. Times are seconds, as in a capture. */
export interface Window {
  readonly from: number
  readonly to: number
  readonly isActive: boolean
}

export const WINDOW_S = 2.4
/** Traffic in flight when a block begins belongs to no window. */
const MARGIN_S = 0.15

/** Whether a group talks in a block. */
export function isActive(block: number, phase: Phase): boolean {
  return block % 2 === phase
}

/** The windows of a group: as many as fit into each block. */
export function windowsOf({ startsAt, blockMs, blocks }: Schedule, phase: Phase): Window[] {
  const windows: Window[] = []
  const fit = Math.floor((blockMs / 1000 - MARGIN_S) / WINDOW_S)
  for (let block = 0; block < blocks; block++) {
    const begins = (startsAt + block * blockMs) / 1000 + MARGIN_S
    for (let at = 0; at < fit; at++) {
      const from = begins + at * WINDOW_S
      windows.push({ from, to: from + WINDOW_S, isActive: isActive(block, phase) })
    }
  }
  return windows
}
