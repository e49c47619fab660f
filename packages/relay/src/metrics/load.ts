/** Prometheus metrics of what a relay has open, the commits it throttled, and its certificate. */
import { Counter, Gauge, type Registry } from 'prom-client'
import type { RelayCounts } from '../core/relay.ts'

/** Sources of numbers that are read on demand. */
export interface LoadSources {
  readonly counts: () => RelayCounts
  /** Sessions, by how their agents reach the relay. */
  readonly transports: () => Readonly<Record<string, number>>
  readonly throttledCommits: () => number
  /** When the certificate expires, in seconds since 1970. */
  readonly certificateExpiry: () => number
}

export function makeLoadMetrics(
  registry: Registry,
  { counts, transports, throttledCommits, certificateExpiry }: LoadSources,
): void {
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
}
