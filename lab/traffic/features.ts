/**
 * Features that an observer can count in a window of a connection: packets, bytes, sizes and the times between packets.
 */
import { type Phase, type Schedule, WINDOW_S, windowsOf } from './schedule.ts'

/** A packet of one direction. */
export interface Seen {
  /** In seconds since 1970. */
  readonly time: number
  readonly length: number
  /** TCP sent it before: no acknowledgement came in time. */
  readonly isRepeat?: boolean
}

/** All packets of a connection, in order. */
export interface Connection {
  /** Connections of one group live in one process and talk at the same times. */
  readonly group: number
  readonly phase: Phase
  readonly up: readonly Seen[]
  readonly down: readonly Seen[]
}

/** One window as the classifier sees it. */
export interface Sample {
  readonly group: number
  readonly phase: Phase
  readonly isActive: boolean
  readonly features: readonly number[]
}

/** Shorter packets only acknowledge or open windows: a cell is longer, and so is the rest of two. */
export const DATA_BYTES = 200

const OF_DIRECTION = [
  'packets',
  'data packets',
  'bytes',
  'size mean',
  'size deviation',
  'gap mean',
  'gap deviation',
  'gap longest',
  'gap shortest',
  'gap median',
  'gap p90',
] as const

/** The name of each feature. */
export const FEATURES: readonly string[] = ['up', 'down'].flatMap((way) =>
  OF_DIRECTION.map((name) => `${way}: ${name}`),
)

/**
 * The windows of all connections. Each feature is relative to the connection's own mean, so that only changes count.
 */
export function samplesOf(connections: readonly Connection[], schedule: Schedule): Sample[] {
  return connections.flatMap(({ group, phase, up, down }) => {
    const samples = windowsOf(schedule, phase).map(({ from, to, isActive }) => {
      const features = [...featuresOf(between(up, from, to)), ...featuresOf(between(down, from, to))]
      return { group, phase, isActive, features }
    })
    const means = FEATURES.map((_, at) => mean(samples.map(({ features }) => features[at]!)))
    return samples.map(({ features, ...rest }) => ({
      ...rest,
      features: features.map((value, at) => value - means[at]!),
    }))
  })
}

function between(packets: readonly Seen[], from: number, to: number): readonly Seen[] {
  return packets.slice(firstAt(packets, from), firstAt(packets, to))
}

/** Index of the first packet at or after a time. */
function firstAt(packets: readonly Seen[], time: number): number {
  let low = 0
  let high = packets.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (packets[middle]!.time < time) low = middle + 1
    else high = middle
  }
  return low
}

function featuresOf(packets: readonly Seen[]): number[] {
  const data = packets.filter(({ length }) => length >= DATA_BYTES)
  const sizes = data.map(({ length }) => length)
  const gaps = data.slice(1).map(({ time }, at) => time - data[at]!.time)
  if (gaps.length === 0) gaps.push(WINDOW_S)
  gaps.sort((a, b) => a - b)
  return [
    packets.length,
    data.length,
    packets.reduce((sum, { length }) => sum + length, 0),
    mean(sizes),
    deviation(sizes),
    mean(gaps),
    deviation(gaps),
    gaps.at(-1)!,
    gaps[0]!,
    quantile(gaps, 0.5),
    quantile(gaps, 0.9),
  ]
}

export function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length
}

export function deviation(values: readonly number[]): number {
  const middle = mean(values)
  return Math.sqrt(mean(values.map((value) => (value - middle) ** 2)))
}

/** Of values in order. */
export function quantile(sorted: readonly number[], share: number): number {
  const place = (sorted.length - 1) * share
  const low = sorted[Math.floor(place)] ?? 0
  return low + (place % 1) * ((sorted[Math.ceil(place)] ?? low) - low)
}
