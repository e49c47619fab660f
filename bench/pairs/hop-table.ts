/** Follows round trips through the stamps of their hops: how long a message took from each hop to the next. */
import { median } from '../api/processor.ts'
import { type Hop, HOPS } from './hops.ts'
import type { Cost, Way } from './messages.ts'

/** Microseconds of one leg (a round trip has two), by hop; the median of all legs. */
export interface HopFigures {
  readonly hops: Readonly<Record<string, number>>
  /** Sum of two legs. */
  readonly sum: number
  readonly legs: number
  /** Hops that have no stamp, because this checkout has other code there. */
  readonly missing: readonly string[]
}

type Stamps = ReadonlyMap<string, readonly string[]>

/** The figures of round trips in these bursts. */
export function hopFigures(stamps: Stamps, way: Way, bursts: readonly Cost[]): HopFigures {
  const found = new Set([...stamps.values()].flatMap((lines) => lines.filter((line) => line.startsWith('found '))))
  const isStamped = ({ name, place }: Hop): boolean => place === undefined || found.has(`found ${name}`)
  const wanted = HOPS.filter((hop) => hop.way === undefined || hop.way === way)
  const stamped = wanted.filter(isStamped)
  const times = timesByRole(stamps)
  const between = new Map<string, number[]>(stamped.slice(1).map(({ name }) => [name, []]))
  let legs = 0
  for (const { span } of bursts) {
    for (const [sender, receiver] of [
      ['writer', 'reader'],
      ['reader', 'writer'],
    ] as const) {
      const roles = { sender, relay: 'relay', receiver }
      const of = ({ name, party }: Hop): readonly number[] => times.get(`${roles[party]} ${name}`) ?? []
      const [first, ...rest] = stamped
      const starts = first ? within(of(first), span) : []
      for (const [at, start] of starts.entries()) {
        const leg = follow(
          rest.map((hop) => of(hop)),
          start,
          starts[at + 1] ?? Number.POSITIVE_INFINITY,
        )
        if (!leg) continue
        legs++
        for (const [index, hop] of rest.entries()) between.get(hop.name)?.push((leg[index] ?? 0) / 1000)
      }
    }
  }
  const hops = Object.fromEntries([...between].map(([name, values]) => [name, Math.round(median(values))]))
  const sum = Object.values(hops).reduce((all, one) => all + one, 0) * 2
  return { hops, sum, legs, missing: wanted.filter((hop) => !isStamped(hop)).map(({ name }) => name) }
}

/** The hops of both sides, in microseconds. */
export function hopTable(way: Way, sides: { readonly this: HopFigures; readonly other: HopFigures }): string {
  const cell = (value: number | undefined): string => String(value ?? '–').padStart(8)
  const rows = HOPS.slice(1)
    .filter((hop) => hop.way === undefined || hop.way === way)
    .map(({ name, title }) => `  ${title.padEnd(58)}${cell(sides.this.hops[name])}${cell(sides.other.hops[name])}`)
  const notes = (['this', 'other'] as const).flatMap((side) =>
    sides[side].missing.map((name) => `  ${side}: no stamp for "${name}", counted with the hop after it`),
  )
  return [
    `${way}: µs per leg, p50 of ${sides.this.legs} legs`.padEnd(60) + '    this   other',
    ...rows,
    `  ${'sum of two legs'.padEnd(58)}${cell(sides.this.sum)}${cell(sides.other.sum)}`,
    ...notes,
  ].join('\n')
}

/** From each hop to the next: the first stamp of each that is not before the one before it. */
function follow(hops: readonly (readonly number[])[], start: number, end: number): readonly number[] | undefined {
  const steps: number[] = []
  let now = start
  for (const times of hops) {
    const then = firstFrom(times, now)
    if (then === undefined || then > end) return undefined
    steps.push(then - now)
    now = then
  }
  return steps
}

/** Times by role and hop, ascending; nanoseconds, which a number holds for 104 days after the machine's start. */
function timesByRole(stamps: Stamps): ReadonlyMap<string, readonly number[]> {
  const found = new Map<string, number[]>()
  for (const [role, lines] of stamps) {
    for (const line of lines) {
      const [name = '', time = ''] = line.split(' ')
      if (name === 'found') continue
      const key = `${role} ${name}`
      const times = found.get(key)
      if (times) times.push(Number(time))
      else found.set(key, [Number(time)])
    }
  }
  for (const times of found.values()) times.sort((a, b) => a - b)
  return found
}

function within(times: readonly number[], [start, end]: readonly [string, string]): readonly number[] {
  return times.filter((time) => time >= Number(start) && time <= Number(end))
}

function firstFrom(times: readonly number[], from: number): number | undefined {
  let [low, high] = [0, times.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((times[middle] ?? 0) < from) low = middle + 1
    else high = middle
  }
  return times[low]
}
