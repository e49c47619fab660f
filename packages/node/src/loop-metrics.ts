/**
 * What a process says of itself to Prometheus, without waking for it. prom-client's histogram of the event loop's delay
 * needs a timer that wakes an idle server a hundred times a second, which costs more than an idle relay does otherwise.
 */

/** The part of prom-client's registry that is needed. */
interface Registry {
  removeSingleMetric(name: string): void
}

/** The histogram's timer cannot be left out, so it runs once a day. */
const HARDLY_EVER_MS = 86_400_000
const PARTS = ['min', 'max', 'mean', 'stddev', 'p50', 'p90', 'p99'] as const

/** Adds prom-client's metrics of the process (`collect`) to a registry, except for the histogram of the loop's delay. */
export function addProcessMetrics<Given extends Registry>(
  registry: Given,
  collect: (options: { readonly register: Given; readonly eventLoopMonitoringPrecision: number }) => void,
): void {
  collect({ register: registry, eventLoopMonitoringPrecision: HARDLY_EVER_MS })
  for (const part of PARTS) registry.removeSingleMetric(`nodejs_eventloop_lag_${part}_seconds`)
}
