/** Prometheus metrics of a relay. */
import { addProcessMetrics } from '@static/node/loop-metrics'
import { collectDefaultMetrics, Counter, Histogram, Registry } from 'prom-client'
import type { StreamLimit } from './core/sessions/limits.ts'
import { BUCKETS } from './metrics/buckets.ts'
import { type BusSources, makeBusMetrics } from './metrics/bus.ts'
import { type FilesSources, makeFilesMetrics } from './metrics/files.ts'
import { type LoadSources, makeLoadMetrics } from './metrics/load.ts'
import { type CountMessage, makeMessageMetrics } from './metrics/messages.ts'
import { makeStoreMetrics, type StoreSources } from './metrics/store.ts'
import { makeTrafficMetrics, type TrafficSources } from './metrics/traffic.ts'

export interface Metrics {
  readonly sent: CountMessage
  /** A transaction was committed. */
  committed(milliseconds: number): void
  /** A peer was refused because of this limit. */
  refused(limit: StreamLimit): void
  text(): Promise<string>
}

export function makeMetrics(sources: LoadSources & TrafficSources & StoreSources & BusSources & FilesSources): Metrics {
  const registry = new Registry()
  addProcessMetrics(registry, collectDefaultMetrics)
  const sent = makeMessageMetrics(registry)
  const excess = new Counter({
    name: 'static_relay_limit_refusals_total',
    help: 'Connections, streams and calls refused because of a limit, by its setting under `streams`.',
    labelNames: ['limit'],
    registers: [registry],
  })
  const commits = new Histogram({
    name: 'static_relay_commit_seconds',
    help: 'Time until a transaction was on disk (fsync). Many requests share one.',
    buckets: BUCKETS,
    registers: [registry],
  })
  makeLoadMetrics(registry, sources)
  makeTrafficMetrics(registry, sources)
  makeStoreMetrics(registry, sources)
  makeBusMetrics(registry, sources)
  makeFilesMetrics(registry, sources)
  return {
    sent,
    committed: (milliseconds) => commits.observe(milliseconds / 1000),
    refused: (limit) => excess.inc({ limit }),
    text: () => registry.metrics(),
  }
}
