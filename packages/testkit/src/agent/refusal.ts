/** The error of a refused request. */
import type { Error as WireRefusal } from '@static/protocol/relay'

/** A refusal of the relay. */
export class Refused extends Error {
  readonly code: string
  readonly refusal: WireRefusal

  constructor(refusal: WireRefusal) {
    super(`${refusal.code}: ${refusal.message}`)
    this.code = refusal.code
    this.refusal = refusal
  }
}

/** For `assert.rejects`: a refusal with this code. */
export function refusal(code: string): (error: unknown) => boolean {
  return (error) => {
    if (error instanceof Refused && error.code === code) return true
    throw error
  }
}
