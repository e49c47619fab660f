/** The calendar of quotas: UTC months and days. */

/** The UTC month that contains `now`: its start, and the start of the next one. */
export function monthOf(now: number): { readonly start: number; readonly end: number } {
  const date = new Date(now)
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()]
  return { start: Date.UTC(year, month), end: Date.UTC(year, month + 1) }
}

/** The UTC day that contains `now`, YYYY-MM-DD. */
export function dayOf(now: number): string {
  return isoTime(now).slice(0, 10)
}

const MOST_REMEMBERED = 10_000
const written = new Map<number, string>()

/** A time as the API writes it: ISO 8601, UTC, milliseconds. */
export function isoTime(now: number): string {
  // The same few times (when a key was created or last used) are written repeatedly.
  const known = written.get(now)
  if (known !== undefined) return known
  if (written.size >= MOST_REMEMBERED) written.clear()
  const text = new Date(now).toISOString()
  written.set(now, text)
  return text
}
