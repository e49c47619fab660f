/** Every AEAD encryption of a world: no key may appear twice on the wire. */
import { hash } from 'node:crypto'

/** Hashes of everything that was encrypted. */
export class Seals {
  /** Notified of each encryption, at once. */
  onSeal: ((text: string) => void) | undefined
  /** Faults found. */
  readonly wrong: string[] = []
  /** The key of each ciphertext. Data lost with its process before it was written is encrypted again. */
  readonly #keys = new Map<string, string>()
  readonly #shown = new Map<string, string>()

  /** Something was encrypted. `sealed` has the tag. */
  sealed(key: string, sealed: Uint8Array): void {
    const text = hash('sha256', sealed)
    this.#keys.set(text, key)
    this.onSeal?.(text)
  }

  /** A ciphertext leaves its agent, perhaps again. */
  shown(who: string, ciphertext: Uint8Array): void {
    const text = hash('sha256', ciphertext)
    const key = this.#keys.get(text)
    if (key === undefined) return
    const before = this.#shown.get(key)
    if (before !== undefined && before !== text) this.wrong.push(`${who} sends two messages encrypted with one key`)
    this.#shown.set(key, text)
  }
}
