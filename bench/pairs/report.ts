/** The figures of the paired bench: medians and spread of ratios, and the medians of both sides for each message. */
import { median } from '../api/processor.ts'
import { type Burst, type Cost, MEMBERS } from './messages.ts'

/** The same burst at both sides, one right after the other. */
export interface Pair {
  readonly this: Cost
  readonly other: Cost
}

/** This side by the other: the median of all turns, its quarters, and the medians of both. */
export interface Figure {
  readonly unit: string
  readonly ratio: number
  readonly quarters: readonly [number, number]
  readonly this: number
  readonly other: number
  readonly ratios: readonly number[]
}

const PAGE_BYTES = 4096

type Value = (cost: Cost) => number | undefined

/** Compares two sides, each figure for one round trip, message or request; of receivers, for one delivery. */
export function compare({ kind, count }: Burst, pairs: readonly Pair[]): Readonly<Record<string, Figure>> {
  const figures: Record<string, Figure> = {}
  for (const [name, unit, value] of rows(kind, count)) {
    const valued = pairs.flatMap((pair) => {
      const [own, others] = [value(pair.this), value(pair.other)]
      return own === undefined || others === undefined ? [] : [{ own, others, ratio: own / others }]
    })
    // There is no ratio if neither side does any of it.
    const ratios = valued.flatMap(({ ratio }) => (Number.isFinite(ratio) ? [ratio] : [])).sort((a, b) => a - b)
    if (ratios.length === 0) continue
    const at = (share: number): number => round(ratios[Math.floor((ratios.length - 1) * share)] ?? Number.NaN)
    figures[name] = {
      unit,
      ratio: round(median(ratios)),
      quarters: [at(0.25), at(0.75)],
      this: round(median(valued.map(({ own }) => own))),
      other: round(median(valued.map(({ others }) => others))),
      ratios: ratios.map(round),
    }
  }
  return figures
}

/** One line for each figure. */
export function table(title: string, figures: Readonly<Record<string, Figure>>): string {
  const lines = Object.entries(figures).map(([name, { unit, ratio, quarters, ratios, this: own, other }]) =>
    [
      `  ${name.padEnd(18)} ${ratio.toFixed(2)}×`,
      `(half of them ${quarters.map((one) => one.toFixed(2)).join('–')},`,
      `all ${ratios[0]?.toFixed(2)}–${ratios.at(-1)?.toFixed(2)})`,
      ` ${own} ${unit} against ${other}`,
    ].join(' '),
  )
  return [title, ...lines].join('\n')
}

function rows(kind: Burst['kind'], count: number): readonly (readonly [string, string, Value])[] {
  const deliveries = kind === 'fanOut' ? count * MEMBERS : count
  const all = ({ sender, relay, receivers }: Cost): number => sender.cpu + relay.cpu + receivers.cpu
  const trips: (readonly [string, string, Value])[] =
    kind === 'rounds'
      ? [
          ['p50', 'ms', ({ times }) => percentile(times, 0.5)],
          ['p95', 'ms', ({ times }) => percentile(times, 0.95)],
        ]
      : [['wall', 'µs', ({ wall }) => (wall * 1000) / count]]
  const parts = [
    ['sender', count],
    ['relay', count],
    ['receivers', deliveries],
  ] as const
  const ofParts = (kind === 'requests' ? parts.slice(0, 2) : parts).flatMap(([part, per]) => {
    const cpu: Value = (cost) => (cost[part].cpu * 1000) / per
    const pages: Value = ({ [part]: { bytes } }) => (bytes === undefined ? undefined : bytes / PAGE_BYTES / per)
    const syncs: Value = ({ [part]: { syncs: found } }) => (found === undefined ? undefined : found / per)
    return [
      [`${part} CPU`, 'µs', cpu],
      [`${part} pages`, '', pages],
      [`${part} fsyncs`, '', syncs],
    ] as const
  })
  return [...trips, ['CPU of all', 'µs', (cost) => (all(cost) * 1000) / count], ...ofParts]
}

function percentile(times: readonly number[], share: number): number {
  const sorted = times.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length * share)] ?? Number.NaN
}

function round(value: number): number {
  return value >= 100 ? Math.round(value) : Number(value.toFixed(2))
}
