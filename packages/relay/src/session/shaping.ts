/**
 * Shapes what agents are sent, by the profile of each session (SPEC.md, "Traffic"): whole units and cover at random
 * times in `standard`, a clock in `private` and `strict`. Used by the side that faces the agents: a relay or a proxy.
 */
import { randomInt } from 'node:crypto'
import { CELL_BYTES, CoverClock, paceOf, type TrafficProfileName, UsualTime, wholeUnits } from '@static/protocol'
import type { StreamId, Transport } from '../ports.ts'

/** A session in the `standard` profile. */
interface Covered {
  readonly transport: Transport
  readonly clock: CoverClock
  timer: NodeJS.Timeout
}

/** Cells sent without a clock. */
export interface ShapingCounts {
  real: number
  cover: number
  /** Units of cover dropped because of load. */
  shed: number
}

/** A timer this late means that the process is overloaded: then cover is dropped first. */
const LATE_MS = 50
const STEPS = 2 ** 32

/** The shaping of all sessions. */
export class Shaping {
  readonly counts: ShapingCounts = { real: 0, cover: 0, shed: 0 }
  readonly #isBusy: (stream: StreamId) => boolean
  readonly #usual = new UsualTime()
  readonly #covered = new Map<StreamId, Covered>()

  /** `isBusy` returns whether real cells are queued for a stream. */
  constructor(isBusy: (stream: StreamId) => boolean) {
    this.#isBusy = isBusy
  }

  /** Shapes the stream by its profile from now on. */
  begin(stream: StreamId, transport: Transport, profile: TrafficProfileName, cellsPerSecond: number): void {
    const pace = paceOf(profile, cellsPerSecond)
    if (pace) return transport.pace(stream, pace)
    if (profile === 'off' || this.#covered.has(stream)) return
    const clock = new CoverClock(chance, performance.now())
    this.#covered.set(stream, { transport, clock, timer: this.#wait(stream, clock) })
  }

  /** Writes the same cells to each of the streams. */
  write(transport: Transport, streams: readonly StreamId[], cells: Uint8Array): void {
    const count = cells.length / CELL_BYTES
    this.counts.real += count * streams.length
    const covered = streams.filter((stream) => this.#covered.has(stream))
    if (covered.length === 0) return transport.write(streams, cells)
    const units = wholeUnits(cells)
    this.counts.cover += (units.length / CELL_BYTES - count) * covered.length
    transport.write(covered, units)
    if (covered.length === streams.length) return
    transport.write(
      streams.filter((stream) => !this.#covered.has(stream)),
      cells,
    )
  }

  /** Called when the agent sent cover that asks for an answer. A clocked stream always has cover. */
  asked(stream: StreamId): void {
    const covered = this.#covered.get(stream)
    if (!covered) return
    covered.clock.asked(this.#usual, performance.now())
    clearTimeout(covered.timer)
    covered.timer = this.#wait(stream, covered.clock)
  }

  /** A real message was answered this long after it arrived. */
  answered(tookMs: number): void {
    this.#usual.note(tookMs)
  }

  /** The stream has ended. */
  end(stream: StreamId): void {
    clearTimeout(this.#covered.get(stream)?.timer)
    this.#covered.delete(stream)
  }

  #wait(stream: StreamId, { due }: CoverClock): NodeJS.Timeout {
    return setTimeout(() => this.#cover(stream, due), Math.max(0, Math.ceil(due - performance.now())))
  }

  #cover(stream: StreamId, due: number): void {
    const covered = this.#covered.get(stream)
    if (!covered) return
    const now = performance.now()
    const unit = covered.clock.take(now)
    if (unit && (now - due > LATE_MS || this.#isBusy(stream))) {
      this.counts.shed++
    } else if (unit) {
      this.counts.cover += unit.length / CELL_BYTES
      covered.transport.write([stream], unit)
    }
    covered.timer = this.#wait(stream, covered.clock)
  }
}

/** Cryptographically random, so that no one can predict the next moment from earlier ones. */
function chance(): number {
  return randomInt(STEPS) / STEPS
}
