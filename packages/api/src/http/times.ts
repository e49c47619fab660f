/**
 * A Prometheus histogram of times whose series are counted in place. The library's own looks its series up by a text made
 * of the labels, anew for every value, which is too dear on the way of every request.
 */
import type { Histogram } from 'prom-client'

/** Upper bounds of the buckets, in seconds. */
const BOUNDS = [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10]

interface Value {
  readonly metricName: string
  readonly labels: Readonly<Record<string, string | number>>
  readonly value: number
}

/** The times of one kind of request. */
export class Times {
  readonly #labels: Readonly<Record<string, string | number>>
  /** How many were within each bound and above the one before. */
  readonly #within = BOUNDS.map(() => 0)
  #count = 0
  #sum = 0

  constructor(labels: Readonly<Record<string, string | number>>) {
    this.#labels = labels
  }

  /** Counts one time. */
  observe(seconds: number): void {
    this.#count++
    this.#sum += seconds
    for (let at = 0; at < BOUNDS.length; at++) {
      if (seconds > (BOUNDS[at] ?? 0)) continue
      this.#within[at] = (this.#within[at] ?? 0) + 1
      return
    }
  }

  /** What is shown under `name`; each bucket holds the ones before it. */
  values(name: string): Value[] {
    const labels = this.#labels
    let total = 0
    const bucket = (le: number | string, value: number): Value => ({
      metricName: `${name}_bucket`,
      labels: { le, ...labels },
      value,
    })
    return [
      ...BOUNDS.map((bound, at) => bucket(bound, (total += this.#within[at] ?? 0))),
      bucket('+Inf', this.#count),
      { metricName: `${name}_sum`, labels, value: this.#sum },
      { metricName: `${name}_count`, labels, value: this.#count },
    ]
  }
}

/** The histogram of all of them, as the library's registry reads one. */
export function histogramOf(name: string, help: string, all: readonly Times[]): Histogram {
  const get = async (): Promise<unknown> => ({
    name,
    help,
    type: 'histogram',
    aggregator: 'sum',
    values: all.flatMap((times) => times.values(name)),
  })
  // The registry uses nothing else of it.
  return { name, get } as unknown as Histogram
}
