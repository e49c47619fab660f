/** What a relay counts, in Prometheus form. */
import { collectDefaultMetrics, Counter, Gauge, Registry } from 'prom-client'
import type { ServerMessage } from '@static/protocol/relay'
import type { RelayCounts } from './core/relay.ts'

/** The counters of one relay. */
export interface Metrics {
  sent(message: ServerMessage, receivers: number): void
  text(): Promise<string>
}

/** Makes them. */
export function makeMetrics(counts: () => RelayCounts): Metrics {
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
  const pushes = new Counter({
    name: 'static_relay_pushes_total',
    help: 'Pushes by kind, one for each receiver.',
    labelNames: ['kind'],
    registers: [registry],
  })
  const gauge = (name: keyof RelayCounts, help: string): void => {
    const made: Gauge = new Gauge({
      name: `static_relay_${name}`,
      help,
      registers: [registry],
      collect: (): void => made.set(counts()[name]),
    })
  }
  gauge('streams', 'Streams and calls that are open.')
  gauge('sessions', 'Agents with a session.')
  gauge('requests', 'Requests that wait for their answers.')
  // Looking a label up costs more than counting: the children are kept.
  const children = new Map<string, { inc(value?: number): void }>()
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
    sent({ requestId, body }, receivers) {
      const kind = body.case ?? 'none'
      if (body.case === 'error') child(refusals, 'code', body.value.code).inc()
      else if (requestId === 0n) child(pushes, 'kind', kind).inc(receivers)
      else child(answers, 'operation', kind).inc()
    },
    text: () => registry.metrics(),
  }
}
