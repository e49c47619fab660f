/** Prometheus metrics of the messages that a relay sends: answers, refusals and pushes. */
import { Counter, Histogram, type Registry } from 'prom-client'
import type { ServerMessage } from '@static/protocol/relay'
import { BUCKETS } from './buckets.ts'

/** Counts a message. `tookMs` is the time that an answer took. */
export type CountMessage = (message: ServerMessage, receivers: number, tookMs: number | undefined) => void

export function makeMessageMetrics(registry: Registry): CountMessage {
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
  const took = new Histogram({
    name: 'static_relay_request_seconds',
    help: 'Time from a request to its answer, by operation; `error` for refusals.',
    labelNames: ['operation'],
    buckets: BUCKETS,
    registers: [registry],
  })
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
  return ({ requestId, body }, receivers, tookMs) => {
    const kind = body.case ?? 'none'
    if (tookMs !== undefined) observe(kind, tookMs)
    if (body.case === 'error') child(refusals, 'code', body.value.code).inc()
    else if (requestId === 0n) child(pushes, 'kind', kind).inc(receivers)
    else child(answers, 'operation', kind).inc()
  }
}
