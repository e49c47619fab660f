/** Prometheus metrics of the bus between nodes. Absent without NATS. */
import { Counter, Gauge, type Registry } from 'prom-client'
import type { CatchUpCounts } from '../core/cluster/cluster.ts'
import type { BusCounts, BusState } from '../ports.ts'

/** The state of the bus and its counts. */
export interface BusFigures {
  readonly state: BusState
  readonly counts: BusCounts
  readonly catchUps: CatchUpCounts
}

/** Sources of numbers that are read on demand. */
export interface BusSources {
  /** Undefined without NATS. */
  readonly bus: () => BusFigures | undefined
}

export function makeBusMetrics(registry: Registry, { bus }: BusSources): void {
  if (!bus()) return
  const gauge = (name: string, help: string, read: (figures: BusFigures) => number): void => {
    const made: Gauge = new Gauge({
      name,
      help,
      registers: [registry],
      collect: (): void => {
        const figures = bus()
        if (figures) made.set(read(figures))
      },
    })
  }
  const counter = (
    name: string,
    help: string,
    label: string,
    read: (figures: BusFigures) => Readonly<Record<string, number>>,
  ): void => {
    const made: Counter = new Counter({
      name,
      help,
      labelNames: label === '' ? [] : [label],
      registers: [registry],
      collect: (): void => {
        const figures = bus()
        if (!figures) return
        made.reset()
        for (const [value, count] of Object.entries(read(figures)))
          made.inc(label === '' ? {} : { [label]: value }, count)
      },
    })
  }
  gauge('static_relay_bus_connected', 'Whether this node is connected to NATS and listens: 1 or 0.', ({ state }) =>
    Number(state.connected),
  )
  gauge('static_relay_bus_nodes', 'Other nodes heard recently.', ({ state }) => state.nodes)
  counter('static_relay_bus_received_total', 'Messages accepted from other nodes.', '', ({ counts }) => ({
    all: counts.received,
  }))
  counter(
    'static_relay_bus_dropped_total',
    'Messages dropped: wrong MAC (mac), seen before (replay), too old or ahead (stale), too many forged ones (deaf).',
    'reason',
    ({ counts }) => ({ ...counts.dropped }),
  )
  counter('static_relay_bus_reconnects_total', 'Reconnections to NATS.', '', ({ counts }) => ({
    all: counts.reconnects,
  }))
  counter('static_relay_bus_doubts_total', 'How often messages may have been missed.', '', ({ counts }) => ({
    all: counts.doubts,
  }))
  counter(
    'static_relay_bus_reads_total',
    'Queries to the database for missed events: ends of logs (heads), other events (notices).',
    'what',
    ({ catchUps }) => ({
      heads: catchUps.heads,
      notices: catchUps.notices,
    }),
  )
  counter('static_relay_bus_gaps_total', 'Channels whose log was longer than this node knew.', '', ({ catchUps }) => ({
    all: catchUps.gaps,
  }))
}
