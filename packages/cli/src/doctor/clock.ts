/** Compares the clock of this machine with the API's. */
import { type Finding, fix, ok, skipped } from './finding.ts'

const MS = 1000
/** The API and the relay refuse a token that appears to be from the future. */
const MOST_SECONDS_OFF = 30

/** The finding about the clock, from the Date header of a response. */
export function clockFinding(date: string | undefined): Finding {
  const there = Date.parse(date ?? '')
  if (Number.isNaN(there)) return skipped('clock', 'not checked: the API sends no valid Date header')
  // The Date header has a resolution of one second.
  const off = Math.round((Date.now() - there) / MS)
  if (Math.abs(off) <= MOST_SECONDS_OFF) return ok('clock', 'in sync with the API')
  const how = off > 0 ? 'ahead of' : 'behind'
  return fix(
    'clock',
    `The clock of this machine is ${Math.abs(off)} s ${how} the API. Set it, for example with \`timedatectl set-ntp true\`.`,
  )
}
