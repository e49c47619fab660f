/** The figures of the contenders: medians of the rounds, ratios of ours to the peer's, and a table of both. */
import { median } from '../api/processor.ts'

/** Figures of two members. */
export interface PairFigures {
  readonly roundTripP50Ms: number
  readonly roundTripP95Ms: number
  readonly messagesEarly: number
  readonly messagesLate: number
}

/** Figures of a sender and ten members. */
export interface FanOutFigures {
  readonly deliveriesEarly: number
  readonly deliveriesLate: number
}

/** The figures of a round. */
export type Figures = PairFigures & FanOutFigures

const TITLES: Readonly<Record<keyof Figures, string>> = {
  roundTripP50Ms: 'round trip p50, ms',
  roundTripP95Ms: 'round trip p95, ms',
  messagesEarly: 'messages a second to one, early',
  messagesLate: 'messages a second to one, late',
  deliveriesEarly: 'deliveries a second to ten, early',
  deliveriesLate: 'deliveries a second to ten, late',
}
const FIELDS = Object.keys(TITLES) as (keyof Figures)[]

/** The median of each figure. */
export function medians(rounds: readonly Figures[]): Figures {
  return map((field) => median(rounds.map((round) => round[field])))
}

/** Each figure of ours as a multiple of the peer's. */
export function ratios(ours: Figures, peer: Figures): Figures {
  return map((field) => Number((ours[field] / peer[field]).toFixed(2)))
}

/** A line for each figure, a column for each set of them. */
export function table(columns: Readonly<Record<string, Figures>>): string {
  const rows = [['', ...Object.keys(columns)]]
  for (const field of FIELDS) rows.push([TITLES[field], ...Object.values(columns).map((set) => String(set[field]))])
  const width = (column: number): number => Math.max(...rows.map((row) => row[column]?.length ?? 0))
  const pad = (cell: string, at: number): string => (at === 0 ? cell.padEnd(width(at)) : cell.padStart(width(at)))
  return rows.map((row) => row.map(pad).join('  ')).join('\n')
}

function map(value: (field: keyof Figures) => number): Figures {
  return Object.fromEntries(FIELDS.map((field) => [field, value(field)])) as unknown as Figures
}
