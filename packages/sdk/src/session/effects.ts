/** Shared by the parts of a session's core: the time of the current input, and the effects collected so far. */
import type { Time } from '../ports/index.ts'
import type { Effect } from './io.ts'

/** Collects the effects of one input. */
export class Effects<Key> {
  now: Time = 0
  /** Whether pongs are withheld. */
  held = false
  #list: Effect<Key>[] = []

  emit(effect: Effect<Key>): void {
    this.#list.push(effect)
  }

  /** Returns the collected effects, in order, and clears them. */
  take(): readonly Effect<Key>[] {
    const list = this.#list
    if (list.length > 0) this.#list = []
    return list
  }
}
