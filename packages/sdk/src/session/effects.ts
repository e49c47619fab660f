/** What the parts of a session's core share: the time of the input that is being handled, and what comes of it. */
import type { Time } from '../ports.ts'
import type { Effect } from './io.ts'

/** Collects the effects of one input. */
export class Effects<Key> {
  now: Time = 0
  /** Whether pongs are kept back. */
  held = false
  #list: Effect<Key>[] = []

  emit(effect: Effect<Key>): void {
    this.#list.push(effect)
  }

  /** Hands over what was collected, in order. */
  take(): readonly Effect<Key>[] {
    const list = this.#list
    if (list.length > 0) this.#list = []
    return list
  }
}
