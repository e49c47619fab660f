/** Parts of files between their port and the core: each question gets one answer. */
import type { Input } from '../core/io.ts'
import type { PartAnswer, PartAsk, PartGate } from '../ports.ts'

export class PartDesk implements PartGate {
  readonly #handle: (input: Input) => void
  readonly #waiting = new Map<number, (answer: PartAnswer) => void>()

  constructor(handle: (input: Input) => void) {
    this.#handle = handle
  }

  ask(id: number, ask: PartAsk): Promise<PartAnswer> {
    return this.#answered(id, { type: 'partAsked', id, ask })
  }

  store(id: number, checksum: number): Promise<PartAnswer> {
    return this.#answered(id, { type: 'partStored', id, checksum })
  }

  over(id: number): void {
    this.#handle({ type: 'partOver', id })
  }

  answer(id: number, answer: PartAnswer): void {
    this.#waiting.get(id)?.(answer)
    this.#waiting.delete(id)
  }

  #answered(id: number, input: Input): Promise<PartAnswer> {
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve)
      this.#handle(input)
    })
  }
}
