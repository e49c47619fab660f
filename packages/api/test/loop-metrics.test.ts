/** Metrics of a process must not wake it: an idle server would spend most of its time on them. */
import assert from 'node:assert/strict'
import test from 'node:test'
import perfHooks from 'node:perf_hooks'
import { collectDefaultMetrics, Registry } from 'prom-client'
import { addProcessMetrics } from '@static/node/loop-metrics'

const HOUR_MS = 3_600_000

test('no timer measures the event loop, and its figures are not reported', async (t) => {
  const monitor = t.mock.method(perfHooks, 'monitorEventLoopDelay')
  const registry = new Registry()
  addProcessMetrics(registry, collectDefaultMetrics)
  const resolutions = monitor.mock.calls.map(({ arguments: [options] }) => options?.resolution ?? 0)
  assert.equal(resolutions.length, 1)
  assert.ok(resolutions.every((resolution) => resolution >= HOUR_MS))
  const names = registry.getMetricsAsArray().map(({ name }) => name)
  assert.deepEqual(
    names.filter((name) => name.startsWith('nodejs_eventloop')),
    ['nodejs_eventloop_lag_seconds'],
  )
  assert.ok(names.includes('process_cpu_seconds_total'))
})
