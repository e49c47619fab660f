/** Metrics for Prometheus. Labels are routes and status codes, never anything about a caller. */
import type { onResponseHookHandler } from 'fastify'
import packageJson from '../../package.json' with { type: 'json' }
import { addProcessMetrics } from '@static/node/loop-metrics'
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { Service } from '../service.ts'
import type { App } from './app.ts'

/** Upper bounds of the buckets, in seconds. */
const BUCKETS = [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10]

/** Measures every request and the load of the service. */
export function useMetrics(app: App, service: Service, certificateExpiry: () => number | undefined): Registry {
  const registry = new Registry()
  addProcessMetrics(registry, collectDefaultMetrics)
  const seconds = new Histogram({
    name: 'static_api_request_seconds',
    help: 'Request duration, by method, route and status',
    labelNames: ['method', 'route', 'status'],
    buckets: BUCKETS,
    registers: [registry],
  })
  const gauge = (name: string, help: string, read: () => number): Gauge =>
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(read())
      },
    })
  gauge('static_api_argon2_running', 'Argon2 runs in progress', () => service.hasher.load.running)
  gauge('static_api_argon2_waiting', 'Argon2 runs waiting in the queue', () => service.hasher.load.waiting)
  const counter = (name: string, help: string, read: () => number): Counter =>
    new Counter({
      name,
      help,
      registers: [registry],
      collect() {
        this.reset()
        this.inc(read())
      },
    })
  counter('static_api_argon2_runs_total', 'Argon2 runs since the start', () => service.hasher.load.runs)
  counter(
    'static_api_damage_total',
    'Number of times damaged data was found in the database',
    () => service.damage.count,
  )
  new Gauge({
    name: 'static_api_build_info',
    help: 'Versions of Static and of Node',
    labelNames: ['version', 'node'],
    registers: [registry],
  }).set({ version: packageJson.version, node: process.version }, 1)
  const expiry = certificateExpiry()
  if (expiry !== undefined) {
    const help = 'When the certificate expires, in seconds since 1970'
    gauge('static_api_certificate_expiry_timestamp_seconds', help, () => certificateExpiry() ?? 0)
  }
  // A hook on each route. Unknown paths are not counted, because anyone could invent any number of them.
  app.addHook('onRoute', (options) => {
    const observe: onResponseHookHandler = (request, reply, done) => {
      const labels = { method: request.method, route: options.url, status: reply.statusCode }
      seconds.observe(labels, reply.elapsedTime / 1000)
      done()
    }
    options.onResponse = [options.onResponse ?? [], observe].flat()
  })
  return registry
}
