import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Histogram, Registry } from 'prom-client'
import { histogramOf, Times } from '../src/http/times.ts'

test("times are shown as the library's own histogram shows them", async () => {
  const [name, help] = ['request_seconds', 'Time to answer']
  const [ours, theirs] = [new Registry(), new Registry()]
  const series = [
    { route: '/a', status: 200 },
    { route: '/b"\\', status: 503 },
  ].map((labels) => ({
    labels,
    times: new Times(labels),
  }))
  ours.registerMetric(
    histogramOf(
      name,
      help,
      series.map(({ times }) => times),
    ),
  )
  const buckets = [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10]
  const library = new Histogram({ name, help, labelNames: ['route', 'status'], buckets, registers: [theirs] })
  for (const { labels, times } of series) {
    for (const seconds of [0, 0.001, 0.0011, 0.3, 2, 9.5, 10, 11, 400]) {
      times.observe(seconds)
      library.observe(labels, seconds)
    }
  }
  assert.equal(await ours.metrics(), await theirs.metrics())
})
