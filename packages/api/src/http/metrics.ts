/** Figures for Prometheus. Labels are routes and codes, never anything about a caller. */
import { collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { Service } from '../service.ts'
import type { App } from './app.ts'

/** Counts every answer and shows what the service is busy with. */
export function useMetrics(app: App, service: Service): Registry {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const seconds = new Histogram({
    name: 'static_api_request_seconds',
    help: 'Time to answer, by route and status',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10],
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
  gauge('static_api_argon2_running', 'Argon2 runs under way', () => service.hasher.load.running)
  gauge('static_api_argon2_waiting', 'Argon2 runs that wait for a place', () => service.hasher.load.waiting)
  gauge('static_api_argon2_runs', 'Argon2 runs since the start', () => service.hasher.load.runs)
  // Looking a series up by its labels costs more than counting; there are as many as routes and statuses.
  const series = new Map<string, { observe(value: number): void }>()
  app.addHook('onResponse', (request, reply, done) => {
    const { method } = request
    const route = request.routeOptions.url ?? 'none'
    const key = `${method} ${route} ${reply.statusCode}`
    let known = series.get(key)
    if (!known) {
      known = seconds.labels({ method, route, status: reply.statusCode })
      series.set(key, known)
    }
    known.observe(reply.elapsedTime / 1000)
    done()
  })
  return registry
}
