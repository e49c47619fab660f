/** The calendar of quotas: UTC months and days. */

/** The UTC month that a moment lies in. */
export function monthOf(now: number): { readonly start: number; readonly end: number } {
  const date = new Date(now)
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()]
  return { start: Date.UTC(year, month), end: Date.UTC(year, month + 1) }
}

/** The UTC day of a moment, YYYY-MM-DD. */
export function dayOf(now: number): string {
  return isoTime(now).slice(0, 10)
}

const MOST_REMEMBERED = 10_000
const written = new Map<number, string>()

/** A moment as the API writes it: ISO 8601, UTC, milliseconds. */
export function isoTime(now: number): string {
  // The same few moments (when a key was made, last used) are written again and again.
  const known = written.get(now)
  if (known !== undefined) return known
  if (written.size >= MOST_REMEMBERED) written.clear()
  const text = new Date(now).toISOString()
  written.set(now, text)
  return text
}
