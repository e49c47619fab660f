/** Prometheus metrics of the cells sent, real and cover, and of how long real ones waited for their tick. */
import { Counter, Gauge, type Registry } from 'prom-client'
import type { PacingCounts } from '../session/pacing.ts'
import type { ShapingCounts } from '../session/shaping.ts'

/** Sources of numbers that are read on demand. */
export interface TrafficSources {
  readonly shaping: () => ShapingCounts
  readonly pacing: () => readonly PacingCounts[]
}

export function makeTrafficMetrics(registry: Registry, { shaping, pacing }: TrafficSources): void {
  const sum = (pick: (counts: PacingCounts) => number): number => pacing().reduce((all, one) => all + pick(one), 0)
  // The sources are cumulative counters, so each reading replaces the previous one.
  const counter = (name: string, help: string, value: () => number): void => {
    const made: Counter = new Counter({
      name,
      help,
      registers: [registry],
      collect: (): void => {
        made.reset()
        made.inc(value())
      },
    })
  }
  const cells: Counter = new Counter({
    name: 'static_relay_cells_total',
    help: 'Cells sent to agents in sessions, by kind and by whether they were sent on a clock.',
    labelNames: ['kind', 'clock'],
    registers: [registry],
    collect: (): void => {
      cells.reset()
      const { real, cover } = shaping()
      cells.inc({ kind: 'real', clock: 'no' }, real)
      cells.inc({ kind: 'cover', clock: 'no' }, cover)
      for (const paced of pacing()) {
        cells.inc({ kind: 'real', clock: 'yes' }, paced.real)
        cells.inc({ kind: 'cover', clock: 'yes' }, paced.cover)
      }
    },
  })
  counter('static_relay_cover_shed_total', 'Units of cover dropped because of load.', () => shaping().shed)
  counter('static_relay_cell_wait_seconds_total', 'Total time that real cells waited for their tick.', () =>
    sum(({ waitedMs }) => waitedMs / 1000),
  )
  const level: Gauge = new Gauge({
    name: 'static_relay_traffic_sessions',
    help: 'Clocked sessions, by their current cells per second.',
    labelNames: ['cells_per_second'],
    registers: [registry],
    collect: (): void => {
      level.reset()
      for (const { levels } of pacing()) {
        for (const [rate, sessions] of Object.entries(levels)) level.inc({ cells_per_second: rate }, sessions)
      }
    },
  })
}
