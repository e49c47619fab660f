/** Identifiers: UUID version 7 (RFC 9562), so that rows sort by the time they were made. */
import { randomUUID } from 'node:crypto'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** How the identifiers of one millisecond begin: there are many of them. */
let last = { now: -1, head: '' }

/** Makes an identifier for something that comes into being at `now` (milliseconds). */
export function newId(now: number): string {
  if (now !== last.now) {
    const time = now.toString(16).padStart(12, '0')
    last = { now, head: `${time.slice(0, 8)}-${time.slice(8)}-7` }
  }
  // node:crypto makes these by itself from version 26 on, but with its own clock. The random part is borrowed
  // from a version 4 identifier, which it draws from a pool.
  return last.head + randomUUID().slice(15)
}

/** Whether a text from outside has the form of an identifier. */
export function isId(text: string): boolean {
  return UUID.test(text)
}
