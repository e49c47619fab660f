/** Prometheus metrics of a relay. */
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { ServerMessage } from '@static/protocol/relay'
import type { StreamLimit } from './core/limits.ts'
import type { LeaseCounts } from './core/quota.ts'
import type { RelayCounts } from './core/relay.ts'
import type { StoreCensus, Time } from './ports.ts'
import type { PacingCounts } from './session/pacing.ts'
import type { ShapingCounts } from './session/shaping.ts'
import { makeStoreMetrics } from './store-metrics.ts'

/** The counters of one relay. */
export interface Metrics {
  /** `tookMs` is the time that an answer took. */
  sent(message: ServerMessage, receivers: number, tookMs: number | undefined): void
  /** A transaction was committed. */
  committed(milliseconds: number): void
  /** A peer was refused because of this limit. */
  refused(limit: StreamLimit): void
  text(): Promise<string>
}

/** Sources of the numbers that are read on demand. */
export interface MetricsSources {
  readonly counts: () => RelayCounts
  /** Sessions, by how their agents reach the relay. */
  readonly transports: () => Readonly<Record<string, number>>
  readonly throttledCommits: () => number
  readonly shaping: () => ShapingCounts
  readonly pacing: () => readonly PacingCounts[]
  /** When the certificate expires, in seconds since 1970. */
  readonly certificateExpiry: () => number
  readonly leases: () => LeaseCounts
  /** What the store held at its last count. */
  readonly census: () => StoreCensus | undefined
  /** Free bytes on the disk of the store; undefined if it has none. */
  readonly diskFree: () => Promise<number | undefined>
  readonly now: () => Time
  readonly version: string
}

/** Upper bounds of the buckets, in seconds. */
const BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5]

/** Creates the metrics. */
export function makeMetrics(sources: MetricsSources): Metrics {
  const { counts, transports, throttledCommits, shaping, pacing, certificateExpiry } = sources
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const answers = new Counter({
    name: 'static_relay_answers_total',
    help: 'Answers by operation.',
    labelNames: ['operation'],
    registers: [registry],
  })
  const refusals = new Counter({
    name: 'static_relay_refusals_total',
    help: 'Requests refused, by error code.',
    labelNames: ['code'],
    registers: [registry],
  })
  const excess = new Counter({
    name: 'static_relay_limit_refusals_total',
    help: 'Connections, streams and calls refused because of a limit, by its setting under `streams`.',
    labelNames: ['limit'],
    registers: [registry],
  })
  const pushes = new Counter({
    name: 'static_relay_pushes_total',
    help: 'Pushes by kind, one for each receiver.',
    labelNames: ['kind'],
    registers: [registry],
  })
  const took = new Histogram({
    name: 'static_relay_request_seconds',
    help: 'Time from a request to its answer, by operation; `error` for refusals.',
    labelNames: ['operation'],
    buckets: BUCKETS,
    registers: [registry],
  })
  const commits = new Histogram({
    name: 'static_relay_commit_seconds',
    help: 'Time that a transaction took to be on disk (fsync). Many requests share one.',
    buckets: BUCKETS,
    registers: [registry],
  })
  const gauge = (name: 'streams' | 'requests', help: string): void => {
    const made: Gauge = new Gauge({
      name: `static_relay_${name}`,
      help,
      registers: [registry],
      collect: (): void => made.set(counts()[name]),
    })
  }
  gauge('streams', 'Open streams and calls.')
  gauge('requests', 'Requests waiting for their answers.')
  const sessions: Gauge = new Gauge({
    name: 'static_relay_sessions',
    help: 'Agents with a session, by how they reach the relay.',
    labelNames: ['transport'],
    registers: [registry],
    collect: (): void => {
      for (const [transport, count] of Object.entries(transports())) sessions.set({ transport }, count)
    },
  })
  const throttled: Counter = new Counter({
    name: 'static_relay_commits_throttled_total',
    help: 'Commits refused by rate limits.',
    registers: [registry],
    collect: (): void => {
      throttled.reset()
      throttled.inc(throttledCommits())
    },
  })
  const expiry: Gauge = new Gauge({
    name: 'static_relay_certificate_expiry_timestamp_seconds',
    help: 'When the certificate expires, in seconds since 1970.',
    registers: [registry],
    collect: (): void => expiry.set(certificateExpiry()),
  })
  makeTrafficMetrics(registry, shaping, pacing)
  makeStoreMetrics(registry, sources)
  // Looking up a label costs more than counting, so the children are kept.
  const children = new Map<string, { inc(value?: number): void }>()
  const timers = new Map<string, { observe(value: number): void }>()
  const observe = (operation: string, milliseconds: number): void => {
    let timer = timers.get(operation)
    if (!timer) {
      timer = took.labels({ operation })
      timers.set(operation, timer)
    }
    timer.observe(milliseconds / 1000)
  }
  const child = (counter: Counter, label: string, value: string): { inc(value?: number): void } => {
    const key = `${label}/${value}`
    let found = children.get(key)
    if (!found) {
      found = counter.labels({ [label]: value })
      children.set(key, found)
    }
    return found
  }
  return {
    sent({ requestId, body }, receivers, tookMs) {
      const kind = body.case ?? 'none'
      if (tookMs !== undefined) observe(kind, tookMs)
      if (body.case === 'error') child(refusals, 'code', body.value.code).inc()
      else if (requestId === 0n) child(pushes, 'kind', kind).inc(receivers)
      else child(answers, 'operation', kind).inc()
    },
    committed: (milliseconds) => commits.observe(milliseconds / 1000),
    refused: (limit) => excess.inc({ limit }),
    text: () => registry.metrics(),
  }
}

/** Cells sent, real and cover, and how long real ones waited for their tick. */
function makeTrafficMetrics(
  registry: Registry,
  shaping: () => ShapingCounts,
  pacing: () => readonly PacingCounts[],
): void {
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
