/** Figures for Prometheus. Labels are routes and codes, never anything about a caller. */
import type { onResponseHookHandler } from 'fastify'
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import type { Service } from '../service.ts'
import type { App } from './app.ts'
import { histogramOf, Times } from './times.ts'

/** Counts every answer and shows what the service is busy with. */
export function useMetrics(app: App, service: Service): Registry {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const all: Times[] = []
  registry.registerMetric(histogramOf('static_api_request_seconds', 'Time to answer, by route and status', all))
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
  // By a hook of each route, which knows its own name: asking the request for it costs more than counting. Paths that do
  // not exist are counted nowhere; anybody could make up any number of them.
  app.addHook('onRoute', (options) => {
    const series = new Map<number, Times>()
    const observe: onResponseHookHandler = (request, reply, done) => {
      const status = reply.statusCode
      let known = series.get(status)
      if (!known) {
        known = new Times({ method: request.method, route: options.url, status })
        series.set(status, known)
        all.push(known)
      }
      known.observe(reply.elapsedTime / 1000)
      done()
    }
    options.onResponse = [options.onResponse ?? [], observe].flat()
  })
  return registry
}
