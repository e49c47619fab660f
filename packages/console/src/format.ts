/** Formats numbers and times for the user. Days are UTC, as the API counts them. */

const number = new Intl.NumberFormat()
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', timeZone: 'UTC' })
const fullDay = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone: 'UTC' })
const moment = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' })

const STEPS = [
  ['day', 24 * 3600_000],
  ['hour', 3600_000],
  ['minute', 60_000],
] as const

/** 1,234 */
export function count(value: number): string {
  return number.format(value)
}

const SIZES = ['kB', 'MB', 'GB', 'TB'] as const
const size = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 })

/** 512 bytes, 1.5 kB */
export function bytes(value: number): string {
  if (value < 1000) return value === 1 ? '1 byte' : `${value} bytes`
  const step = Math.min(SIZES.length, Math.floor(Math.log10(value) / 3))
  return `${size.format(value / 1000 ** step)} ${SIZES[step - 1] ?? ''}`
}

/** 3 Nov */
export function shortDay(iso: string): string {
  return day.format(new Date(iso))
}

/** 3 Nov 2026, in UTC */
export function longDay(iso: string): string {
  return fullDay.format(new Date(iso))
}

/** 3 Nov 2026, 14:05, in the user's time zone */
export function at(iso: string): string {
  return moment.format(new Date(iso))
}

/** 5 minutes ago; the date if it is more than 30 days ago */
export function ago(iso: string): string {
  const past = Date.now() - Date.parse(iso)
  const [unit, length] = STEPS.find(([, step]) => past >= step) ?? []
  if (unit === undefined || length === undefined) return 'just now'
  const units = Math.floor(past / length)
  return unit === 'day' && units > 30 ? at(iso) : relative.format(-units, unit)
}
