/**
 * Runs the clocks of streams that send one cell at a time (SPEC.md, "Traffic"): for QUIC in the endpoint's thread,
 * which does nothing else; for gRPC in the thread of its sockets.
 */
import { randomInt } from 'node:crypto'
import { type Pace, Pacer } from '@static/protocol'

/** Cells sent and time waited by the clocks of a thread, and the number of streams at each level. */
export interface PacingCounts {
  readonly real: number
  readonly cover: number
  readonly waitedMs: number
  /** Number of streams by their cells per second. */
  readonly levels: Readonly<Record<number, number>>
}

interface Paced {
  readonly pacer: Pacer
  readonly write: (cell: Uint8Array) => void
  timer: NodeJS.Timeout
  /** Called when the last cell is sent, and the deadline for it. */
  ending?: { readonly done: () => void; readonly by: number }
}

/** How long queued cells are still sent when a stream ends. */
const END_MS = 2000
const STEPS = 2 ** 32

/** The clocks of a thread. */
export class Pacing {
  readonly #streams = new Map<number, Paced>()
  readonly #past = { real: 0, cover: 0, waitedMs: 0 }

  get counts(): PacingCounts {
    const sum = { ...this.#past }
    const levels: Record<number, number> = {}
    for (const { pacer } of this.#streams.values()) {
      add(sum, pacer.counts)
      levels[pacer.level] = (levels[pacer.level] ?? 0) + 1
    }
    return { ...sum, levels }
  }

  /** Starts the clock of a stream; `write` gets one cell at each tick. */
  start(stream: number, pace: Pace, write: (cell: Uint8Array) => void): void {
    if (this.#streams.has(stream)) return
    const pacer = new Pacer(pace, chance, performance.now())
    this.#streams.set(stream, { pacer, write, timer: this.#wait(stream, pacer) })
  }

  /** Queues cells of a stream; returns false if it has no clock. */
  push(stream: number, cells: Uint8Array, urgent: boolean): boolean {
    const paced = this.#streams.get(stream)
    // Copied: they may be a view of everything sent in one turn, all of which would stay in memory while they wait.
    if (paced && !paced.ending) paced.pacer.push(new Uint8Array(cells), urgent, performance.now())
    return paced !== undefined
  }

  /** Calls `done` once the queue is sent or its time is up. Without a clock: immediately. */
  end(stream: number, done: () => void): void {
    const paced = this.#streams.get(stream)
    if (!paced) done()
    else paced.ending ??= { done, by: performance.now() + END_MS }
  }

  /** Forgets a closed stream. */
  drop(stream: number): void {
    const paced = this.#streams.get(stream)
    if (!paced) return
    clearTimeout(paced.timer)
    this.#streams.delete(stream)
    add(this.#past, paced.pacer.counts)
  }

  #wait(stream: number, { due }: Pacer): NodeJS.Timeout {
    return setTimeout(() => this.#tick(stream), Math.max(0, Math.ceil(due - performance.now())))
  }

  #tick(stream: number): void {
    const paced = this.#streams.get(stream)
    if (!paced) return
    const { pacer, ending } = paced
    const now = performance.now()
    if (ending && (pacer.waiting === 0 || now > ending.by)) {
      this.drop(stream)
      return ending.done()
    }
    paced.write(pacer.tick(now))
    paced.timer = this.#wait(stream, pacer)
  }
}

function add(sum: { real: number; cover: number; waitedMs: number }, more: typeof sum): void {
  sum.real += more.real
  sum.cover += more.cover
  sum.waitedMs += more.waitedMs
}

/** Cryptographically random, so that no one can predict the next tick from earlier ones. */
function chance(): number {
  return randomInt(STEPS) / STEPS
}
