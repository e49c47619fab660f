/** Output of a process that may be killed at any moment. */
import { writeSync } from 'node:fs'

const PAUSE_MS = 1

/** Writes a line to stdout. Unlike console.log, it is out before anything else happens, even if the reader is slow. */
export function sayAtOnce(line: string): void {
  let left = Buffer.from(`${line}\n`)
  while (left.length > 0) {
    try {
      left = left.subarray(writeSync(1, left))
    } catch (error) {
      // The pipe is full.
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE_MS)
    }
  }
}
