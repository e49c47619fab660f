/** Identifiers: UUID version 7 (RFC 9562), so that rows sort by creation time. */
import { randomUUID } from 'node:crypto'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** The common start of all identifiers of one millisecond, cached because there are many of them. */
let last = { now: -1, head: '' }

/** Creates an identifier for something created at `now` (milliseconds). */
export function newId(now: number): string {
  if (now !== last.now) {
    const time = now.toString(16).padStart(12, '0')
    last = { now, head: `${time.slice(0, 8)}-${time.slice(8)}-7` }
  }
  // Since Node 26, node:crypto can create these, but only with its own clock. The random part comes from a version 4
  // identifier, which node:crypto draws from a pool.
  return last.head + randomUUID().slice(15)
}

/** Whether a string from outside has the form of an identifier. */
export function isId(text: string): boolean {
  return UUID.test(text)
}
